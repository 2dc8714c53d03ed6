"""Equivalent faults at executed lines have equal outcomes, and an audit finds classes that are wrong."""

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
    with ScheduleRunner(load(request.param), Scratch(name="equivalent", path=folder)) as made:
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
    [pytest.param(each, marks=pytest.mark.slow) for each in ("files/write-ahead", "files/idempotent", "memory/masked")],
    indirect=True,
)
def test_faults_of_one_group_have_equal_outcomes(runner: ScheduleRunner) -> None:
    memo, groups = groups_of(runner, *LINE_KINDS)
    several = [group for group in groups if len(group) > 1]
    assert len(several) < len(groups) < sum(map(len, groups)) / 3
    for group in several:
        ends = [outcome_of(memo.run(Schedule((fault,)))) for fault in (group[0], group[len(group) // 2], group[-1])]
        assert ends[0] == ends[1] == ends[2], group


@pytest.mark.parametrize("runner", ["memory/write-ahead"], indirect=True)
def test_a_read_of_the_target_separates_suspensions_but_not_deaths(runner: ScheduleRunner) -> None:
    """`is_recorded` changes nothing: deaths before and after it leave the same state. But an attempt suspended before
    it reads what was recorded meanwhile.
    """
    _, deaths = groups_of(runner, "kill")
    _, suspensions = groups_of(runner, "stop")
    group_of_deaths = {(fault.actor, fault.point, fault.occurrence): group for group in deaths for fault in group}
    separated = [
        (one, other)
        for one, other in pairwise(suspensions)
        if group_of_deaths[one[-1].actor, one[-1].point, one[-1].occurrence]
        is group_of_deaths[other[0].actor, other[0].point, other[0].occurrence]
    ]
    assert any("write_ahead.py" in other[0].point or "memory.py" in one[-1].point for one, other in separated)


@pytest.mark.parametrize("runner", [UNCOUNTED], indirect=True)
def test_each_fault_is_a_group_of_its_own_if_the_target_does_not_count_accesses(runner: ScheduleRunner) -> None:
    _, groups = groups_of(runner, *LINE_KINDS)
    assert groups
    assert all(len(group) == 1 for group in groups)


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["memory/plain"], indirect=True)
@pytest.mark.parametrize("truly_equivalent", [True, False])
def test_each_fault_is_run_after_two_of_one_group_had_different_outcomes(
    runner: ScheduleRunner, monkeypatch: pytest.MonkeyPatch, *, truly_equivalent: bool
) -> None:
    _, groups = groups_of(runner, *LINE_KINDS)
    every, results = sum(map(len, groups)), CampaignResults(contract=runner.contract, shell="simulated")
    if not truly_equivalent:
        monkeypatch.setattr(exhaustive, "equivalence_classes", lambda faults, *_: [[*faults]])
    ExhaustiveRuns(SimulatedCampaign(runner, results), ALONE).at_lines()
    assert bool(results.notes) is not truly_equivalent
    fewer = len(groups) + (every - len(groups)) // COMPARED_EVERY + 1
    assert results.coverage.runs == (fewer if truly_equivalent else every)
