"""The subtasks take turns in other orders."""

from __future__ import annotations

from typing import Any

import pytest

from sinkproof.chaos.schedule import EVERY_STEP, Schedule, parse
from sinkproof.exploration.crash_copies import run_with_copies
from sinkproof.exploration.job_world import JobWorld

from .exploring import explore


def test_a_sink_that_needs_one_order_of_its_subtasks_is_convicted_by_the_branching(runner: Any) -> None:
    bench = runner("ListContract")
    assert [] == explore(JobWorld(bench)).findings
    world = JobWorld(bench, orders=[EVERY_STEP])
    findings = explore(world, depth_most=2).findings
    schedules = {str(world.schedule(state)) for state, _ in findings}
    assert f"orders={EVERY_STEP} no-fault" in schedules
    assert any(each.startswith("orders=-/") and "kill-job" in each for each in schedules), "turned after a crash only"
    for each in sorted(schedules)[:5]:
        assert bench.run(parse(each)).anomalies, each


@pytest.mark.parametrize("step", ["notify", "open", "snapshot"])
def test_an_order_turns_one_step_and_no_other(runner: Any, step: str) -> None:
    bench = runner("memory/two-phase")
    points = {"notify": "notify_complete.before", "open": "open.before", "snapshot": "snapshot.before"}
    usual, turned = bench.run(Schedule()), bench.run(parse(f"orders={step} no-fault"))
    for name, point in points.items():
        first = [next(actor for actor, passed in run_result.trace if passed == point) for run_result in (usual, turned)]
        assert (first[0] != first[1]) is (name == step), name


def test_orders_replayed_from_copies_are_those_of_one_process(runner: Any) -> None:
    bench = runner("memory/two-phase")
    schedule = parse("ids=8 orders=-/notify+open sink[0].commit.before#1=kill-job sink[1].notify_complete.after#1=kill")
    run_result, copied = bench.run(schedule), run_with_copies(bench, schedule, trace_lines=False)
    assert run_result.fired
    assert run_result.struck == copied.struck
    assert [event[1:] for event in run_result.history] == [event[1:] for event in copied.history]
