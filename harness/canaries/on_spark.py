"""The trial of the canaries on Spark: one session for all of them.

The schedule that convicted a canary in the simulated shell is run first; if it does not convict the canary again, the
usual plan of the Spark shell follows. The controls run under all of those schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sinkproof.campaign.loop import ShouldStop
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.spark_campaign import SparkCampaign
from sinkproof.campaign.spark_endurance import EndurancePlan
from sinkproof.campaign.spark_plan import SPARK_PLAN
from sinkproof.canaries.catalogue import CONTROLS, CONTROLS_ON_SPARK, Canary
from sinkproof.canaries.conviction import canaries_for, convicting_schedule, try_canary, try_control
from sinkproof.canaries.search import CampaignFunction, campaign_in
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.spark_runner import fresh_cluster, spark_runner_on
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster
from sinkproof.reports.document import CanaryResult
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import ZOMBIE_LATE_JOB

TIMES: Final = 5  # runs in which a zombie resumes, of each kind; one run convicts in two cases of three


def try_all_on_spark(*, progress: Progress = SILENT, control_seconds: float) -> Sequence[CanaryResult]:
    results = []
    convicting: list[Schedule] = []
    with fresh_cluster() as cluster:
        for canary in canaries_for("spark"):
            first = convicting_schedules(canary, progress=progress)
            convicting += first
            results.append(try_canary(canary, "spark", progress=progress, run_as=run_on(cluster, first)))
        for name, contract in CONTROLS[:CONTROLS_ON_SPARK]:
            run_as = run_on(cluster, list(dict.fromkeys(convicting)))
            results.append(
                try_control(name, contract, "spark", progress=progress, seconds=control_seconds, run_as=run_as)
            )
    return results


def convicting_schedules(canary: Canary, *, progress: Progress) -> list[Schedule]:
    """The schedule that convicts it in the simulated shell, with the death of one process for that of the job.

    The progress of the successors when a zombie resumes depends on timing: it resumes right after their recovery or
    after their next checkpoint, several times.
    """
    schedule = convicting_schedule(canary, progress=progress)
    if schedule is None:
        return []
    fewer = [replace(fault, kind="kill") if fault.kind == "kill-job" else fault for fault in schedule.faults]
    early = replace(schedule, faults=tuple(fewer))
    return (
        [early, replace(early, job=ZOMBIE_LATE_JOB)] * TIMES if "stop" in (fault.kind for fault in fewer) else [early]
    )


def run_on(cluster: Cluster, first: Sequence[Schedule]) -> CampaignFunction:
    """In a running session, without the endurance job; these schedules come first."""

    def carry_out(results: CampaignResults, scratch: Scratch, should_stop: ShouldStop) -> None:
        with spark_runner_on(cluster, results.contract, scratch) as runner:
            campaign = SparkCampaign(runner, results, endurance=EndurancePlan(), first=first, should_stop=should_stop)
            campaign.carry_out(SPARK_PLAN)

    return campaign_in(carry_out)
