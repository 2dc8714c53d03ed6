"""Nodes under the watch of system calls: how one begins, and how its calls are named."""

from __future__ import annotations

import os
import select
import sys
from functools import partial
from pathlib import Path
from queue import Queue
from signal import SIGKILL
from typing import Any

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import parse
from sinkproof.chaos.services.cassandra.local_cassandra import LocalCassandra
from sinkproof.chaos.services.inside_run import CallWindow, InsideRun, is_inside_service
from sinkproof.chaos.services.running_services import ServiceHandle, new_service
from sinkproof.chaos.services.watched_service import DataFolderNames, WatchedService
from sinkproof.chaos.system_calls.acts import Act
from sinkproof.chaos.system_calls.supervisor import SystemCallWatch
from sinkproof.chaos.system_calls.watched_program import NotWatched

SOON = 60.0  # seconds: ends a test that has failed
WRITES_AND_SENDS = """
import socket, sys
ours, theirs = socket.socketpair()
ours.send(b"a reply")
with open(sys.argv[1] + "/log", "ab", buffering=0) as log:
    log.write(b"1")
    log.write(b"2")
"""
needs_watch = pytest.mark.usefixtures("watch_of_system_calls")


@pytest.fixture
def handle(homes: Path) -> ServiceHandle:
    return new_service("test", {}, owner=os.getpid())


@needs_watch
@pytest.mark.parametrize(("armed", "left"), [(None, b"12"), (("syscall(write log)", 2, Act.KILL), b"1")])
def test_a_watched_node_is_killed_before_a_call_of_its_folder_and_what_it_sends_is_no_place(
    handle: ServiceHandle, tmp_path: Path, armed: tuple[str, int, Act] | None, left: bytes
) -> None:
    listener = handle.spawn_watched("node-1", [sys.executable, "-c", WRITES_AND_SENDS, str(tmp_path)])
    kill = partial(handle.signal, "node-1", SIGKILL)
    watch = SystemCallWatch(listener, DataFolderNames(str(tmp_path)), kill=kill, armed=armed)
    assert handle.await_end("node-1", Deadline(SOON))
    assert ["syscall(openat log)", "syscall(write log)", "syscall(write log)"] == watch.take_points()
    assert (armed and Act.KILL) == watch.take_strike()
    watch.close()
    assert left == (tmp_path / "log").read_bytes()
    status = handle.status_of("node-1")
    assert status is not None
    assert ((-SIGKILL, True) if armed else (0, False)) == (status.exit_status, status.end_requested)
    handle.end()


@needs_watch
def test_the_strike_is_known_before_the_node_is_dead(handle: ServiceHandle, tmp_path: Path) -> None:
    """Else what notices the death first takes it for one of the node's own."""
    known: list[bool] = []
    made: Queue[SystemCallWatch] = Queue()

    def kill() -> None:
        readable, _, _ = select.select([made.get(timeout=SOON).struck], [], [], 0)
        known.append(bool(readable))
        handle.signal("node-1", SIGKILL)

    listener = handle.spawn_watched("node-1", [sys.executable, "-c", WRITES_AND_SENDS, str(tmp_path)])
    armed = "syscall(write log)", 2, Act.KILL
    watch = SystemCallWatch(listener, DataFolderNames(str(tmp_path)), kill=kill, armed=armed)
    made.put(watch)
    assert handle.await_end("node-1", Deadline(SOON))
    watch.close()
    assert [True] == known
    handle.end()


@needs_watch
def test_a_watched_node_that_cannot_be_run_says_so(handle: ServiceHandle, tmp_path: Path) -> None:
    listener = handle.spawn_watched("node-1", ["/nothing/here"])
    watch = SystemCallWatch(listener, DataFolderNames(str(tmp_path)), kill=lambda: None)
    assert handle.await_end("node-1", Deadline(SOON))
    watch.close()
    assert "cannot run /nothing/here: " in handle.last_output("node-1")
    handle.end()


class OneNode:
    """In place of a LocalService; nothing runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.nodes, self.title, self.version = folder, ["node-1"], "one node", "1"
        self.on_spawn: object = None
        self.is_watched = True

    def data_folder(self, node: str) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        if self.on_spawn is not None and not self.is_watched:
            raise NotWatched("no watch here")

    def stop(self) -> None:
        """Nothing runs."""

    kill = stop


def test_what_a_service_had_before_a_watch_is_copied_anew_for_each_and_removed(tmp_path: Path) -> None:
    service: Any = OneNode(tmp_path)
    data, before = tmp_path / "data", tmp_path / "data-before"
    before.mkdir()
    (before / "of an earlier watch").touch()
    data.mkdir()
    (data / "log").write_text("1")
    for number in ("1", "2"):
        (data / "log").write_text(number)
        with WatchedService(service, await_settled=lambda: None) as watched:
            (data / "log").unlink()
            (data / "of this watch").touch()
            watched.renew()
            assert {"log": number} == {file.name: file.read_text() for file in data.iterdir()}
        assert not before.exists()
    service.is_watched = False
    with pytest.raises(NotWatched), WatchedService(service, await_settled=lambda: None):
        pass
    assert not before.exists()


def test_what_passes_once_without_a_request_is_no_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the rest of a commit, on a busy machine."""
    passed = iter([["of the last run"], ["heartbeat", "rest of a commit"], [], ["heartbeat"]])
    monkeypatch.setattr(WatchedService, "_take", lambda _: next(passed))
    monkeypatch.setattr(WatchedService, "_is_readable", lambda _, seconds: False)
    service: Any = OneNode(tmp_path)
    assert {"heartbeat"} == WatchedService(service, await_settled=lambda: None).background()


@pytest.mark.parametrize("drawn", ["abcdefgh", "ab_12_gh", "x8a9b2c3"])
def test_what_is_named_after_a_scratch_folder_has_one_name_in_each_process(drawn: str, tmp_path: Path) -> None:
    names = DataFolderNames(str(tmp_path))
    assert "*-*-*/*.log" == names.below(f"{names.folder}/sinkproof-123-{drawn}-4-0/0000.log")
    assert "" == names.below(f"/elsewhere/sinkproof-123-{drawn}")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data/system/local-{}/nb-3-big-Data.db", "data/system/*/nb-*-big-Data.db"),
        ("data/system_schema/views-{}/nb-1-big-Data.db", "data/system/*/nb-*-big-Data.db"),
        ("data/system/paxos-{}/nb-1-big-Data.db", "data/system/paxos-*/nb-*-big-Data.db"),
        ("data/own/staged-{}/nb-1-big-Data.db", "data/own/*/nb-*-big-Data.db"),
        ("data/system/_paxos_repair_state/ballot.meta", "data/system/_paxos_repair_state/ballot.meta"),
    ],
)
def test_one_name_stands_for_the_tables_that_cassandra_writes_alike(path: str, name: str, tmp_path: Path) -> None:
    names = DataFolderNames(str(tmp_path), alike=LocalCassandra.alike)
    assert name == names.below(f"{names.folder}/{path.format('7ad54392bcdd35a684174e047860b377')}")


def test_a_place_inside_a_service_is_read_and_written_as_any_other() -> None:
    window = CallWindow(
        step="notify_complete", number=2, calls=("syscall(write a)", "syscall(fsync .)", "syscall(write a)")
    )
    first, _, last = window.kills()
    text = "service-notify_complete[2].syscall(write a)#2=kill"
    assert (text, (last,)) == (str(last), parse(text).faults)
    assert is_inside_service(first)
    assert not is_inside_service(parse("sink[0].syscall(write a)#2=kill").faults[0])
    assert [first, last] == [each for each in window.kills_of("service-notify_complete[2]") if "write" in each.point]
    assert [] == window.kills_of("service-notify_complete[1]")


def test_a_finding_says_what_the_service_had_acknowledged() -> None:
    windows = [CallWindow(step=step, number=1, calls=()) for step in ("open", "snapshot", "notify_complete", "restart")]
    fault = parse("service-notify_complete[1].syscall(write a.log)#1=kill").faults[0]
    run = InsideRun(windows=windows, struck=[fault], windows_before=2, service="Kafka 4.2.1")
    assert "" == InsideRun().sentence()
    assert (
        "Kafka 4.2.1 was killed before its call write of a.log. It had not acknowledged the request of notify_complete "
        "number 1; earlier requests: 1 open, 1 snapshot"
    ) == run.sentence()
