"""Threads of a sink race: each waits at its lines while another one overtakes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SUBJECTS = Path(__file__).parents[2] / "support/racing_threads.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_wrong"),
    [("NumberedTwice", True), ("FlushedAndForgotten", True), ("Numbered", False), ("FlushedBeside", False)],
)
def test_what_two_threads_take_at_a_time_is_lost_or_twice(name: str, is_wrong: bool, tmp_path: Path) -> None:
    contract = load(f"{SUBJECTS}:{name}")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="races", path=tmp_path, shell="process")) as runner:
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings))
        campaign.carry_out([each for each in PROCESS_PLAN if each.name == "threads of the sink slowed"])
    assert results.coverage.stages[0].run > 0
    assert is_wrong is bool({"O1", "O2"} & {finding.oracle for finding in results.findings})
    assert is_wrong is any("racing-threads" in str(finding.schedule) for finding in results.findings)
    assert is_wrong or results.coverage.stages[0].finished
