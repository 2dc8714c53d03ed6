"""Where runs take far longer than those before, a stage leaves some of them out, and says so."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest

from sinkproof.campaign import loop
from sinkproof.campaign.loop import PART_AT_FIRST, Campaign
from sinkproof.campaign.stage import StageCoverage
from sinkproof.chaos.schedule import Schedule

SCHEDULES = [Schedule(seed=number) for number in range(1, 101)]


class Timed(Campaign):
    """Its runs take so long, one by one; nothing else takes time."""

    searches_lines = False
    before = 1.0  # seconds of a run, in earlier stages

    def __init__(self, *, each: float, stage_seconds: float) -> None:
        self.each, self.seconds, self.ran = each, 0.0, list[Schedule]()
        self.stage, self.stage_began, self.stage_seconds = StageCoverage(name="stage"), 0.0, stage_seconds
        self.stage.planned = len(SCHEDULES)

    def _each(self) -> float:
        return self.before

    def prepare(self) -> bool:
        return True

    def _run_part(self, schedules: Sequence[Schedule], *, lines: bool, concurrent_reader: bool) -> None:
        self.ran += schedules
        self.seconds += self.each * len(schedules)


def ran(monkeypatch: pytest.MonkeyPatch, *, each: float, stage_seconds: float) -> Timed:
    campaign = Timed(each=each, stage_seconds=stage_seconds)
    monkeypatch.setattr(loop, "now", lambda: campaign.seconds)
    monkeypatch.setattr(loop, "times_as_long", lambda: 1.0)
    campaign._run_all(SCHEDULES, lines=False, concurrent_reader=False)
    return campaign


@pytest.mark.parametrize(("each", "stage_seconds"), [(0.1, 20.0), (0.39, 20.0), (13.0, inf)])
def test_what_fits_into_twice_the_time_is_run(
    each: float, stage_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = ran(monkeypatch, each=each, stage_seconds=stage_seconds)
    assert SCHEDULES == campaign.ran
    assert (100, "") == (campaign.stage.planned, campaign.stage.cut)


def test_stages_of_quick_runs_are_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are started for many schedules at once."""
    monkeypatch.setattr(Timed, "before", 0.05)
    parts: list[int] = []
    monkeypatch.setattr(Timed, "_run_part", lambda self, schedules, **_: parts.append(len(schedules)))
    ran(monkeypatch, each=0.05, stage_seconds=20.0)
    assert [100] == parts


@pytest.mark.parametrize(("each", "most"), [(1.0, 40), (3.0, 14), (13.0, PART_AT_FIRST + 1)])
def test_of_what_takes_far_longer_some_are_run_evenly(each: float, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = ran(monkeypatch, each=each, stage_seconds=20.0)
    assert PART_AT_FIRST < len(campaign.ran) == campaign.stage.planned <= most
    assert campaign.ran[PART_AT_FIRST - 1] == SCHEDULES[PART_AT_FIRST - 1]
    assert campaign.ran[-1] in (SCHEDULES[-1], SCHEDULES[PART_AT_FIRST])
    assert f"a run takes {each:.1g} s: {len(campaign.ran)} of " in campaign.stage.cut
