"""Parallelism that is no multiple of the one before, and a target that does not answer twice in such a recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.combinations import (
    crash_loops,
    failing_targets_in_rescaled_recoveries,
    restarts_there_and_back_of_other_jobs,
    restarts_with_uneven_parallelism,
)
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SUBJECTS = Path(__file__).parents[2] / "support/rescaled_parts.py"
RUNS_LEAST = 6
Generator = Callable[[Any], Iterator[Schedule]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "generator", "found"),
    [
        ("SweptByRange", restarts_with_uneven_parallelism, {"O1"}),
        ("SweptByTheLast", restarts_with_uneven_parallelism, {"O1"}),
        pytest.param("StagedFiles", restarts_with_uneven_parallelism, set(), marks=pytest.mark.longer),
        ("NumberedBySubtask", restarts_there_and_back_of_other_jobs, {"O1"}),
        pytest.param("NumberedByAttempt", restarts_there_and_back_of_other_jobs, set(), marks=pytest.mark.longer),
        ("SweptByAttempt", crash_loops, {"O1"}),
        ("InDoubtByCheckpoint", failing_targets_in_rescaled_recoveries, {"O1"}),
        pytest.param("InDoubt", failing_targets_in_rescaled_recoveries, set(), marks=pytest.mark.longer),
    ],
)
def test_a_sink_that_forgets_what_others_had_is_convicted(
    name: str, generator: Generator, found: set[str], tmp_path: Path
) -> None:
    def is_found(results: CampaignResults) -> bool:
        oracles = {finding.oracle for finding in results.findings}
        return bool(oracles) and found <= oracles and results.coverage.runs > RUNS_LEAST

    with process_runner(load(f"{SUBJECTS}:{name}"), Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=is_found)
        campaign.carry_out([Stage(name="rescaled", schedules=generator)])
    oracles = {finding.oracle for finding in results.findings}
    assert found <= oracles
    assert bool(found) == bool(oracles), [finding.schedule for finding in results.findings]
    assert results.coverage.runs > RUNS_LEAST
