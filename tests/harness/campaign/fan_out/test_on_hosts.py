"""A campaign on a cluster of three hosts on this machine, of which one executor's JVM is killed in the middle."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.campaign.fan_out.fan_out_cluster import FannedOut, fanned_out
from sinkproof.campaign.fan_out.slot_task import SlotSeen
from sinkproof.campaign.fan_out.spark_workers import simulated_on_executors
from sinkproof.campaign.workers import worker_pool
from sinkproof.campaign.workers.worker_pool import PoolNotes
from sinkproof.chaos.processes.process_table import parents_of_all
from sinkproof.chaos.schedule import Schedule
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.namespace_hosts import NamespaceHosts
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.fault_sites import places
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder

BACKUPS = f"{Path(__file__).parents[3] / 'support/explored_sinks.py'}:OneBackupContract"  # wrong
EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"

pytestmark = [pytest.mark.slow, pytest.mark.longer]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FannedOut]:
    try:
        with NamespaceHosts(1, shared=[tmp_path_factory.mktemp("shared")]):
            pass
    except ServiceUnavailable as unavailable:
        pytest.skip(" ".join(str(unavailable).split()))
    with fanned_out("cluster:3", [BACKUPS], progress=SILENT) as made:
        yield made


def executor_of(slot: SlotSeen) -> int:
    """The JVM: it starts the daemon from which the Python process of each task is forked."""
    parents = parents_of_all()
    jvm = parents[parents[slot.pid]]
    assert EXECUTOR in Path(f"/proc/{jvm}/cmdline").read_bytes().split(b"\0")
    return jvm


def test_slots_are_on_several_hosts(spark: FannedOut) -> None:
    assert 2 == len({slot.host for slot in spark.look().slots})


def test_a_killed_jvm_costs_its_schedules_and_what_is_found_is_the_same(
    spark: FannedOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "LEFT_TO_WORKERS", 1)
    notes, run_results, folder, before = PoolNotes(), list[RunResult](), fresh_folder(), spark.look().slots
    with (
        ScheduleRunner(load(BACKUPS), Scratch(name="first", path=folder)) as runner,
        simulated_on_executors(runner, spark.access, hang_seconds=300, notes=notes) as workers,
    ):
        runner.find_own_files()
        faults = [fault for kind in ("kill", "kill-job") for fault in places(runner.run(Schedule()), kind)]
        alone = [runner.run(Schedule((fault,))) for fault in faults]
        schedules = 20 * [each.schedule for each in alone]
        while len(workers.workers) < len(before) or not all(worker.ready for worker in workers.workers):
            list(workers.run_all(schedules[:50], trace_lines=False, run=runner.run))
        for run_result in workers.run_all(schedules, trace_lines=False, run=runner.run):
            run_results.append(run_result)
            if len(run_results) == len(schedules) // 4:
                os.kill(executor_of(before[0]), signal.SIGKILL)
    shutil.rmtree(folder)
    assert schedules == [run_result.schedule for run_result in run_results]
    assert 20 * [each.anomalies for each in alone] == [run_result.anomalies for run_result in run_results]
    assert 1 == len(notes.lost), notes.lost
    assert f"its executor on {before[0].host} is gone" in notes.lost[0]
    while len(spark.look().slots) < len(before):
        state = spark.look()
        assert ("", ()) == (state.ended, state.unfit), "the worker of Spark starts another executor"
