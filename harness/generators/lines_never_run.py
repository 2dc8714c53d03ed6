"""Schedules that may lead to lines which no run has executed, and the faults that are tried where one has.

What a sink does seldom depends on how much it holds, on how long nothing came, on checkpoints that fail one after
the other, and on how many subtasks there are. None of it is in the standard job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.unanswered_call import CALLS
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import DECIDED, EACH, passes, spread
from sinkproof.generators.rare import all_notifications_but_the_last
from sinkproof.workload.job_plans import FAILURES_TOLERATED
from sinkproof.workload.jobs import (
    EMPTY_BATCHES_JOB,
    FAR_LARGER_DATA_JOB,
    HUNDREDS_OF_CHECKPOINTS_JOB,
    LONG_IDLE_JOB,
    MANY_CHECKPOINTS_JOB,
    MANY_CHUNKS_JOB,
    MANY_KEYS_JOB,
    TWELVE_SINKS_JOB,
)

NOTIFIED: Final = "notify_complete.before"
DEATHS: Final = {"kill-job": (DECIDED, NOTIFIED)}
OTHERS: Final = {"stop": (NOTIFIED, "write.after"), "error": CALLS, "unanswered": CALLS}


def unusual_situations(campaign: CampaignView) -> Iterator[Schedule]:
    """Short ones first. A batch has a single row in `many-checkpoints`, 10,000 rows in `far-larger-data`."""
    yield Schedule(job=EMPTY_BATCHES_JOB)
    yield Schedule(job=MANY_CHECKPOINTS_JOB)
    many = campaign.run_traced(Schedule(job=MANY_CHECKPOINTS_JOB))
    yield Schedule(tuple(all_notifications_but_the_last(many)), job=MANY_CHECKPOINTS_JOB)
    declined = [fault for fault in spread(many, "decline", times=EACH) if fault.actor == "sink[0]"]
    yield Schedule(tuple(declined[: FAILURES_TOLERATED - 1]), job=MANY_CHECKPOINTS_JOB)
    if campaign.contract.expires_after is None:  # else each transaction would have expired
        yield Schedule(job=LONG_IDLE_JOB)
    yield Schedule(job=MANY_KEYS_JOB)
    yield Schedule(job=TWELVE_SINKS_JOB)
    yield Schedule(job=HUNDREDS_OF_CHECKPOINTS_JOB)
    yield Schedule(job=FAR_LARGER_DATA_JOB)


def many_chunks() -> Iterator[Schedule]:
    """A chunk with a number of two digits comes before one with a single digit, if they are sorted as text."""
    yield Schedule(job=MANY_CHUNKS_JOB)
    yield _zombie(NOTIFIED, job=MANY_CHUNKS_JOB)


def far_larger_data() -> Iterator[Schedule]:
    """Without a fault, and with a death of the job: what it replays is more than the sink gets in other jobs."""
    yield Schedule(job=FAR_LARGER_DATA_JOB)
    yield Schedule((Fault(COORDINATOR, DECIDED, 2, "kill-job"),), job=FAR_LARGER_DATA_JOB)
    yield _zombie(NOTIFIED, job=FAR_LARGER_DATA_JOB)


def hundreds_of_checkpoints() -> Iterator[Schedule]:
    """What a sink remembers of the last so many checkpoints does not refuse a zombie from before."""
    yield from (_zombie(point, job=HUNDREDS_OF_CHECKPOINTS_JOB) for point in (NOTIFIED, "write.before"))


def _zombie(point: str, *, job: str) -> Schedule:
    return Schedule((Fault("sink[0]", point, 1, "stop"),), job=job)


def faults_next(run: RunResult, *, deaths_only: bool) -> Iterator[Schedule]:
    """After the faults that led there, at the first, the middle and the last pass of each step: deaths of the whole job
    around decisions, then zombies, then calls to the target that fail. `deaths_only`: a run takes seconds.
    """
    for kind, points in (DEATHS if deaths_only else {**DEATHS, **OTHERS}).items():
        for point in points:
            sites = [fault for fault in _after_its_faults(run, kind) if fault.point == point]
            few = dict.fromkeys(sites[len(sites) * part // 2 - (part == 2)] for part in range(3) if sites)
            yield from (replace(run.schedule, faults=(*run.schedule.faults, fault)) for fault in few)


def _after_its_faults(run: RunResult, kind: str) -> Iterator[Fault]:
    injected = {(fault.actor, fault.point, fault.occurrence) for fault in run.schedule.faults}
    for actor, point, occurrence in passes(run):
        injected.discard((actor, point, occurrence))
        if not injected and KINDS[kind].applies(actor, point):
            yield Fault(actor, point, occurrence, kind)
