"""Worker processes in the simulated shell: what is found and counted does not depend on how many there are."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.exhaustive import ExhaustiveRuns
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.workers import simulated_workers
from sinkproof.campaign.workers.simulated_workers import without_trace, workers_beside
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.fault_pairs import AT_STEPS
from sinkproof.generators.fault_sites import places
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.contract import ContractError

from ...support.opened_runner import opened

BACKUPS = f"{Path(__file__).parents[2].joinpath('support/explored_sinks.py')}:OneBackupContract"


@pytest.fixture(autouse=True)
def few(monkeypatch: Any) -> None:
    monkeypatch.setattr(simulated_workers, "WORTH", 10)


def found_by_pairs(locator: str, *, cores: int, most: int) -> CampaignResults:
    with opened(locator) as runner, workers_beside(runner, cores, hang_seconds=300) as workers:
        results = CampaignResults(contract=runner.contract, shell="simulated")
        campaign = SimulatedCampaign(
            runner, results, should_stop=lambda results: results.coverage.runs >= most, workers=workers
        )
        assert campaign.prepare()
        ExhaustiveRuns(campaign, workers).pairs()
        assert cores - 1 == len(workers.workers)
    return results


@pytest.mark.slow
def test_pairs_show_the_same_on_one_core_and_on_three() -> None:
    alone, helped = (found_by_pairs(BACKUPS, cores=cores, most=2500) for cores in (1, 3))
    assert alone.findings
    assert alone.findings == helped.findings
    assert AT_STEPS.description in alone.notes[-1], "the telling ones come first"
    assert (alone.coverage, alone.notes, alone.finding_count) == (helped.coverage, helped.notes, helped.finding_count)


def schedules_of(runner: ScheduleRunner) -> list[Schedule]:
    return [Schedule((fault,)) for fault in places(runner.run(Schedule()), "kill")][:60]


@pytest.mark.slow
def test_lines_that_a_worker_passes_are_the_same_as_here() -> None:
    with opened("memory/masked") as runner, workers_beside(runner, 2, hang_seconds=300) as workers:
        runner.find_own_files()
        schedules, own = 3 * schedules_of(runner), list[Schedule]()

        def run(schedule: Schedule) -> RunResult:
            own.append(schedule)
            return runner.run(schedule, trace_lines=True)

        run_results = list(workers.run_all(schedules, trace_lines=True, run=run))
        assert 0 < len(own) < len(schedules)
        assert [(run(schedule).trace, schedule) for schedule in schedules] == [
            (run_result.trace, run_result.schedule) for run_result in run_results
        ]


@pytest.mark.slow
def test_a_worker_that_dies_makes_no_verdict_and_names_its_schedule() -> None:
    with opened("memory/masked") as runner, workers_beside(runner, 2, hang_seconds=300) as workers:
        killed = list[int]()

        def run(schedule: Schedule) -> RunResult:
            (worker,) = workers.workers
            if str(worker.status) != "starting" and not killed:
                os.kill(worker.child.pid, signal.SIGKILL)
                killed.append(worker.child.pid)
            return runner.run(schedule)

        schedules = 20 * schedules_of(runner)
        with pytest.raises(ReaderFailed, match=r"a worker process is gone: ended while trying \w+"):
            list(workers.run_all(schedules, trace_lines=False, run=run))
        assert killed


@pytest.mark.slow
def test_an_error_in_a_worker_is_raised_in_the_campaign() -> None:
    with opened("memory/masked") as runner:
        schedules = 20 * schedules_of(runner)  # it is made while the first ones are run
        runner.contract.locator = "memory/never"
        with (
            workers_beside(runner, 2, hang_seconds=300) as workers,
            pytest.raises(ContractError, match="unknown subject"),
        ):
            list(workers.run_all(schedules, trace_lines=False, run=runner.run))


@pytest.mark.parametrize("cores", [1, 2])
def test_no_worker_starts_on_one_core_or_for_few_schedules(cores: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(simulated_workers, "WORTH", 10 if cores == 1 else 100)
    with opened("memory/masked") as runner, workers_beside(runner, cores, hang_seconds=300) as workers:
        schedules = schedules_of(runner)
        assert schedules == [
            run_result.schedule for run_result in workers.run_all(schedules, trace_lines=False, run=runner.run)
        ]
        assert [] == workers.workers


def test_a_result_without_its_trace_keeps_what_is_counted() -> None:
    with opened("memory/masked") as runner:
        run_result = runner.run(schedules_of(runner)[5])
        brief = without_trace(run_result)
        assert ([], []) == (brief.trace, brief.history)
        assert (run_result.struck, run_result.rows_committed, run_result.anomalies) == (
            *(brief.struck, brief.rows_committed, brief.anomalies),
        )
