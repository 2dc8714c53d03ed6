"""Several worker processes run the schedules of one campaign; results come in the order of the schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from sinkproof.campaign.workers.process_workers import ENTRY, workers_beside
from sinkproof.campaign.workers.worker_pool import PoolWorker, WorkerPool, start_worker
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.make_sink import PRELOAD
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.service_options import DEFAULT_SERVICES

SUBJECT = "files/two-phase"
SCHEDULES = [
    parse(f"sink[{subtask}].{point}#1=kill") for subtask in (0, 1) for point in ("write.after", "commit.before")
]


@pytest.fixture
def runner() -> Iterator[ProcessRunner]:
    folder = fresh_folder()
    with process_runner(load(SUBJECT), Scratch(name="first", path=folder, shell="process")) as made:
        yield made
    made.reset()
    folder.rmdir()


@pytest.fixture
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=(*PRELOAD, "sinkproof.campaign.workers.process_workers")) as made:
        yield made


@pytest.fixture
def worker_for(server: ForkServer) -> Iterator[Callable[[str], PoolWorker]]:
    """Starts a second worker for a subject."""
    with ExitStack() as stack:

        def make(subject: str) -> PoolWorker:
            return start_worker(server, stack, ENTRY, (subject, "second", 10.0, DEFAULT_SERVICES), seconds=120.0)

        yield make


@pytest.mark.slow
def test_a_second_worker_returns_the_results_that_the_first_one_would(
    runner: ProcessRunner, worker_for: Callable[[str], PoolWorker]
) -> None:
    own: list[Schedule] = []

    def run(schedule: Schedule) -> RunResult:
        own.append(schedule)
        return runner.run(schedule)

    run_results = list(WorkerPool([worker_for(SUBJECT)]).run_all(SCHEDULES, trace_lines=False, run=run))
    assert SCHEDULES == [run_result.schedule for run_result in run_results]
    assert 0 < len(own) < len(SCHEDULES)
    for run_result in run_results:
        assert (True, True, (), 1) == (run_result.finished, run_result.fired, run_result.anomalies, run_result.kills)


@pytest.mark.slow
def test_a_worker_records_executed_lines_too(runner: ProcessRunner, worker_for: Callable[[str], PoolWorker]) -> None:
    workers = WorkerPool([worker_for(SUBJECT)])
    traced = list(workers.run_all([Schedule(), Schedule(job="sparse")], trace_lines=True, run=runner.run))
    assert any(point.startswith("line(strategies/two_phase.py") for _, point in traced[0].trace)


def test_an_error_in_a_worker_is_raised_in_the_campaign(
    runner: ProcessRunner, worker_for: Callable[[str], PoolWorker]
) -> None:
    with pytest.raises(ContractError, match="unknown subject"):
        list(WorkerPool([worker_for("files/never")]).run_all(SCHEDULES, trace_lines=False, run=runner.run))


def test_a_worker_that_dies_makes_no_verdict(runner: ProcessRunner, worker_for: Callable[[str], PoolWorker]) -> None:
    worker = worker_for(SUBJECT)
    worker.child.kill()
    with pytest.raises(ReaderFailed, match="a worker process is gone"):
        list(WorkerPool([worker]).run_all(SCHEDULES, trace_lines=False, run=runner.run))


def test_a_subject_without_external_system_has_no_second_worker(runner: ProcessRunner) -> None:
    """Files are quick: there is nothing to wait for."""
    with workers_beside(runner, 2) as workers:
        assert () == workers.workers
