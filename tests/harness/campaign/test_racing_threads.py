"""Threads of a sink are slow, overtake each other, or are done with their waiting before it is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SUBJECTS = Path(__file__).parents[2] / "support/racing_threads.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "job"),
    [
        pytest.param("NumberedTwice", "racing-threads", marks=pytest.mark.longer),
        ("FlushedAndForgotten", "racing-threads"),
        ("PublishedInTime", "impatient-threads"),
        ("StagedAndUnasked", "slow-threads"),
        pytest.param("Numbered", "", marks=pytest.mark.longer),
        pytest.param("FlushedInTime", "", marks=pytest.mark.longer),
        *(pytest.param(name, "", marks=pytest.mark.longer) for name in ("FlushedBeside", "StagedBeside")),
    ],
)
def test_what_threads_take_at_a_time_or_publish_too_early_is_found(name: str, job: str, tmp_path: Path) -> None:
    contract = load(f"{SUBJECTS}:{name}")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="races", path=tmp_path, shell="process")) as runner:
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings))
        campaign.carry_out([each for each in PROCESS_PLAN if each.name == "threads of the sink at another pace"])
    assert results.coverage.stages[0].run > 0
    assert ({job} if job else set()) == {parse(finding.schedule).job.split("+")[-1] for finding in results.findings}
    assert results.findings or results.coverage.stages[0].finished
