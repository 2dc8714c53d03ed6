"""The most telling schedules: what is tried first in every shell, and where sinks are processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from sinkproof.chaos.points import AROUND_CALLS
from sinkproof.chaos.schedule import COORDINATOR, EVERY_STEP, IN_ORDER, STANDARD, Fault, Schedule
from sinkproof.generators.fault_sites import DECIDED, first_of_each, spread
from sinkproof.generators.rare import (
    EACH,
    MESSAGES,
    OF_TARGET,
    TOLD,
    TWO_DIGITS,
    VOTE,
    all_at_once,
    both_after,
    both_before_commits,
    of_target,
    settles,
    several,
)
from sinkproof.judging.fault_allowances import POWER_LOSSES
from sinkproof.workload.jobs import (
    CLOCK_SKEW_JOB,
    EDGE_CASE_VALUES_JOB,
    LARGE_BATCHES_JOB,
    LATE_SETTLING_JOB,
    MANY_CHECKPOINTS_JOB,
    OUTAGE_JOB,
    PLAIN_JOBS,
    REBATCHED_JOB,
    REUSED_PROCESS_JOB,
    SCALE_IN_AND_OUT_JOB,
    UNALIGNED_JOB,
    UNEVEN_SOURCES_JOB,
)

if TYPE_CHECKING:
    from sinkproof.execution.schedule_runner import RunResult, ScheduleRunner

OUTSIDE: Final = (DECIDED, TOLD, VOTE, "snapshot.after", "notify_complete.after")  # of sinks: where the engine stands
DEADLY_JOBS: Final = (
    OUTAGE_JOB,
    REBATCHED_JOB,
    CLOCK_SKEW_JOB,
    UNALIGNED_JOB,
    UNEVEN_SOURCES_JOB,
)  # after whole-job kills
LONG_DEATHS: Final = (7, 11)  # of which checkpoint's decision, of twelve


def at_first(runner: ScheduleRunner, kind: str, *, rescaled: Iterable[str]) -> Iterator[Schedule]:
    """One death for each kind of job, right when something was decided: what most sinks forget shows here."""
    decided = tuple(Fault(COORDINATOR, DECIDED, occurrence, kind) for occurrence in (1, 2, 3))
    if kind == "kill-job":  # the simulated shell begins with it; who lives in another process meets it here first
        yield Schedule(ids=TWO_DIGITS)
    yield from (Schedule(decided[:1], job=job) for job in (STANDARD, *rescaled, *DEADLY_JOBS))
    # Who has been given nothing opens first, and tidies up before the others have finished what they were given.
    orders = (IN_ORDER, EVERY_STEP) if kind == "kill-job" else (EVERY_STEP,)
    yield from (Schedule(decided[:1], job=job, orders=orders) for job in rescaled)
    again = (*rescaled, SCALE_IN_AND_OUT_JOB) if rescaled else ()
    yield from (Schedule(decided[:2], job=job) for job in again)  # of what one has made of the states of others
    for each in of_target(runner.contract):
        if kind == "kill-job" or each not in POWER_LOSSES:  # those kill, and need real deaths
            yield Schedule((replace(decided[1], kind=each),))
    refused = Fault("sink[0]", VOTE, 1, "decline")
    yield Schedule((refused, decided[0]))
    if settles(runner):
        unheard = Fault(COORDINATOR, "checkpoint.notify", 1, "lose")
        yield Schedule((unheard, decided[2]), job=LATE_SETTLING_JOB)


def in_processes(baseline: RunResult, runner: ScheduleRunner, *, slow: bool = False) -> Iterator[Schedule]:
    """The most telling ones, where the engine itself stands: attempts die by real kills all the same. In turn, so that
    a short budget has seen something of each. `slow`: long jobs take ten seconds each, and run with their deaths only.
    """
    deaths = [fault for fault in spread(baseline, "kill-job") if fault.point in ("checkpoint.notify", TOLD)]
    decided = [fault for fault in spread(baseline, "kill-job") if fault.point == DECIDED]
    jobs = [[Schedule((fault,), job=job) for fault in deaths] for job in DEADLY_JOBS]
    failed = [fault for fault in first_of_each(baseline, "error", lines=False) if fault.point not in AROUND_CALLS]
    if not runner.contract.is_ours:
        jobs.append([Schedule((fault,), job=REUSED_PROCESS_JOB) for fault in failed])
    jobs.append([Schedule((fault, last)) for last in decided[1:] for fault in failed])
    if settles(runner):
        jobs.append([Schedule((fault, last), job=LATE_SETTLING_JOB) for last in decided[1:] for fault in failed])
        first = [*[*spread(baseline, "lose", times=EACH)][:2], *[*spread(baseline, "decline")][:1]]
        jobs.insert(0, [Schedule((fault, last), job=LATE_SETTLING_JOB) for last in decided[::-1] for fault in first])
    late = [Fault(COORDINATOR, DECIDED, occurrence, "kill-job") for occurrence in LONG_DEATHS]
    long = [Schedule((fault,), job=MANY_CHECKPOINTS_JOB) for fault in late]
    long += [Schedule((fault,), job=LARGE_BATCHES_JOB) for fault in decided[1:2]]
    jobs.append(
        [Schedule(job=EDGE_CASE_VALUES_JOB), *long[1:]] if slow else [*(Schedule(job=job) for job in PLAIN_JOBS), *long]
    )
    lost = list(several(baseline))
    jobs += [list(all_at_once(baseline, "kill-job")), list(map(Schedule, lost))]
    jobs.append([Schedule(faults, ids=TWO_DIGITS) for faults in (*lost, tuple(decided[1:2]))])
    if {"expire", "maintain"} <= {*of_target(runner.contract)}:
        jobs.append([*both_after(decided[:2]), *both_before_commits(baseline)])
    for kind in (*of_target(runner.contract), *MESSAGES, "cancel", "drain", "rewind", "forget"):
        places = OUTSIDE if kind in OF_TARGET else ("checkpoint.notify", VOTE)
        faults = [fault for fault in spread(baseline, kind) if fault.point in places]
        jobs.append([Schedule((fault,)) for fault in faults])
    yield from (schedule for turn in zip_longest(*jobs) for schedule in turn if schedule is not None)
