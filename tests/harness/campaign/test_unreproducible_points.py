"""A step that a recovery passes only sometimes is reached by other schedules if it was not passed again."""

from __future__ import annotations

from collections.abc import Sequence

from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.steering import ReachingSchedule
from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.execution.run_result import RunResult
from sinkproof.subject.loading import load

NAMES = ("coordinator", "sink[0]")
FIRST, SECOND = "sink[0].write.after#1=kill", "sink[0].commit.before#1=kill"


def run_result(schedule: str, *, struck: Sequence[Fault] = (), passed: Sequence[str] = ()) -> RunResult:
    parsed = parse(schedule)
    return RunResult(
        schedule=parsed,
        struck=tuple(struck) or parsed.faults[:1],
        anomalies=(),
        trace=[(1, point) for point in passed],
        names=NAMES,
        history=[],
        finished=True,
        failure="",
        rows_committed=24,
    )


def to_strike(results: CampaignResults) -> list[str]:
    return [
        str(schedule) for schedule in results.steering.to_unstruck_points(results.coverage) if "abort" in str(schedule)
    ]


def test_another_way_to_a_step_is_tried_when_the_first_one_does_not_lead_there_again() -> None:
    results = CampaignResults(contract=load("memory/two-phase"), shell="process")
    results.add(run_result(FIRST, passed=["abort.before"]))
    results.add(run_result(SECOND, passed=["abort.before"]))
    missed = f"{FIRST} sink[0].abort.before#1=kill"
    assert [missed] == to_strike(results)
    results.add(run_result(missed))
    assert [f"{SECOND} sink[0].abort.before#1=kill"] == to_strike(results)
    results.add(run_result(f"{SECOND} sink[0].abort.before#1=kill"))
    results.add(run_result(FIRST, passed=["abort.before"]))
    assert [] == to_strike(results)


def test_the_shortest_way_is_tried_first_and_none_that_leads_over_what_did_not_strike() -> None:
    results = CampaignResults(contract=load("memory/two-phase"), shell="process")
    results.add(run_result(f"{FIRST} {SECOND}", passed=["abort.before"]))
    assert [] == to_strike(results)
    both = parse(f"{FIRST} {SECOND}")
    results.add(run_result(str(both), struck=both.faults, passed=["abort.before"]))
    assert [f"{both} sink[0].abort.before#1=kill"] == to_strike(results)
    results.add(run_result(SECOND, passed=["abort.before"]))
    assert [f"{SECOND} sink[0].abort.before#1=kill"] == to_strike(results)


def test_a_point_with_an_injected_fault_is_not_tried_again() -> None:
    results = CampaignResults(contract=load("memory/two-phase"), shell="process")
    results.add(run_result(FIRST, passed=["abort.before"]))
    both = parse(f"{FIRST} sink[0].abort.before#1=kill")
    results.add(run_result(str(both), struck=both.faults, passed=["abort.before"]))
    assert [] == to_strike(results)
    assert not results.steering.unreproducible


def test_a_way_to_a_point_keeps_everything_of_the_schedule_that_led_there() -> None:
    before = Schedule(seed=3, job="sparse", ids=8, orders=("notify",))
    last = Fault("sink[0]", "commit.before", 1, "kill")
    assert Schedule((last,), seed=3, job="sparse", ids=8, orders=("notify",)) == ReachingSchedule(before, last).schedule
