"""Sinks that a test writes as a text, under the schedules of one generator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch


def results_of_written(
    text: str,
    schedules: Callable[[ProcessCampaign], Iterable[Schedule]],
    folder: Path,
    *,
    ends: Callable[[CampaignResults], bool] = lambda results: False,
) -> CampaignResults:
    """`text`: a module with the contract `Of`. `ends`: asked before each schedule."""
    file, scratch = folder / "sink.py", Scratch(name="data", path=folder / "scratch", shell="process")
    file.write_text(text)
    scratch.path.mkdir()
    with process_runner(load(f"{file}:Of"), scratch) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=ends)
        campaign.carry_out([Stage(name="of the test", schedules=schedules)])
    return results
