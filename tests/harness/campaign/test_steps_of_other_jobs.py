"""A step that only another job leads to is struck there, so that a campaign in memory comes to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.simulated_plan import SIMULATED_PLAN
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

TIDIED = Path(__file__).parents[2] / "support/tidied_after_a_day.py"


@pytest.mark.slow
def test_a_step_of_the_job_with_an_outage_is_struck(tmp_path: Path) -> None:
    contract = load(f"{TIDIED}:Tidied")
    results = CampaignResults(contract=contract, shell="simulated")
    names = ("faults in jobs of a simulated engine", "whole-job crash after steps of recoveries")
    with ScheduleRunner(contract, Scratch(name="tidied", path=tmp_path)) as runner:
        SimulatedCampaign(runner, results).carry_out([stage for stage in SIMULATED_PLAN if stage.name in names])
    assert [0, 0] < [stage.run for stage in results.coverage.stages]
    assert "file.unlink" in results.coverage.passed
    assert [] == results.coverage.never_struck()
    assert [] == results.findings
