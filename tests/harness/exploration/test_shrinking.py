"""Shrinking: the smallest schedule that shows the same anomaly."""

from __future__ import annotations

from typing import Any

from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.exploration.job_world import JobWorld
from sinkproof.exploration.shrinking import smallest

from .exploring import explore


def test_shrinking_leaves_out_faults_that_are_not_needed(runner: Any) -> None:
    bench = runner("TextContract")
    long = parse("ids=8 orders=notify sink[0].write.after#1=kill checkpoint.trigger#3=kill-job")
    found = smallest(bench, long, oracle="O3")
    assert found is not None
    assert "ids=8 no-fault" == str(found.schedule)
    assert "O3" == found.anomaly.oracle


def test_all_three_crashes_are_kept_where_all_are_needed(runner: Any) -> None:
    bench = runner("BackupsContract")
    world = JobWorld(bench)
    state, _ = explore(world, depth_most=3).findings[0]
    schedule = world.schedule(state)
    more = Fault("coordinator", "generation.after", 4, "kill")
    found = smallest(bench, Schedule((*schedule.faults, more)), oracle="O1")
    assert found is not None
    assert ["kill-job"] * 3 == [fault.kind for fault in found.schedule.faults]
    assert found.result.fired


def test_a_schedule_is_not_shrunk_if_its_replay_shows_no_anomaly(runner: Any) -> None:
    bench = runner("CarefulContract")
    assert smallest(bench, Schedule(), oracle="O1") is None
