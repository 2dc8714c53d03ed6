"""The worlds that a campaign explores in addition to the closures of the verdict."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import BULK_TIMES_MOST, SimulatedCampaign
from sinkproof.campaign.simulated_plan import CLOSURES, FIRST, RARE_FAULTS, SINGLE_FAULTS
from sinkproof.chaos.crash_closure import ExploredClosure
from sinkproof.chaos.schedule import Schedule
from sinkproof.exploration.job_world import JobWorld
from sinkproof.generators.fault_sites import places

from .exploring import explore


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["memory/plain", "OneBackupContract"])
def test_lines_are_crashed_at_in_bulk_and_while_another_parallelism_takes_over(
    subject: str, runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced: list[JobWorld] = []

    def close(campaign: SimulatedCampaign, world: JobWorld, **_: Any) -> ExploredClosure[Any]:
        if world.trace_lines:
            traced.append(world)
        return ExploredClosure()

    monkeypatch.setattr(SimulatedCampaign, "close", close)
    bench = runner(subject)
    campaign = SimulatedCampaign(bench, CampaignResults(contract=bench.contract, shell="simulated"))
    campaign.carry_out((*FIRST, *SINGLE_FAULTS, *RARE_FAULTS, *CLOSURES))
    assert ["standard", "scale-in", "scale-out", "standard", "large-batches"] == [world.job for world in traced]
    assert BULK_TIMES_MOST == traced[-1].times_most
    for world in traced[1:3]:
        assert ["checkpoint.persist.after"] == [fault.point for prelude in world.preludes for fault in prelude]


def test_an_attempt_is_suspended_for_ten_checkpoints_once_at_each_step(runner: Any) -> None:
    bench = runner("memory/two-phase")
    campaign = SimulatedCampaign(bench, CampaignResults(contract=bench.contract, shell="simulated"))
    assert campaign.prepare()
    baseline = campaign.baseline
    (stage,) = [stage for stage in SINGLE_FAULTS if stage.name == "very late zombies"]
    schedules = list(stage.schedules(campaign))
    steps = Counter(fault.point for each in schedules for fault in each.faults)
    assert {fault.point for fault in places(baseline, "stop")} == set(steps)
    assert {"stop"} == {fault.kind for each in schedules for fault in each.faults}
    assert {1} == set(steps.values())
    result = bench.run(next(each for each in schedules if each.faults[0].point == "commit.before"))
    completed = [event for event in result.history if event[3] == "complete" and event[2] > result.history[0][2]]
    assert result.fired
    assert len({event[4] for event in completed}) > 8, "by newer attempts"


def test_a_point_that_is_passed_for_each_row_is_a_place_to_crash_a_few_times_only(runner: Any) -> None:
    bench = runner("memory/plain")
    passed = bench.run(Schedule()).trace
    assert len(passed) == explore(JobWorld(bench), depth_most=1).crashes
    times = Counter(passed).values()
    assert max(times) > 2
    assert sum(min(each, 2) for each in times) == explore(JobWorld(bench, times_most=2), depth_most=1).crashes
