"""What does harm only together is found together, and right sinks pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.outward_calls_plan import NATIVE_CODE
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.combinations import (
    combined,
    crash_loops,
    declines_before_lost_notifications,
    declines_before_rescaled_restarts,
    errors_with_large_batches,
    keys_of_two_splits,
    messages_in_other_jobs,
    rescaled_restarts_of_other_jobs,
    restarts_from_one_checkpoint,
    restarts_with_uneven_parallelism,
    zombies_with_successors_that_die,
)
from sinkproof.generators.high_yield import longer_generations
from sinkproof.generators.interleavings import crashes_within_rescaled_recoveries, faults_in_restored_attempts
from sinkproof.generators.single_faults import errors_in_reused_processes
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SUPPORT = Path(__file__).parents[2] / "support"
TABLES = (
    "RestoredAndKilled",
    "LateAndRestartedTwice",
    "KeysOfTwoSplits",
    "SuspendedAndKilled",
    "Tables",
    "SuspendedAndFenced",
)
LONGER = pytest.mark.longer
Generator = Callable[[Any], Iterator[Schedule]]


def findings_of(
    name: str,
    stages: list[Stage],
    *,
    folder: Path,
    should_stop: Callable[[CampaignResults], bool] = lambda results: False,
) -> CampaignResults:
    file = SUPPORT / ("harmed_tables.py" if name in TABLES else "harmed_parts.py")
    with process_runner(load(f"{file}:{name}"), Scratch(name=name, path=folder, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results, should_stop=should_stop).carry_out(stages)
    return results


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "generator", "found", "schedule"),
    [
        ("AbortedAndRescaled", declines_before_rescaled_restarts, {"O1"}, "job=scale-in sink[0].acknowledge.before"),
        pytest.param(
            "AbortedAndLost",
            declines_before_lost_notifications,
            {"O1"},
            "sink[0].acknowledge.before#1=decline",
            marks=pytest.mark.longer,
        ),
        ("StagedForAFewAttempts", crash_loops, {"O1"}, "checkpoint.persist.after#2=kill-job sink[0].open.before"),
        ("RestoredByOne", restarts_with_uneven_parallelism, {"O1"}, "job=four-to-one checkpoint.persist.after"),
        ("ListedByThreeDigits", longer_generations, {"O1"}, "ids=998 "),
        ("PackedParts", longer_generations, {"O1"}, "job=skipped-ids no-fault"),
        ("UnalignedAndRescaled", rescaled_restarts_of_other_jobs, {"O1"}, "job=unaligned+scale-"),
        pytest.param(
            "SparseAndRescaled",
            rescaled_restarts_of_other_jobs,
            {"O1"},
            "job=sparse+scale-in",
            marks=pytest.mark.longer,
        ),
        pytest.param(
            "SparseAndLost", messages_in_other_jobs, {"O1"}, "job=sparse checkpoint.notify", marks=pytest.mark.longer
        ),
        ("LargeAndAborted", messages_in_other_jobs, {"O1"}, "job=large-batches"),
        pytest.param(
            "LargeAndFailing", errors_with_large_batches, {"O1"}, "job=large-batches sink[", marks=pytest.mark.longer
        ),
        pytest.param(
            "RescaledThereAndBack",
            crashes_within_rescaled_recoveries,
            {"O1"},
            "job=scale-in-and-out",
            marks=pytest.mark.longer,
        ),
        pytest.param(
            "RestoredAndKilled",
            faults_in_restored_attempts,
            {"O2"},
            "checkpoint.persist.after#1=kill-job sink",
            marks=pytest.mark.longer,
        ),
        ("LateAndRestartedTwice", restarts_from_one_checkpoint, {"O2"}, "job=outage"),
        ("KeysOfTwoSplits", keys_of_two_splits, {"O1"}, "job=shared-keys no-fault"),
        ("SuspendedAndKilled", zombies_with_successors_that_die, {"O9"}, "job=zombie-very-late"),
    ],
)
def test_what_harms_a_sink_together_is_found(
    name: str, generator: Generator, found: set[str], schedule: str, tmp_path: Path
) -> None:
    def is_found(results: CampaignResults) -> bool:
        return found <= {finding.oracle for finding in results.findings if finding.schedule.startswith(schedule)}

    stages = [Stage(name="together", schedules=generator)]
    assert is_found(findings_of(name, stages, folder=tmp_path, should_stop=is_found))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "generators", "runs_least"),
    [
        pytest.param(
            *("PartFiles", (combined, faults_in_restored_attempts, errors_in_reused_processes), 250), marks=LONGER
        ),
        ("PartFiles", (declines_before_lost_notifications, crash_loops), 14),
        ("ListedParts", (longer_generations,), 9),
        pytest.param("Tables", (faults_in_restored_attempts, restarts_from_one_checkpoint), 50, marks=LONGER),
        pytest.param("RescaledAndLeft", (crashes_within_rescaled_recoveries,), 50, marks=LONGER),
        pytest.param("SuspendedAndFenced", (zombies_with_successors_that_die,), 30, marks=LONGER),
    ],
)
def test_right_sinks_pass_what_harms_others(
    name: str, generators: tuple[Generator, ...], runs_least: int, tmp_path: Path
) -> None:
    results = findings_of(name, [Stage(name="together", schedules=each) for each in generators], folder=tmp_path)
    assert [] == [str(finding.schedule) for finding in results.findings]
    assert results.coverage.runs >= runs_least


@pytest.mark.slow
@pytest.mark.parametrize(("expires_after", "jobs"), [(None, {"long-idle"}), (60.0, set())])
def test_messages_fail_while_a_day_passes_where_no_transaction_expires(
    expires_after: float | None, jobs: set[str], tmp_path: Path
) -> None:
    contract = load(f"{SUPPORT / 'harmed_parts.py'}:PartFiles")
    if expires_after is not None:
        contract.expires_after = expires_after
    with process_runner(contract, Scratch(name="idle", path=tmp_path, shell="process")) as runner:
        campaign = ProcessCampaign(runner, CampaignResults(contract=contract, shell="process"))
        found = {schedule.job for schedule in messages_in_other_jobs(campaign) if schedule.faults}
    assert jobs == found & {"long-idle"}
    assert "sparse" in found


@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "found"), [("WrittenShort", {"O1"}), ("PartFiles", set())])
def test_a_sink_that_does_not_write_the_rest_after_a_short_write_loses_rows(
    name: str, found: set[str], tmp_path: Path
) -> None:
    stages = [
        stage for stage in NATIVE_CODE if stage.name.startswith(("outward calls that no line", "refused statements"))
    ]
    results = findings_of(name, stages, folder=tmp_path)
    assert len(stages) == 2
    assert found == {finding.oracle for finding in results.findings if "=short-write" in finding.schedule}
