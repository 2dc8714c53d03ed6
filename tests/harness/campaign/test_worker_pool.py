"""Several worker processes run the schedules of one campaign; results come in the order of the schedules."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sinkproof.campaign.campaign_budget import _pool_notes
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.workers import idle_cores, process_workers
from sinkproof.campaign.workers.idle_cores import IdleCores, idle_seconds
from sinkproof.campaign.workers.pool_worker import PoolWorker
from sinkproof.campaign.workers.process_workers import ENTRY, Beside, workers_beside
from sinkproof.campaign.workers.worker_pool import (
    LateWorkers,
    PoolNotes,
    WorkerPool,
    start_worker,
)
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.make_sink import PRELOAD
from sinkproof.execution.process_runner import ProcessRunner
from sinkproof.execution.run_result import RunResult
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import load
from sinkproof.subject.service_options import DEFAULT_SERVICES

from ...support.opened_process_runner import opened

SUBJECT = "files/two-phase"
OVERLAPPING = Path(__file__).parents[2] / "support/overlapping_runs.py"
SCHEDULES = [
    parse(f"sink[{subtask}].{point}#1=kill") for subtask in (0, 1) for point in ("write.after", "commit.before")
]


@pytest.fixture
def runner() -> Iterator[ProcessRunner]:
    with opened(SUBJECT) as made:
        yield made


@pytest.fixture
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=(*PRELOAD, "sinkproof.campaign.workers.process_workers")) as made:
        yield made


@pytest.fixture
def worker_for(server: ForkServer) -> Iterator[Callable[[str], PoolWorker]]:
    """Starts a second worker for a subject."""
    with ExitStack() as stack:

        def make(subject: str) -> PoolWorker:
            order = Beside(locator=subject, name="second", hang_seconds=10.0, services=DEFAULT_SERVICES)
            return start_worker(server, stack, ENTRY, order, seconds=120.0)

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


def test_what_was_given_to_a_worker_that_dies_is_run_again_once(
    runner: ProcessRunner, worker_for: Callable[[str], PoolWorker]
) -> None:
    worker, own, notes = worker_for(SUBJECT), list[Schedule](), PoolNotes()

    def run(schedule: Schedule) -> RunResult:
        worker.child.kill()  # it has been given others
        own.append(schedule)
        return runner.run(schedule)

    pool = WorkerPool([worker], notes=notes)
    run_results = list(pool.run_all(SCHEDULES, trace_lines=False, run=run))
    assert SCHEDULES == [run_result.schedule for run_result in run_results]
    assert sorted(map(str, SCHEDULES)) == sorted(map(str, own)), "each one here, and once"
    assert ["a worker process was lost, and what it was given was run again: ended"] == [
        said.partition(" while ")[0] for said in notes.lost
    ]
    assert [] == pool.workers


def found(locator: str, *, cores: int) -> tuple[CampaignResults, int]:
    """What a part of a campaign has found, and the number of its workers."""
    with opened(locator) as runner, workers_beside(runner, cores) as workers:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(
            runner, results, should_stop=lambda results: results.coverage.runs >= 70, run_all=workers.run_all
        )
        campaign.carry_out(PROCESS_PLAN)
    return results, len(workers.workers)


@pytest.mark.slow
@pytest.mark.longer
def test_a_campaign_finds_the_same_on_one_core_and_on_two() -> None:
    (alone, none), (helped, one) = (found(f"{OVERLAPPING}:Twice", cores=cores) for cores in (1, 2))
    assert (0, 1) == (none, one)
    assert alone.findings
    assert alone.findings == helped.findings
    assert (alone.coverage, alone.notes, alone.finding_count) == (helped.coverage, helped.notes, helped.finding_count)


@pytest.mark.slow
def test_more_workers_come_while_cores_are_idle_and_no_more_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_workers, "WORTH", 1)
    monkeypatch.setattr(IdleCores, "found", lambda cores: cores.began > 0)
    with opened(f"{OVERLAPPING}:Apart") as runner, workers_beside(runner, 2) as workers:
        assert SCHEDULES == [each.schedule for each in workers.run_all(SCHEDULES, trace_lines=False, run=runner.run)]
        assert 3 == len(workers.workers)
        monkeypatch.setattr(IdleCores, "found", lambda cores: False)
    with opened(f"{OVERLAPPING}:Apart") as runner, workers_beside(runner, 2) as workers:
        assert len(SCHEDULES) == len(list(workers.run_all(SCHEDULES, trace_lines=False, run=runner.run)))
        assert 1 == len(workers.workers)


def test_cores_are_idle_if_one_of_them_was_since_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, idle = [100.0], [7.0]
    monkeypatch.setattr(idle_cores, "now", lambda: clock[0])
    monkeypatch.setattr(idle_cores, "idle_seconds", lambda: idle[0])
    cores = IdleCores()
    idle[0] += 1.0
    clock[0] += 1.0
    assert not cores.found(), "too soon to say"
    idle[0] += 1.0
    clock[0] += 1.0
    assert cores.found(), "one of two was, all the time"
    idle[0] += 1.0
    clock[0] += 2.0
    assert not cores.found(), "none was for more than half of the time"


def test_idle_time_is_that_of_all_cores_with_what_waits_for_a_disk(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 5 10 15 200 25 3 4 4 0 0\n")
    assert idle_seconds(stat=stat) * os.sysconf("SC_CLK_TCK") == pytest.approx(450)
    assert 0.0 == idle_seconds(stat=tmp_path / "missing")


def test_what_counts_is_what_breaks_a_claim_of_the_contract(tmp_path: Path) -> None:
    contract = load("memory/plain")  # at least once
    notes = _pool_notes(CampaignResults(contract=contract, shell="process"))
    assert [True, False, False] == [notes.counts(oracle) for oracle in ("O1", "O3", "O9")]


@pytest.mark.slow
@pytest.mark.parametrize(("goes_on", "counts"), [(False, True), (True, True), (False, False)])
def test_what_is_found_beside_other_runs_counts_if_a_run_alone_shows_it(
    worker_for: Callable[[str], PoolWorker], goes_on: bool, counts: bool
) -> None:
    """A file beside the scratch folders disturbs runs, while runs overlap or for good. What does not count is noted."""
    notes, subject = PoolNotes(counts=lambda oracle: counts), f"{OVERLAPPING}:Disturbed"
    with opened(subject) as runner:
        disturbed = runner.scratch.path.with_name("disturbed")
        pool = WorkerPool([worker_for(subject)], notes=notes)
        disturbed.touch()

        def run(schedule: Schedule) -> RunResult:
            if not goes_on and not any(worker.is_busy for worker in pool.workers):
                disturbed.unlink(missing_ok=True)
            return runner.run(schedule)

        try:
            run_results = list(pool.run_all(SCHEDULES, trace_lines=False, run=run))
        finally:
            disturbed.unlink(missing_ok=True)
    assert SCHEDULES == [run_result.schedule for run_result in run_results]
    assert [goes_on] * len(SCHEDULES) == [bool(run_result.anomalies) for run_result in run_results]
    assert (goes_on or not counts) == (not notes.unconfirmed) == bool(pool.workers)
    assert counts == (not notes.lost)
    assert all("side_by_side" in said for said in (*notes.unconfirmed, *notes.lost))


@pytest.mark.slow
def test_results_of_a_call_that_was_broken_off_are_not_those_of_the_next_one(
    runner: ProcessRunner, worker_for: Callable[[str], PoolWorker]
) -> None:
    workers = LateWorkers(start=lambda: [worker_for(SUBJECT)])
    for _ in workers.run_all(SCHEDULES, trace_lines=False, run=runner.run):
        break  # the worker has been given others
    run_results = list(workers.run_all(SCHEDULES[::-1], trace_lines=False, run=runner.run))
    assert SCHEDULES[::-1] == [run_result.schedule for run_result in run_results]


@pytest.mark.slow
def test_a_late_worker_that_fails_in_its_first_run_is_lost(runner: ProcessRunner, server: ForkServer) -> None:
    notes, own = PoolNotes(), list[Schedule]()
    order = Beside(
        locator=f"{OVERLAPPING}:ReadsNothing", name="second", hang_seconds=10.0, services=DEFAULT_SERVICES, is_late=True
    )
    with ExitStack() as stack:
        failing = start_worker(server, stack, ENTRY, order, seconds=60.0, ready=False)
        pool = WorkerPool([failing], notes=notes)

        def run(schedule: Schedule) -> RunResult:
            if pool.workers:
                failing.child.await_ready(failing.child.channel.fileno(), select.POLLIN, Deadline(60.0))
            own.append(schedule)
            return runner.run(schedule)

        assert SCHEDULES == [each.schedule for each in pool.run_all(SCHEDULES, trace_lines=False, run=run)]
    assert own == SCHEDULES
    assert 1 == len(notes.lost)
    assert "has failed: no room" in notes.lost[0]


@pytest.mark.slow
def test_a_campaign_reports_while_it_waits_for_a_worker(
    runner: ProcessRunner, worker_for: Callable[[str], PoolWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it counts as hung before the worker does."""
    monkeypatch.setattr("sinkproof.subject.heartbeat.EVERY_SECONDS", 0.01)  # a worker's first run takes longer
    reported = list[str]()
    pool = WorkerPool([worker_for(SUBJECT)], notes=PoolNotes(report=reported.append))
    only = SCHEDULES[:1]
    assert only == [each.schedule for each in pool.run_all(only, trace_lines=False, run=runner.run)]
    assert {"waits for a worker process"} == set(reported)


@pytest.mark.slow
@pytest.mark.parametrize(("subject", "overlap"), [("Apart", True), ("Alone", False), ("SetUpByName", True)])
def test_a_contract_may_refuse_that_its_runs_overlap_or_allow_it(
    subject: str, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_workers, "WORTH", 1)
    with opened(f"{OVERLAPPING}:{subject}") as runner, workers_beside(runner, 2) as workers:
        assert len(SCHEDULES) == len(list(workers.run_all(SCHEDULES, trace_lines=False, run=runner.run)))
        assert overlap == bool(workers.workers)


@pytest.mark.slow
def test_a_worker_ends_when_it_has_removed_what_it_has_made_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_workers, "WORTH", 1)
    monkeypatch.setenv("SINKPROOF_SCRATCH", str(tmp_path))
    with opened(f"{OVERLAPPING}:TidiesForLong") as runner, workers_beside(runner, 2) as workers:
        assert len(SCHEDULES) == len(list(workers.run_all(SCHEDULES, trace_lines=False, run=runner.run)))
        assert workers.workers
        assert 2 == len(list(tmp_path.glob("*-known")))
    assert [] == list(tmp_path.glob("*-known"))


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2])
def test_no_worker_starts_on_one_core_or_for_few_schedules(
    runner: ProcessRunner, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_workers, "WORTH", 4 if cores == 1 else 5)
    with workers_beside(runner, cores) as workers:
        assert SCHEDULES == [
            run_result.schedule for run_result in workers.run_all(SCHEDULES, trace_lines=False, run=runner.run)
        ]
        assert [] == workers.workers
