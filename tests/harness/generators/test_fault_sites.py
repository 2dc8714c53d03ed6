"""Where in a run an error is most informative: no later call repairs the last errors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.fault_sites import first_of_each_call, last_before_votes, last_decision
from sinkproof.generators.single_faults import (
    IN_COMMIT_MOST,
    PAUSES_IN_A_RUN,
    every_time_at_lines,
    kills_at_lines,
    pauses_alone,
)
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

from ...support.traces_of_calls import run_of


@pytest.fixture
def baseline(tmp_path: Path) -> RunResult:
    with ScheduleRunner(load("files/two-phase"), Scratch(name="places", path=tmp_path)) as made:
        return made.run(Schedule())


def test_after_the_last_decision_each_call_is_a_place(baseline: RunResult) -> None:
    at = last_decision(baseline)
    assert "checkpoint.persist.after" == baseline.trace[at][1]
    assert "checkpoint.persist.after" not in [point for _, point in baseline.trace[at + 1 :]]
    before = Counter((baseline.names[actor], point) for actor, point in baseline.trace[:at])
    late = list(first_of_each_call(baseline, "error", since=at))
    assert {"commit.before", "commit.after"} <= {fault.point for fault in late}
    assert [before[fault.actor, fault.point] + 1 for fault in late] == [fault.occurrence for fault in late]


def test_before_the_last_vote_the_last_call_of_each_kind_is_a_place(baseline: RunResult) -> None:
    sink, votes = baseline.names.index("sink[0]"), baseline.names.index("sink[1]")
    faults = {str(fault) for fault in last_before_votes(baseline, "error")}
    promises = baseline.trace.count((sink, "pre_commit.before"))
    last_vote = max(at for at, passed in enumerate(baseline.trace) if passed == (votes, "snapshot.after"))
    commits = baseline.trace[:last_vote].count((votes, "commit.before"))
    assert commits < baseline.trace.count((votes, "commit.before"))
    assert {f"sink[0].pre_commit.before#{promises}=error", f"sink[1].commit.before#{commits}=error"} <= faults


@pytest.mark.slow
def test_every_time_at_each_line_comes_with_other_parallelism_but_three_times_with_large_batches(
    tmp_path: Path,
) -> None:
    contract = load(f"{Path(__file__).parents[2]}/zoo/renamed_files.py:LinkedFilesUncopied")
    with process_runner(contract, Scratch(name="lines", path=tmp_path, shell="process")) as made:

        def run_traced(schedule: Schedule) -> RunResult:
            return made.run(schedule, trace_lines=True)

        usual = run_traced(Schedule())
        campaign: Any = SimpleNamespace(traced_baseline=usual, rescaled_jobs=("scale-in",), run_traced=run_traced)
        schedules = list(every_time_at_lines(campaign))
        paused = next(each for each in schedules if len(each.faults) == PAUSES_IN_A_RUN)
        assert paused.faults == made.run(paused).struck
    faults = [(schedule.job, fault) for schedule in schedules for fault in schedule.faults]
    times = Counter((actor, point) for actor, point in usual.trace if is_line(point))
    assert 5 * sum(times.values()) + 3 * sum(min(3, each) for each in times.values()) == len(faults)
    assert "scale-in" not in {job for job, fault in faults if fault.kind == "pause"}
    assert {"standard", "scale-in", "large-batches"} == {job for job, _ in faults}
    assert {"kill", "stop", "pause"} == {fault.kind for _, fault in faults}
    assert len(set(faults)) == len(faults)
    assert {1} == {len(each.faults) for each in schedules if each.faults[0].kind != "pause"}
    most = max(times.values())
    assert most < max(fault.occurrence for job, fault in faults if job == "large-batches")


def test_of_pauses_that_came_together_each_one_comes_alone_if_one_did_not_find_its_line() -> None:
    together = "job=scale-in sink[0].line(a.py:1)#1=pause sink[0].line(a.py:2)#3=pause"
    others = ["sink[0].line(a.py:1)#1=pause sink[1].line(a.py:1)#1=pause", "sink[0].line(a.py:1)#9=kill"]
    alone = ["job=scale-in sink[0].line(a.py:1)#1=pause", "job=scale-in sink[0].line(a.py:2)#3=pause"]
    assert alone == list(map(str, pauses_alone([*others, together])))


def test_each_time_that_a_line_runs_in_the_longest_commit_is_struck() -> None:
    def commit(times: int) -> tuple[str, ...]:
        return "notify_complete.before", *(times * ("line(a.py:3)",)), "line(a.py:5)", "notify_complete.after"

    def struck(*points: str) -> list[str]:
        return [str(each) for each in kills_at_lines(cast(Any, SimpleNamespace(traced_baseline=run_of(*points))))]

    first = ["sink[0].line(a.py:3)#1=kill", "sink[0].line(a.py:5)#1=kill"]
    longest = [*(f"sink[0].line(a.py:3)#{time}=kill" for time in (2, 3, 4)), "sink[0].line(a.py:5)#2=kill"]
    assert [*first, *longest] == struck(*commit(1), *commit(3), "line(a.py:3)", *commit(2))
    assert 2 + IN_COMMIT_MOST == len(struck(*commit(1), *commit(500)))
