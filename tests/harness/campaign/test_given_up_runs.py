"""A run that takes long when the campaign is to end is given up; what was found before is kept."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.campaign.loop import Campaign
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.processes import given_up
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch


@pytest.fixture
def listening() -> Iterator[None]:
    before = signal.getsignal(given_up.SIGNAL)
    given_up.listen()
    yield
    signal.signal(given_up.SIGNAL, before)


def kills(campaign: Campaign) -> Iterator[Schedule]:
    yield parse("sink[0].commit.before#1=kill")


def is_asked_to_end(campaign: Campaign) -> None:
    signal.raise_signal(given_up.SIGNAL)


@pytest.mark.usefixtures("listening")
def test_stages_before_the_one_that_was_given_up_are_kept_and_none_follows(tmp_path: Path) -> None:
    plan = [
        Stage(name="before", schedules=kills),
        Stage(name="given up", explore=is_asked_to_end),
        Stage(name="after", schedules=kills),
    ]
    with process_runner(load("files/two-phase"), Scratch(name="ends", path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results, should_stop=lambda results: False).carry_out(plan)
    assert [("before", 1, True), ("given up", 0, False), ("after", 0, False)] == [
        (stage.name, stage.run, stage.finished) for stage in results.coverage.stages
    ]


@pytest.mark.usefixtures("listening")
def test_what_must_not_be_given_up_goes_on() -> None:
    signal.raise_signal(given_up.SIGNAL)
    with pytest.raises(given_up.GivenUp), given_up.given_up_on_signal():
        signal.raise_signal(given_up.SIGNAL)
    signal.raise_signal(given_up.SIGNAL)
