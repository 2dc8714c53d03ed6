"""The process shell: attempts die inside their own calls, and others take over from bytes alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.points import is_line
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.shared.point_journal import JournalReader
from sinkproof.reference_engine.shells.process.attempt_host import Armed
from sinkproof.reference_engine.shells.process.process_host import (
    ProcessHost,
    Recipe,
    RemoteSink,
    SinkError,
    WatchedCode,
)
from sinkproof.sink_adapters.protocol import Batch, Context, Row, Sink

HELPER = Path(__file__).parents[1].joinpath("support/attempts_under_test.py")
FILES = {str(HELPER): HELPER.name}
ACTOR = "sink[0]"
ROWS = tuple(Row(0, offset, "k", "v") for offset in range(6))
NAMED = [
    *("pre_commit.before", "pre_commit.after", "commit.before", "commit.after"),
    *("pre_commit.before", "pre_commit.after", "commit.before", "commit.after"),
]


class Died(Exception):
    def __init__(self, actor: str, status: int) -> None:
        super().__init__(actor, status)
        self.actor, self.status = actor, status


class Recorder:
    """An overseer that arms one fault after the other, and records its calls."""

    def __init__(self, *faults: Armed) -> None:
        self.faults = list(faults)
        self.points: list[str] = []
        self.slept: list[str] = []
        self.while_stopped: Callable[[], None] = lambda: None

    def armed(self, actor: str) -> Armed | None:
        return self.faults[0] if self.faults and actor == "sink[0]" else None

    def passed(self, actor: str, points: Sequence[str]) -> None:
        self.points += points
        if not self.faults:
            return
        point, left, kind = self.faults[0]
        left -= list(points).count(point)
        self.faults[0] = (point, left, kind)
        if left <= 0 and kind == "error":
            self.faults.pop(0)

    def died(self, actor: str, status: int) -> NoReturn:
        self.faults.pop(0)
        raise Died(actor, status)

    def stopped(self, actor: str) -> None:
        self.faults.pop(0)
        self.slept.append(actor)
        self.while_stopped()


def committed(folder: Path) -> list[tuple[int, int]]:
    texts = [path.read_text() for path in folder.glob("*.committed")]
    return sorted((int(line.split(",")[0]), int(line.split(",")[1])) for text in texts for line in text.split())


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=[str(HELPER), "sinkproof.reference_engine.shells.process.attempt_child"]) as started:
        yield started


MakeHost = Callable[..., ProcessHost]


@pytest.fixture
def host(server: ForkServer, tmp_path: Path) -> Iterator[MakeHost]:
    hosts = []

    def make(
        *faults: tuple[str, int, str], maker: str = "make_file_sink", folder: str = "", trace_lines: bool = False
    ) -> ProcessHost:
        recipe = Recipe(maker=f"{HELPER.stem}:{maker}", arguments=(str(tmp_path),))
        watched = WatchedCode(files=FILES, folder=folder)
        made = ProcessHost(server, recipe, watched, trace_lines=trace_lines)
        made.overseer = Recorder(*faults)
        hosts.append(made)
        return made

    yield make
    for each in hosts:
        each.close()


def recorder(host: ProcessHost) -> Recorder:
    assert isinstance(host.overseer, Recorder)
    return host.overseer


class Run:
    """Six rows in two checkpoints; a dead attempt is replaced from the last complete one."""

    def __init__(self, host: ProcessHost) -> None:
        self.host, self.generation = host, 0
        self.complete, self.offset = 0, 0
        self.states: list[tuple[int, bytes]] = []
        self.statuses: list[int] = []

    def to_the_end(self) -> None:
        while True:
            try:
                self.attempt()
                return
            except Died as died:
                self.statuses.append(died.status)

    def attempt(self) -> None:
        self.generation += 1
        sink = self.host.spawn(ACTOR, 0, self.generation)
        assert isinstance(sink, Sink)
        sink.open(Context(generation=self.generation, checkpoint_id_restored=self.complete, restored=self.states))
        while self.offset < len(ROWS):
            sink.write(Batch(ROWS[self.offset : self.offset + 3]))
            state = sink.snapshot(self.complete + 1)
            self.complete, self.states, self.offset = self.complete + 1, [(0, state)], self.offset + 3
            assert not sink.notify_complete(self.complete)
        sink.close()
        self.host.retire(sink)


def test_a_sink_in_another_process_does_what_it_does_in_this_one(host: MakeHost, tmp_path: Path) -> None:
    made = host()
    Run(made).to_the_end()
    assert [(row.split, row.offset) for row in ROWS] == committed(tmp_path)
    assert NAMED == recorder(made).points
    assert 0 == made.kills


def test_it_is_killed_at_every_named_point(host: MakeHost, tmp_path: Path) -> None:
    for kind in ("kill", "kill-job"):
        for point in sorted(set(NAMED)):
            for occurrence in (1, 2):
                check_one_kill(host((point, occurrence, kind)), tmp_path)


def test_it_is_killed_at_every_executed_line(host: MakeHost, tmp_path: Path) -> None:
    made = host(trace_lines=True)
    Run(made).to_the_end()
    lines = [point for point in recorder(made).points if is_line(point)]
    assert len(set(lines)) > 15
    clear(tmp_path)
    for line in sorted(set(lines)):
        check_one_kill(host((line, lines.count(line), "kill")), tmp_path)


def check_one_kill(host: ProcessHost, folder: Path) -> None:
    """It dies at that point and nowhere else, and nothing is lost or doubled."""
    point, _, _ = recorder(host).faults[0]
    run = Run(host)
    run.to_the_end()
    assert ([signal.SIGKILL], 1) == (run.statuses, host.kills), point
    assert [] == recorder(host).faults, point
    assert [(row.split, row.offset) for row in ROWS] == committed(folder), point
    host.close()
    clear(folder)


def clear(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def test_the_last_point_of_a_dead_attempt_is_the_armed_one(host: MakeHost) -> None:
    made = host(("pre_commit.after", 1, "kill"))
    sink = opened(made)
    sink.write(Batch(ROWS))
    with pytest.raises(Died):
        sink.snapshot(1)
    assert NAMED[:2] == recorder(made).points
    assert not sink.alive
    assert sink.wait_status == signal.SIGKILL


def opened(host: ProcessHost, *, generation: int = 1) -> RemoteSink:
    sink = host.spawn(ACTOR, 0, generation)
    sink.open(Context(generation=generation))
    return sink


def test_a_stopped_attempt_goes_on_as_a_zombie_while_a_newer_one_lives(host: MakeHost, tmp_path: Path) -> None:
    made = host(("pre_commit.before", 1, "stop"), ("pre_commit.after", 1, "kill"))
    old = opened(made)
    old.write(Batch(ROWS[:3]))

    def meanwhile() -> None:
        recorder(made).faults, left = [], recorder(made).faults
        newer = opened(made, generation=2)
        newer.write(Batch(ROWS))
        newer.snapshot(1)
        newer.notify_complete(1)
        assert old.alive
        assert [(0, offset) for offset in range(6)] == committed(tmp_path)
        recorder(made).faults = left

    recorder(made).while_stopped = meanwhile
    with pytest.raises(Died):  # the next fault is injected in the rest of the call that it was stopped in
        old.snapshot(2)
    assert [ACTOR] == recorder(made).slept
    assert [*NAMED[:1], *NAMED[:4], NAMED[1]] == recorder(made).points
    assert ["1.0.committed", "2.0.pending"] == sorted(path.name for path in tmp_path.iterdir())


def test_a_zombie_gives_its_late_reply(host: MakeHost) -> None:
    made = host(("pre_commit.after", 1, "stop"))
    sink = opened(made)
    assert b'["1.0"]' == sink.snapshot(1)
    assert [ACTOR] == recorder(made).slept


def test_a_thread_that_was_stopped_reads_nothing(server: ForkServer) -> None:
    journal = JournalReader()
    child = server.spawn(f"{HELPER.stem}:stops_in_a_thread", descriptors=[journal.descriptor])
    while not child.stopped:
        server.wait(Deadline(10))
    child.send(b"a request", Deadline(10))
    child.resume()
    assert b"a request" == child.receive(Deadline(10))
    child.close()
    journal.close()


def test_a_zombie_of_a_job_that_died_meanwhile_is_killed(host: MakeHost) -> None:
    made = host(("pre_commit.before", 1, "stop"))
    sink = opened(made)

    def job_dies() -> None:
        raise InterruptedError("the whole job died")

    recorder(made).while_stopped = job_dies
    with pytest.raises(InterruptedError):
        sink.snapshot(1)
    assert not sink.alive


def test_an_injected_error_is_met_by_the_sink_and_the_next_fault_may_strike_in_the_same_call(
    server: ForkServer,
) -> None:
    recipe = Recipe(maker=f"{HELPER.stem}:make_bad_sink", arguments=("survives_an_error",))
    with ProcessHost(server, recipe, WatchedCode()) as host:
        host.overseer = Recorder(("commit.before", 1, "error"), ("abort.before", 1, "error"))
        sink = opened(host)
        with pytest.raises(SinkError, match=r"^OSError: \[Errno 5\] injected"):
            sink.write(Batch(ROWS))
        assert ["commit.before", "abort.before"] == recorder(host).points
        sink.write(Batch(ROWS))
        assert ["commit.before", "commit.after"] == recorder(host).points[2:]


def test_file_effects_are_points_for_sinks_that_mark_none(host: MakeHost, tmp_path: Path) -> None:
    made = host(("file.rename", 2, "kill"), folder=str(tmp_path))
    run = Run(made)
    run.to_the_end()
    points = [point for point in recorder(made).points if point.startswith("file.")]
    assert ["file.create", "file.rename", "file.create", "file.rename", "file.rename"] == points
    assert [(row.split, row.offset) for row in ROWS] == committed(tmp_path)
    assert 1 == made.kills


def test_an_ordered_kill_counts_and_what_is_retired_or_left_over_does_not(host: MakeHost) -> None:
    made = host()
    killed, retired, left = (opened(made) for _ in range(3))
    made.kill(killed)
    made.kill(killed)
    assert 1 == made.kills
    made.retire(retired)
    made.close()
    assert left.wait_status == signal.SIGKILL
    assert retired.wait_status is not None
    assert 1 == made.kills


def test_what_a_sink_leaves_for_the_end_of_its_process_runs_when_it_is_retired(host: MakeHost, tmp_path: Path) -> None:
    made = host(maker="make_sink_that_says_goodbye")
    killed, retired = opened(made), opened(made)
    made.kill(killed)
    assert [] == list(tmp_path.glob("*.end"))
    retired.close()
    made.retire(retired)
    assert ["destructor", "finalizer", "second", "first"] == (tmp_path / "of.end").read_text().split()


def test_a_death_strikes_there_too(host: MakeHost, tmp_path: Path) -> None:
    made = host(("file.create", 3, "kill"), maker="make_sink_that_says_goodbye", folder=str(tmp_path))
    retired = opened(made)
    with pytest.raises(Died):
        made.retire(retired)
    assert ["destructor", "finalizer"] == (tmp_path / "of.end").read_text().split()


def test_many_runs_leave_no_descriptor_open(host: MakeHost) -> None:
    made = host()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        made.kill(opened(made))
        made.retire(opened(made))
    made.close()
    assert before == len(os.listdir("/proc/self/fd"))
