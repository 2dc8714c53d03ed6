"""Campaigns with schedules on executors of Spark find, count and say what they do on one machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sinkproof.campaign import process_plan, simulated_plan
from sinkproof.campaign.exhaustive import ExhaustiveRuns
from sinkproof.campaign.fan_out.fan_out_cluster import FannedOut, fanned_out
from sinkproof.campaign.fan_out.hub_connection import CAMPAIGNS, HUB_GONE, FanOut, connected_to
from sinkproof.campaign.fan_out.spark_workers import KEPT, SlotWorkers, simulated_on_executors
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.campaign.workers import process_workers, simulated_workers, worker_pool
from sinkproof.campaign.workers.simulated_workers import BesideSimulation
from sinkproof.campaign.workers.worker_pool import LateWorkers, PoolNotes, WorkerPool
from sinkproof.certifier.perform import explore_subject
from sinkproof.chaos.processes.fork_server import children_of
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.fault_sites import places
from sinkproof.reports.progress import SILENT

from ....support.opened_runner import opened

SUPPORT = Path(__file__).parents[3] / "support"
BACKUPS = f"{SUPPORT / 'explored_sinks.py'}:OneBackupContract"  # wrong
TWICE = f"{SUPPORT / 'overlapping_runs.py'}:Twice"  # wrong
ALONE = f"{SUPPORT / 'overlapping_runs.py'}:Alone"
RIGHT = "memory/masked"
PAIRS = 2500

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spark() -> Iterator[FannedOut]:
    with fanned_out("local[2]", [BACKUPS, TWICE, ALONE, RIGHT], progress=SILENT) as made:
        yield made


@pytest.fixture
def left_to_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign's own process runs next to nothing, as with many executors."""
    monkeypatch.setattr(worker_pool, "LEFT_TO_WORKERS", 1)


@contextmanager
def workers_for(runner: ScheduleRunner, access: FanOut | None, notes: PoolNotes) -> Iterator[LateWorkers]:
    if access is None:
        yield LateWorkers()
        return
    with simulated_on_executors(runner, access, hang_seconds=300, notes=notes) as workers:
        yield workers


def found_by_pairs(access: FanOut | None) -> tuple[CampaignResults, PoolNotes]:
    notes = PoolNotes()
    with opened(BACKUPS) as runner, workers_for(runner, access, notes) as workers:
        results = CampaignResults(contract=runner.contract, shell="simulated")
        campaign = SimulatedCampaign(
            runner, results, should_stop=lambda results: results.coverage.runs >= PAIRS, workers=workers
        )
        assert campaign.prepare()
        ExhaustiveRuns(campaign, workers).pairs()
    return results, notes


@pytest.mark.longer
def test_pairs_of_a_wrong_sink_show_the_same_on_executors(spark: FannedOut, left_to_workers: None) -> None:
    (alone, _), (elsewhere, notes) = found_by_pairs(None), found_by_pairs(spark.access)
    assert alone.findings
    assert alone.findings == elsewhere.findings
    assert (alone.coverage, alone.notes, alone.finding_count) == (
        *(elsewhere.coverage, elsewhere.notes, elsewhere.finding_count),
    )
    assert ([], []) == (notes.lost, notes.unconfirmed)


def outcome(locator: str, shell: str, access: FanOut | None) -> ShellOutcome:
    task = Task(locator=locator, shell=shell, budget_seconds=3600, cores=1, fan_out=access)
    found = explore_subject(task)
    return replace(found, result=replace(found.result, seconds=0))


@pytest.mark.longer
def test_a_campaign_with_a_bound_that_ends_has_the_same_result_in_the_simulated_shell(
    spark: FannedOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = (*simulated_plan.FIRST, *simulated_plan.SINGLE_FAULTS[:4], simulated_plan.THOUSANDS[0])
    monkeypatch.setattr(simulated_plan, "SIMULATED_PLAN", plan)
    alone, elsewhere = outcome(RIGHT, "simulated", None), outcome(RIGHT, "simulated", spark.access)
    assert all(stage.finished or stage.skipped for stage in alone.result.stages)
    assert alone == elsewhere


def test_a_campaign_with_a_bound_that_ends_has_the_same_result_in_the_process_shell(
    spark: FannedOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = [
        stage for stage in process_plan.PROCESS_PLAN if stage.name in ("kill at each step", "zombie at each step")
    ]
    monkeypatch.setattr(process_plan, "PROCESS_PLAN", tuple(stages))
    monkeypatch.setattr(process_workers, "WORTH", 1)
    alone, elsewhere = outcome(TWICE, "process", None), outcome(TWICE, "process", spark.access)
    assert alone.findings
    assert alone == elsewhere


def schedules_of(runner: ScheduleRunner) -> list[Schedule]:
    return [Schedule((fault,)) for fault in places(runner.run(Schedule()), "kill")][:60]


def test_a_killed_executor_costs_its_schedules_which_are_run_again(spark: FannedOut, left_to_workers: None) -> None:
    """The Python process of its task, with the worker process in it; Spark begins the task again."""
    notes, own, before = PoolNotes(), list[Schedule](), spark.look().slots
    victim, run_results = before[0].pid, list[RunResult]()
    with opened(RIGHT) as runner, workers_for(runner, spark.access, notes) as workers:
        schedules = 40 * schedules_of(runner)

        def run(schedule: Schedule) -> RunResult:
            own.append(schedule)
            return runner.run(schedule)

        for run_result in workers.run_all(schedules, trace_lines=False, run=run):
            run_results.append(run_result)
            if len(run_results) == len(schedules) // 4:
                os.kill(victim, signal.SIGKILL)
        assert 0 < len(own) < len(schedules)
        alone = [runner.run(schedule) for schedule in schedules[:60]]
    assert schedules == [run_result.schedule for run_result in run_results]
    assert 40 * [run_result.anomalies for run_result in alone] == [run_result.anomalies for run_result in run_results]
    assert 1 == len(notes.lost)
    assert "was run again: its executor on" in notes.lost[0]
    while len(spark.look().slots) < len(before):
        assert ("", ()) == (spark.look().ended, spark.look().unfit)
    assert victim not in {slot.pid for slot in spark.look().slots}


def signal_workers_of(slot: int, number: int) -> None:
    for server in children_of(slot):
        for worker in children_of(server):
            os.kill(worker, number)


def test_a_worker_process_that_hangs_is_killed_and_its_schedules_are_run_again(
    spark: FannedOut, left_to_workers: None
) -> None:
    notes, run_results = PoolNotes(), list[RunResult]()
    with (
        opened(RIGHT) as runner,
        simulated_on_executors(runner, spark.access, hang_seconds=0.5, notes=notes) as workers,
    ):
        schedules = 40 * schedules_of(runner)
        for run_result in workers.run_all(schedules, trace_lines=False, run=runner.run):
            run_results.append(run_result)
            if len(run_results) == len(schedules) // 4:
                signal_workers_of(spark.look().slots[0].pid, signal.SIGSTOP)
    assert schedules == [run_result.schedule for run_result in run_results]
    for slot in spark.look().slots:
        signal_workers_of(slot.pid, signal.SIGCONT)  # those that were forked in advance, for workers to come
    assert any("no message for 1 s on" in lost for lost in notes.lost), notes.lost


def test_a_host_that_runs_a_sink_otherwise_gets_no_schedules(spark: FannedOut) -> None:
    """Each worker process makes a run without faults first, and it must end as it does here."""
    notes = PoolNotes()
    with opened(RIGHT) as runner:
        entry, expected = simulated_workers.ENTRY, "a run without faults: finished, 23 rows, no finding"
        workers = SlotWorkers(
            spark.access,
            lambda name: (entry, (BesideSimulation(locator=RIGHT, name=name, expected=expected),)),
            name="other",
            seconds=60,
            why_not=lambda: "",
            notes=notes,
        )
        pool, own = WorkerPool(workers.start(), notes=notes, joining=workers.joining), list[Schedule]()
        schedules = 20 * schedules_of(runner)

        def run(schedule: Schedule) -> RunResult:
            own.append(schedule)
            return runner.run(schedule)

        assert schedules == [each.schedule for each in pool.run_all(schedules, trace_lines=False, run=run)]
        pool._await_workers({})
        workers.close()
    assert own == schedules
    assert all("24 rows, no finding; here a run without faults: finished, 23 rows" in lost for lost in notes.lost)
    assert notes.lost


def test_a_contract_that_refuses_is_kept_on_this_machine(spark: FannedOut, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = [stage for stage in process_plan.PROCESS_PLAN if stage.name == "kill at each step"]
    monkeypatch.setattr(process_plan, "PROCESS_PLAN", tuple(stages))
    assert [f"{KEPT}runs in processes, because the contract has `side_by_side = False`"] == [
        note for note in outcome(ALONE, "process", spark.access).result.notes if note.startswith(KEPT)
    ]


def test_without_a_hub_the_campaign_runs_everything_itself(tmp_path: Path) -> None:
    notes, nowhere = PoolNotes(), FanOut(socket=str(tmp_path / "hub"), secret=b"0" * 32)
    with opened(RIGHT) as runner, workers_for(runner, nowhere, notes) as workers:
        schedules = schedules_of(runner)
        run_results = list(workers.run_all(schedules, trace_lines=False, run=runner.run))
    assert schedules == [run_result.schedule for run_result in run_results]
    assert [f"{KEPT}{HUB_GONE}"] == notes.lost


def test_a_process_that_does_not_know_the_secret_is_refused_before_it_is_heard(spark: FannedOut) -> None:
    stranger = connected_to(spark.access.socket, b"1" * 32, destination=CAMPAIGNS)
    stranger.send("spawn", 0, 0, "os:system", ("true",))
    assert stranger.receive() is None
    stranger.close()


@pytest.mark.longer
def test_hosts_that_have_another_subject_are_refused_before_anything_starts(
    call: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "only_here.py").write_text(
        "import os\n\nif 'PYTHON_WORKER_FACTORY_SECRET' in os.environ or 'SPARK_ENV_LOADED' in os.environ:\n"
        "    raise ImportError('it lies elsewhere')\n"
        f"{(SUPPORT / 'overlapping_runs.py').read_text().replace('from __future__ import annotations', '')}"
    )
    status, out, err = call("certify", "only_here.py:Apart", "--fan-out", "local[2]", "--out", "certificate", "--quiet")
    assert (3, "") == (status, out)
    assert "does not run the same code as this host: it cannot load a subject: " in err
    assert "it lies elsewhere" in err
    assert "Share the subject's folder" in err
    assert "Traceback" not in err
    assert not (tmp_path / "certificate").exists()


def test_the_command_says_where_schedules_ran_and_what_was_kept(call: Callable[..., tuple[int, str, str]]) -> None:
    status, out, err = call(
        *("certify", RIGHT, "--on", "simulated", "--no-canaries", "--budget", "2s", "--fan-out", "local[1]")
    )
    assert "schedules ran on local[1], too: 1 slot on" in out
    assert "Kept on this machine" in " ".join(out.split())
    assert "waiting for executors: 0 of 1 slots" in err
    assert status in (0, 2)


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "nonsense"])
@pytest.mark.longer
def test_a_master_that_is_not_there_is_an_error_with_a_next_step(
    call: Callable[..., tuple[int, str, str]], master: str
) -> None:
    status, _, err = call("certify", RIGHT, "--fan-out", master)
    assert status == 3
    assert f"no schedules can run on {master}: " in err
    assert "Traceback" not in err
