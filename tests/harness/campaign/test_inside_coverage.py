"""Which calls of a service were struck, which are left, and which kills come in one run: without a service."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sinkproof.campaign.inside_service.inside_campaign import _struck_together
from sinkproof.campaign.inside_service.inside_coverage import InsideCoverage, chained, in_chains
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.chaos.services.inside_run import RESTART, CallWindow
from sinkproof.execution.run_result import RunResult

RESULT = RunResult(
    schedule=Schedule(), struck=(), anomalies=(), trace=[], names=(), history=[], finished=True, failure="",
    rows_committed=1,
)  # fmt: skip


def window(step: str, number: int, *calls: str) -> CallWindow:
    return CallWindow(step=step, number=number, calls=calls)


def test_each_call_is_struck_in_its_first_window_and_in_its_last() -> None:
    coverage = InsideCoverage(background={"beat"})
    coverage.add_recording(
        replace(RESULT, inside=(window("snapshot", 1, "a", "beat", "a"), window("snapshot", 2, "a"), window("open", 1)))
    )
    assert ["service-snapshot[1].a#1=kill", "service-snapshot[1].a#2=kill"] == list(map(str, coverage.first_kills()))
    assert ["service-snapshot[2].a#1=kill"] == list(map(str, coverage.further_kills()))
    assert [("snapshot", "a", 1)] == coverage.calls_left()
    killed = Schedule((Fault("service-snapshot[2]", "a", 1, "kill"),))
    coverage.add(replace(RESULT, schedule=killed))
    assert [("snapshot", "a", 1)] == coverage.calls_left()  # a run that has not met its place strikes nothing
    coverage.add(replace(RESULT, schedule=killed, struck=killed.faults))
    assert [] == coverage.calls_left()


def test_kills_in_restarts_are_chained_and_what_was_not_met_is_left() -> None:
    first = Fault("service-open[1]", "a", 1, "kill")
    kills = [Schedule((first, Fault("service-restart[1]", point, 1, "kill"))) for point in "uvwxyz"]
    other = Schedule((replace(first, point="b"), kills[0].faults[-1]))
    assert [kills[:5], kills[5:], [other]] == list(in_chains([*kills[:3], other, *kills[3:]]))
    chain = chained(kills[:3])
    assert (
        "service-open[1].a#1=kill service-restart[1].u#1=kill service-restart[2].v#1=kill service-restart[3].w#1=kill"
    ) == str(chain)
    coverage = InsideCoverage()
    assert [kills[2]] == coverage.add_chain(kills[:3], replace(RESULT, schedule=chain, struck=chain.faults[:3]))
    assert {*kills[:2]} == coverage.struck
    assert kills[:3] == coverage.add_chain(kills[:3], replace(RESULT, schedule=chain))


@pytest.mark.parametrize(("rarely", "runs"), [("", 1), ("x", 3), ("w", 3)])
def test_kills_that_a_chain_does_not_meet_come_together_again(rarely: str, runs: int) -> None:
    """Where a restart makes a call every third time only, one run for each kill would be made three times as well."""
    first = Fault("service-open[1]", "a", 1, "kill")
    kills = [Schedule((first, Fault("service-restart[1]", point, 1, "kill"))) for point in "wxyz"]
    made: list[Schedule] = []

    def run(schedule: Schedule) -> RunResult:
        made.append(schedule)
        met = next((at for at, each in enumerate(schedule.faults) if each.point == rarely and len(made) % 3), 9)
        return replace(RESULT, schedule=schedule, struck=schedule.faults[:met])

    coverage = InsideCoverage()
    campaign: Any = SimpleNamespace(run=run, results=SimpleNamespace(coverage=SimpleNamespace(inside=coverage)))
    _struck_together(campaign, kills)
    assert {*kills} == coverage.struck
    assert runs == len(made)


def test_a_recording_with_a_death_of_the_job_shows_recoveries_only() -> None:
    coverage = InsideCoverage()
    died = Schedule((Fault("coordinator", "checkpoint.persist.after", 2, "kill-job"),))
    for schedule in (Schedule(), died):
        windows = (window("snapshot", 1, "a" if schedule.faults else "b"), window("open", 3, "c"))
        coverage.add_recording(replace(RESULT, schedule=schedule, inside=windows))
    assert [("snapshot", "b", 1), ("open", "c", 1)] == list(coverage.calls)


def restarted(fault: Fault, calls: str) -> RunResult:
    """It has met this kill, and made these calls when it was started again."""
    return replace(RESULT, schedule=Schedule((fault,)), struck=(fault,), inside=(window(RESTART, 1, *calls),))


def test_restarts_after_a_kill_within_a_commit_come_first_and_different_calls_before_repeated_ones() -> None:
    coverage = InsideCoverage()
    results = [
        restarted(Fault("service-snapshot[1]", "a", 1, "kill"), "x"),
        restarted(Fault("service-notify_complete[1]", "a", 1, "kill"), "xyyyz"),
    ]
    coverage.add_restarts(results)
    kills = [schedule.faults for schedule in (*coverage.first_restart_kills(), *coverage.further_restart_kills())]
    assert {"service-notify_complete[1]"} == {first.actor for first, _ in kills}
    assert [("x", 1), ("y", 1), ("z", 1), ("y", 3), ("y", 2)] == [(last.point, last.occurrence) for _, last in kills]


def test_a_call_that_a_restart_does_not_make_again_is_struck_in_another_restart_that_made_it() -> None:
    coverage = InsideCoverage()
    first_kills = [Fault(f"service-{step}[1]", "a", 1, "kill") for step in ("notify_complete", "snapshot", "open")]
    coverage.add_restarts([restarted(fault, calls) for fault, calls in zip(first_kills, ("xy", "y", "x"), strict=True)])
    on_first, on_other = coverage.restart[RESTART, "x", 1]
    assert [on_first, coverage.restart[RESTART, "y", 1][0]] == coverage.first_restart_kills()
    coverage.struck.add(coverage.restart[RESTART, "y", 1][0])
    assert [[on_other]] == list(coverage.other_ways())
    coverage.struck.add(on_other)
    assert ([], []) == (list(coverage.other_ways()), coverage.calls_left())
