"""What a campaign has run is not lost where it ends in the middle of a stage."""

from __future__ import annotations

from pathlib import Path

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.campaign.task import ShellOutcome
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.reports.progress import Progress
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SUBJECT = f"{Path(__file__).parents[2] / 'support/padded_subtasks.py'}:Names"


class Keeping(Progress):
    def __init__(self) -> None:
        self.kept: list[ShellOutcome] = []

    def keep(self, outcome: object) -> None:
        assert isinstance(outcome, ShellOutcome)
        self.kept.append(outcome)


def test_what_was_run_is_kept_after_each_stage(tmp_path: Path) -> None:
    contract, progress = load(SUBJECT), Keeping()
    plan = [
        Stage(
            name=f"death {number}",
            schedules=lambda _, number=number: [parse(f"sink[0].open.after#1=kill-job ids={number}")],
        )  # type: ignore[misc]
        for number in (2, 3)
    ]
    with process_runner(contract, Scratch(name="kept", path=tmp_path, shell="process")) as runner:
        ProcessCampaign(runner, CampaignResults(contract=contract, shell="process", progress=progress)).carry_out(plan)
    runs = [outcome.result.schedules_run for outcome in progress.kept]
    assert 2 == len(runs)
    assert 0 < runs[0] < runs[1]
    assert [("death 2", 1), ("death 3", 0)] == [(stage.name, stage.run) for stage in progress.kept[0].result.stages]
