"""The nodes of a daemon end with it and with its owner, however these die, and no other process is signalled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.cache_folders import running_folder
from sinkproof.chaos.services.running_services import (
    Entry,
    ServiceHandle,
    await_exit,
    new_service,
    running,
    sweep_dead_services,
)
from sinkproof.chaos.services.service import ServiceFailed
from sinkproof.subject.scratch import sweep_folders_of_the_dead

from ...support.process_states import is_alive

FOREVER = ["sleep", "1000"]
SOON = 60.0  # seconds: ends a test that has failed

OWNER = """
import os, sys, signal
from sinkproof.chaos.services.running_services import new_service
handle = new_service("test", {}, owner=os.getpid())
handle.spawn("node", ["sleep", "1000"])
print(handle.folder, handle.status_of("node").pid, flush=True)
signal.pause()
"""


def assert_dead(pid: int) -> None:
    deadline = Deadline(SOON)
    while is_alive(pid) and not deadline.over:
        await_exit(pid, 0.05)
    assert not is_alive(pid), f"process {pid} is still there"


@pytest.fixture
def handle(homes: Path) -> ServiceHandle:
    return new_service("test", {"any": "thing"}, owner=os.getpid())


def test_the_end_of_a_service_ends_its_nodes_and_removes_their_folder(handle: ServiceHandle) -> None:
    handle.spawn("one", FOREVER)
    handle.spawn("two", FOREVER)
    pids = [status.pid for status in handle.statuses().values()]
    assert [True, True] == [is_alive(pid) for pid in pids]
    handle.end()
    assert [False, False] == [is_alive(pid) for pid in pids]
    assert not handle.folder.exists()
    handle.end()


def test_a_requested_death_is_distinguished_from_an_unrequested_one(handle: ServiceHandle) -> None:
    for name, command in (("killed", FOREVER), ("ended", ["sh", "-c", "echo output; exit 3"])):
        handle.spawn(name, command)
    handle.signal("killed", signal.SIGKILL)
    assert handle.await_end("killed", Deadline(SOON))
    assert handle.await_end("ended", Deadline(SOON))
    statuses = handle.statuses()
    assert (-signal.SIGKILL, True) == (statuses["killed"].exit_status, statuses["killed"].end_requested)
    assert (3, False) == (statuses["ended"].exit_status, statuses["ended"].end_requested)
    assert "output" == handle.last_output("ended")
    handle.end()


def test_a_suspended_node_can_be_resumed_and_killed(handle: ServiceHandle) -> None:
    handle.spawn("node", FOREVER)
    handle.signal("node", signal.SIGSTOP)
    assert handle.await_stopped("node", True, Deadline(SOON))
    handle.signal("node", signal.SIGCONT)
    assert handle.await_stopped("node", False, Deadline(SOON))
    handle.signal("node", signal.SIGSTOP)
    handle.signal("node", signal.SIGKILL)
    assert handle.await_end("node", Deadline(SOON))
    handle.end()


def test_a_failed_start_of_a_node_is_reported_and_affects_no_other_node(handle: ServiceHandle) -> None:
    handle.spawn("node", FOREVER)
    with pytest.raises(ServiceFailed, match="no-such-program"):
        handle.spawn("other", ["no-such-program"])
    assert handle.lives("node")
    handle.end()


def test_any_process_finds_a_service_by_its_entry(handle: ServiceHandle) -> None:
    handle.spawn("node", FOREVER)
    program = (
        "from sinkproof.chaos.services.running_services import ServiceHandle, running\n"
        "[entry] = running('test')\n"
        "print(entry.details['any'], ServiceHandle(entry).status_of('node').pid)"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    status = handle.status_of("node")
    assert status is not None
    assert f"thing {status.pid}" == output.strip()
    handle.end()
    assert [] == running("test")


def test_nothing_is_left_after_the_owner_was_killed(homes: Path, assert_gone: Callable[[Path], None]) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        folder, pid = owner.stdout.readline().split()
        assert is_alive(int(pid))
        owner.kill()
    assert_dead(int(pid))
    assert_gone(Path(folder))
    for entry in running_folder().glob("*.json"):
        assert_gone(entry)


def test_nodes_die_with_a_killed_daemon_and_the_next_service_removes_its_data(handle: ServiceHandle) -> None:
    handle.spawn("node", FOREVER)
    status = handle.status_of("node")
    assert status is not None
    assert handle.daemon is not None
    handle.daemon.kill()
    handle.daemon.wait()
    assert_dead(status.pid)
    with pytest.raises(ServiceFailed, match="does not reply"):
        handle.statuses()
    assert handle.folder.exists()
    other = new_service("test", {}, owner=os.getpid())
    assert not handle.folder.exists()
    assert [other.entry] == running("test")
    other.end()


def test_sweeping_scratch_folders_removes_the_data_of_dead_services(handle: ServiceHandle) -> None:
    """The death of a worker also kills the daemons that it started."""
    sweep_folders_of_the_dead()
    assert handle.folder.exists()
    assert handle.daemon is not None
    handle.daemon.kill()
    handle.daemon.wait()
    assert handle.folder in sweep_folders_of_the_dead()
    assert not handle.folder.exists()


def test_a_service_without_an_owner_survives_the_process_that_started_it(homes: Path) -> None:
    program = OWNER.replace("owner=os.getpid()", "owner=0").replace("signal.pause()", "")
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    [entry] = running("test")
    assert entry.folder == output.split()[0]
    assert ServiceHandle(entry).lives("node")
    ServiceHandle(entry).end()


def test_the_sweep_removes_only_folders_with_the_name_of_a_service(homes: Path, tmp_path: Path) -> None:
    """The content of an entry may be damaged."""
    other = tmp_path / "other"
    other.mkdir()
    running_folder().mkdir(parents=True)
    entry = {"kind": "test", "folder": str(other), "owner": 0, "details": {}}
    (running_folder() / "x.json").write_text(json.dumps(entry))
    assert [] == sweep_dead_services()
    assert other.exists()
    assert [] == running("test")


def test_a_folder_with_a_long_path_is_no_obstacle(homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of a socket holds at most 107 bytes."""
    deep = homes / ("x" * 120)
    monkeypatch.setenv("SINKPROOF_SCRATCH", str(deep))
    handle = new_service("test", {}, owner=os.getpid())
    handle.spawn("node", FOREVER)
    assert handle.lives("node")
    handle.end()
    deep.rmdir()


def test_an_entry_holds_all_that_another_process_needs(handle: ServiceHandle) -> None:
    read = Entry(**json.loads(handle.entry.path.read_text()))
    assert handle.entry == read
    handle.end()
