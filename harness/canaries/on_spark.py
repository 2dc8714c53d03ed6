"""The trial of the canaries on Spark: one session for all of them.

Each is first struck where the simulated shell has found it out, by the same one-line schedule; if that does not tell,
by what the Spark shell tries with everybody. The controls are struck at all of those places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.run import begin, conclude
from sinkproof.campaign.spark_campaign import SparkCampaign
from sinkproof.campaign.spark_endurance import EndurancePlan
from sinkproof.campaign.spark_plan import SPARK_PLAN
from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.canaries.catalogue import CONTROLS, CONTROLS_ON_SPARK, Canary
from sinkproof.canaries.conviction import canaries_for, convicting_schedule, try_canary, try_control
from sinkproof.chaos.clock import now
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.spark_runner import fresh_cluster, spark_runner_on
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster
from sinkproof.reports.document import CanaryResult
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.subject.contract import Contract
from sinkproof.workload.jobs import ZOMBIE_LATE_JOB

TIMES: Final = 5  # that a zombie is woken in each way; one is enough two times of three


def try_all_on_spark(*, progress: Progress = SILENT, control_seconds: float) -> Sequence[CanaryResult]:
    results = []
    telling: list[Schedule] = []
    with fresh_cluster() as cluster:
        for canary in canaries_for("spark"):
            found_out = found_out_by(canary, progress=progress)
            telling += found_out
            results.append(try_canary(canary, "spark", progress=progress, run_as=partial(run_on, (cluster, found_out))))
        for name, contract in CONTROLS[:CONTROLS_ON_SPARK]:
            run_as = partial(run_on, (cluster, list(dict.fromkeys(telling))))
            results.append(
                try_control(name, contract, "spark", progress=progress, seconds=control_seconds, run_as=run_as)
            )
    return results


def found_out_by(canary: Canary, *, progress: Progress) -> list[Schedule]:
    """The schedule that convicts it in the simulated shell. Where the whole job died, one process's death may do.

    How far its successors have come when a zombie goes on is luck: it is woken right after their recovery or after
    their next checkpoint, several times.
    """
    schedule = convicting_schedule(canary, progress=progress)
    if schedule is None:
        return []
    fewer = [replace(fault, kind="kill") if fault.kind == "kill-job" else fault for fault in schedule.faults]
    telling = replace(schedule, faults=tuple(fewer))
    return (
        [telling, replace(telling, job=ZOMBIE_LATE_JOB)] * TIMES
        if "stop" in (fault.kind for fault in fewer)
        else [telling]
    )


def run_on(
    session: tuple[Cluster, Sequence[Schedule]],
    contract: Contract,
    task: Task,
    *,
    folder: Path,
    progress: Progress,
    should_stop: Callable[[CampaignResults], bool],
) -> ShellOutcome:
    """As `run_campaign`, on a session that is there already, without the long job; what is to be tried first."""
    cluster, first = session
    results, scratch = begin(contract, task, folder=folder, progress=progress)
    began = now()
    with spark_runner_on(cluster, contract, scratch) as runner:
        campaign = SparkCampaign(runner, results, endurance=EndurancePlan(), first=first, should_stop=should_stop)
        campaign.carry_out(SPARK_PLAN)
    return conclude(results, seconds=now() - began, closure=None, stopped=True)
