"""Where faults strike in a commit of two checkpoints: between effects, and of what one line sends at some packets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.interleavings import _in_first_commit
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SENT, FIRST_LINE, NEXT_LINE = "socket.send", "line(sink.py:7)", "line(sink.py:8)"


def run_that_passes(*points: str, folder: Path) -> RunResult:
    """In its first commit, and two more packets in a later one."""
    with ScheduleRunner(load("memory/two-phase"), Scratch(name="commits", path=folder)) as runner:
        made = runner.run(Schedule())
    sink = list(made.names).index("sink[0]")
    commit = ("notify_complete.before", *points, "notify_complete.after")
    return replace(made, trace=[(sink, point) for point in (*commit, "notify_complete.before", SENT, SENT)])


def times_of(run: RunResult, point: str, kind: str) -> list[int]:
    faults = [fault for each in _in_first_commit(run) for fault in each]
    return [fault.occurrence for fault in faults if (fault.point, fault.kind) == (point, kind)]


def test_of_forty_packets_from_one_line_the_ends_and_the_middle_are_struck(tmp_path: Path) -> None:
    """A driver of a database sends several for each row, from a line in a loop."""
    run = run_that_passes(*(FIRST_LINE, NEXT_LINE, SENT, SENT) * 20, NEXT_LINE, folder=tmp_path)
    for kind in ("kill-job", "error", "unanswered"):
        assert [1, 2, 20, 21, 39, 40] == times_of(run, SENT, kind)
    assert [1, 21] == times_of(run, NEXT_LINE, "stop")


def test_what_each_line_sends_has_its_own_ends(tmp_path: Path) -> None:
    run = run_that_passes(FIRST_LINE, *(SENT,) * 9, NEXT_LINE, SENT, FIRST_LINE, SENT, folder=tmp_path)
    assert [1, 2, 5, 6, 9, 11, 10] == times_of(run, SENT, "error")


def test_each_file_is_struck_however_many_there_are(tmp_path: Path) -> None:
    run = run_that_passes(FIRST_LINE, *("file.create",) * 9, folder=tmp_path)
    assert [*range(1, 10)] == times_of(run, "file.create", "kill-job")
