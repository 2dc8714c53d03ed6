"""Faults at executed lines of which one stands for several: they end alike, and who only seems alike is found out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign import exhaustive
from sinkproof.campaign.exhaustive import COMPARED_EVERY, LINE_KINDS, ExhaustiveRuns
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.workers.simulated_workers import ALONE
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.equivalent_faults import equivalence_classes
from sinkproof.exploration.run_memo import MemoizedRuns, outcome_of
from sinkproof.generators.fault_sites import places
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder

UNCOUNTED = f"{Path(__file__).parents[2].joinpath('support/explored_sinks.py')}:OneBackupContract"


@pytest.fixture
def runner(request: Any) -> Iterator[ScheduleRunner]:
    folder = fresh_folder()
    with ScheduleRunner(load(request.param), Scratch(name="alike", path=folder)) as made:
        yield made
    shutil.rmtree(folder)


def groups_of(runner: ScheduleRunner, *kinds: str) -> tuple[MemoizedRuns, list[list[Fault]]]:
    runner.find_own_files()
    memo = MemoizedRuns(runner, confirms=False, trace_lines=True)
    run_result = memo.run(Schedule(), marked=True)
    faults = [fault for kind in kinds for fault in places(run_result, kind, lines=True, sparse=True)]
    return memo, equivalence_classes(faults, run_result, memo.marks)


@pytest.mark.parametrize(
    "runner",
    [pytest.param("files/write-ahead", marks=pytest.mark.slow), "files/idempotent", "memory/masked"],
    indirect=True,
)
def test_faults_of_one_group_end_alike(runner: ScheduleRunner) -> None:
    memo, groups = groups_of(runner, *LINE_KINDS)
    several = [group for group in groups if len(group) > 1]
    assert len(several) < len(groups) < sum(map(len, groups)) / 3
    for group in several:
        ends = [outcome_of(memo.run(Schedule((fault,)))) for fault in (group[0], group[len(group) // 2], group[-1])]
        assert ends[0] == ends[1] == ends[2], group


@pytest.mark.parametrize("runner", ["memory/write-ahead"], indirect=True)
def test_a_question_to_the_target_keeps_sleepers_apart_but_no_deaths(runner: ScheduleRunner) -> None:
    """`is_recorded` changes nothing: who dies before or after it leaves the same. But who sleeps before it hears what
    was recorded meanwhile.
    """
    _, deaths = groups_of(runner, "kill")
    _, sleepers = groups_of(runner, "stop")
    same_for_the_dead = {(fault.actor, fault.point, fault.occurrence): group for group in deaths for fault in group}
    apart = [
        (one, other)
        for one, other in pairwise(sleepers)
        if same_for_the_dead[one[-1].actor, one[-1].point, one[-1].occurrence]
        is same_for_the_dead[other[0].actor, other[0].point, other[0].occurrence]
    ]
    assert any("write_ahead.py" in other[0].point or "memory.py" in one[-1].point for one, other in apart)


@pytest.mark.parametrize("runner", [UNCOUNTED], indirect=True)
def test_where_nobody_counts_requests_every_fault_stands_for_itself(runner: ScheduleRunner) -> None:
    _, groups = groups_of(runner, *LINE_KINDS)
    assert groups
    assert all(len(group) == 1 for group in groups)


@pytest.mark.parametrize("runner", ["memory/plain"], indirect=True)
@pytest.mark.parametrize("truly_alike", [True, False])
def test_if_some_are_not_alike_after_all_each_is_run(
    runner: ScheduleRunner, monkeypatch: pytest.MonkeyPatch, *, truly_alike: bool
) -> None:
    _, groups = groups_of(runner, *LINE_KINDS)
    every, results = sum(map(len, groups)), CampaignResults(contract=runner.contract, shell="simulated")
    if not truly_alike:
        monkeypatch.setattr(exhaustive, "equivalence_classes", lambda faults, *_: [[*faults]])
    ExhaustiveRuns(SimulatedCampaign(runner, results), ALONE).at_lines()
    assert bool(results.notes) is not truly_alike
    fewer = len(groups) + (every - len(groups)) // COMPARED_EVERY + 1
    assert results.coverage.runs == (fewer if truly_alike else every)
