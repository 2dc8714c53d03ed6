"""What does harm only together: jobs that differ from the standard one in two ways, restarts one right after the other,
faults of an attempt and of its successor.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import product
from typing import Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import AROUND_CALLS, is_line
from sinkproof.chaos.schedule import COORDINATOR, IN_ORDER, STANDARD, Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators import single_faults
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import (
    DECIDED,
    EACH,
    KINDS_AT_CALLS,
    SINK,
    as_passed_by,
    evenly,
    in_turn,
    passes,
    places,
    spread,
)
from sinkproof.generators.feasible import offered, settles
from sinkproof.generators.interleavings import within
from sinkproof.generators.rare import ALL_MESSAGES, VOTE, all_notifications_but_the_last
from sinkproof.subject.static_analysis.numbers_in_code import numbers_between
from sinkproof.workload.job_names import (
    CLOCK_SKEW_JOB,
    EDGE_CASE_VALUES_JOB,
    EMPTY_BATCHES_JOB,
    EQUAL_ROWS_JOB,
    LARGE_BATCHES_JOB,
    LATE_SETTLING_JOB,
    LONG_IDLE_JOB,
    MANY_CHECKPOINTS_JOB,
    OUTAGE_JOB,
    REBATCHED_JOB,
    SCALE_IN_AND_OUT_JOB,
    SHARED_KEYS_JOB,
    SPARSE_JOB,
    TOGETHER,
    UNALIGNED_JOB,
    UNEVEN_SOURCES_JOB,
    UNEVENLY_RESCALED_JOBS,
    ZOMBIE_LATE_JOB,
    ZOMBIE_VERY_LATE_JOB,
)
from sinkproof.workload.rows import SINKS

OTHERWISE: Final = (
    *(SPARSE_JOB, UNALIGNED_JOB, UNEVEN_SOURCES_JOB, EMPTY_BATCHES_JOB, OUTAGE_JOB, CLOCK_SKEW_JOB),
    *(EDGE_CASE_VALUES_JOB, LARGE_BATCHES_JOB),
)
RESTARTED: Final = (STANDARD, REBATCHED_JOB, OUTAGE_JOB, CLOCK_SKEW_JOB, UNALIGNED_JOB, SPARSE_JOB)
OPENED_IN_REVERSE: Final = (IN_ORDER, "open")  # by the second generation
DECISIONS: Final = tuple(Fault(COORDINATOR, DECIDED, time, "kill-job") for time in (1, 2, 3))
COMMITTED: Final = Fault("sink[0]", "notify_complete.after", 1, "kill-job")
KEPT_ATTEMPTS_MOST: Final = 60
LONGER_LOOPS_MOST: Final = 2  # the largest such numbers in the code
RESTARTS_OF_LOOP: Final = 12  # sinks that remember their last attempts remember three, five or ten
LINES_MOST: Final = 12
TAKEN_OVER: Final = 2  # of the commits in a recovery two are struck: a subtask's own, and one that it has taken over
LATER: Final = 4  # the other subtask dies at its fourth notification of twelve
MESSAGES_OF_SINKS: Final = (VOTE, "checkpoint.notify", "checkpoint.abort")
EQUAL_ROWS_MOST: Final = 16
OPENED_AGAIN: Final = tuple(Fault("sink[0]", "open.after", time, "kill-job") for time in (2, 3))


def combined(campaign: CampaignView) -> Iterator[Schedule]:
    """In turn, so that a short budget covers something of each."""
    yield from in_turn(
        (
            keys_of_two_splits(campaign),
            errors_with_large_batches(campaign),
            edge_cases_in_commits(campaign),
            equal_rows_in_commits(campaign),
            messages_in_other_jobs(campaign),
            declines_before_lost_notifications(campaign),
            notifications_out_of_order_before_deaths(campaign),
            declines_before_rescaled_restarts(campaign),
            rescaled_restarts_of_other_jobs(campaign),
            restarts_there_and_back_of_other_jobs(campaign),
            restarts_with_uneven_parallelism(campaign),
            failing_targets_in_rescaled_recoveries(campaign),
            failing_targets_before_second_restarts(campaign),
            restarts_from_one_checkpoint(campaign),
            crash_loops(campaign),
            crash_loops_at_lines(campaign),
            zombies_with_successors_that_die(campaign),
            maintenance_after_late_commits(campaign),
        )
    )


def maintenance_after_late_commits(campaign: CampaignView) -> Iterator[Schedule]:
    """What commits several checkpoints at once has them all in its last state: maintenance may forget the oldest."""
    if not offered(campaign.contract, "maintain"):
        return
    for job in (STANDARD, MANY_CHECKPOINTS_JOB):
        lost = all_notifications_but_the_last(campaign.run_traced(Schedule(job=job)))
        for late in (lost[: 2 * SINKS : SINKS], lost):
            then = Fault("sink[0]", "notify_complete.after", 1, "maintain")
            deaths = (Fault("sink[1]", f"notify_complete.{when}", 1, "kill-job") for when in ("before", "after"))
            yield from (Schedule((*late, then, death), job=job) for death in deaths)


def keys_of_two_splits(campaign: CampaignView) -> Iterator[Schedule]:
    """Not where the last row of each key is to be left: which one that is, nothing says then."""
    if campaign.contract.rows == "append":
        yield from (Schedule(faults, job=SHARED_KEYS_JOB) for faults in ((), DECISIONS[:1], DECISIONS[1:2]))


def errors_with_large_batches(campaign: CampaignView) -> Iterator[Schedule]:
    """What is written before a checkpoint, because a buffer is full, may handle its errors in another way."""
    large = campaign.run(Schedule(job=LARGE_BATCHES_JOB))
    for kind in KINDS_AT_CALLS:
        faults = (fault for fault in places(large, kind, sparse=True) if campaign.can_inject(fault))
        yield from (Schedule((fault,), job=LARGE_BATCHES_JOB) for fault in faults)


def edge_cases_in_commits(campaign: CampaignView) -> Iterator[Schedule]:
    """Some lines do something only for unusual values, and all of them have run, and been struck, without these: deaths
    and zombies at each line of a commit, in the first, the second and the last one.
    """
    traced = campaign.run_traced(Schedule(job=EDGE_CASE_VALUES_JOB))
    of_one = as_passed_by("sink[0]", traced)
    commits = Counter(point for _, point, _ in passes(of_one))["notify_complete.before"]
    for skipped in sorted({0, 1, commits - 1}):
        deaths, zombies = (
            within(of_one, "notify_complete", kind, calls_skipped=skipped) for kind in ("kill-job", "stop")
        )
        yield from (Schedule((fault,), job=EDGE_CASE_VALUES_JOB) for fault in (*deaths, *zombies))


def equal_rows_in_commits(campaign: CampaignView) -> Iterator[Schedule]:
    """The rows of the second commit equal those of the first one: a recovery may take some for what it has done."""
    traced = campaign.run_traced(Schedule(job=EQUAL_ROWS_JOB))
    of_one = as_passed_by("sink[0]", traced)
    deaths = [*within(of_one, "notify_complete", "kill-job", calls_skipped=1, last=True)]
    yield from (Schedule((fault,), job=EQUAL_ROWS_JOB) for fault in evenly(deaths, EQUAL_ROWS_MOST))


def messages_in_other_jobs(campaign: CampaignView) -> Iterator[Schedule]:
    """A notification or a vote is lost, late, repeated or declined, and its checkpoint has much, nothing, or rows of
    another one; after a decline the job also dies.
    """
    idle = () if campaign.contract.expires_after else (LONG_IDLE_JOB,)  # each transaction would have expired
    for job in (SPARSE_JOB, LARGE_BATCHES_JOB, MANY_CHECKPOINTS_JOB, UNALIGNED_JOB, EDGE_CASE_VALUES_JOB, *idle):
        alone = campaign.run(Schedule(job=job))
        for kind in ALL_MESSAGES:
            times = EACH if job == SPARSE_JOB and kind in ("decline", "lose") else 3
            faults = [fault for fault in spread(alone, kind, times=times) if fault.point in MESSAGES_OF_SINKS]
            yield from (Schedule((fault,), job=job) for fault in faults)
            if kind == "decline":
                yield from (Schedule((fault, DECISIONS[0]), job=job) for fault in faults)


def declines_before_lost_notifications(campaign: CampaignView) -> Iterator[Schedule]:
    """What was aborted goes with the next checkpoint, of which no notification arrives."""
    votes = [fault for fault in places(campaign.baseline, "decline") if fault.point == VOTE and "sink" in fault.actor]
    lost = [Fault(COORDINATOR, "checkpoint.notify", time, "lose") for time in (1, 2, 3, 4)]
    for vote in votes:
        if vote.occurrence <= 2:
            next_ones = lost[:2] if vote.occurrence == 1 else lost[2:]
            yield from (Schedule((vote, *some)) for some in (next_ones, next_ones[:1], next_ones[1:]))


def notifications_out_of_order_before_deaths(campaign: CampaignView) -> Iterator[Schedule]:
    """An earlier checkpoint is notified after a later one, or again: progress that goes back shows after a restart."""
    deaths = (*(replace(COMMITTED, occurrence=time) for time in (2, 3)), *DECISIONS[1:])
    for kind in ("late", "repeat"):
        faults = [fault for fault in spread(campaign.baseline, kind) if fault.point == "checkpoint.notify"]
        yield from (Schedule((fault, death)) for fault in faults for death in deaths)


def declines_before_rescaled_restarts(campaign: CampaignView) -> Iterator[Schedule]:
    """Subtasks keep what was aborted for a later checkpoint; before that one is committed the job restarts with another
    parallelism.
    """
    votes = [fault for fault in places(campaign.baseline, "decline") if fault.point == VOTE and "sink" in fault.actor]
    first, second = ([vote for vote in votes if vote.occurrence == time] for time in (1, 2))
    both = (*first[:1], *second[:1])
    for job in campaign.rescaled_jobs:
        yield from (Schedule((vote, DECISIONS[0]), job=job) for vote in (*first, *second))
        yield Schedule((*both, DECISIONS[0]), job=job)
        yield from (Schedule((vote, DECISIONS[1]), job=job) for vote in first)


def rescaled_restarts_of_other_jobs(campaign: CampaignView) -> Iterator[Schedule]:
    """States without rows, rows on their way, or none left, are restored by other subtasks."""
    jobs = [TOGETHER.join((job, rescaled)) for job in OTHERWISE for rescaled in campaign.rescaled_jobs]
    yield from (Schedule((death,), job=job) for death in (*DECISIONS, COMMITTED) for job in jobs)
    many = [TOGETHER.join((MANY_CHECKPOINTS_JOB, rescaled)) for rescaled in campaign.rescaled_jobs]
    yield from (Schedule((Fault(COORDINATOR, DECIDED, 11, "kill-job"),), job=job) for job in many)


def restarts_there_and_back_of_other_jobs(campaign: CampaignView) -> Iterator[Schedule]:
    """A subtask that was gone for a while is back without a state, and may use names that it has used before."""
    jobs = [TOGETHER.join((job, SCALE_IN_AND_OUT_JOB)) for job in OTHERWISE] if campaign.rescaled_jobs else []
    for deaths in (DECISIONS[:2], DECISIONS[1:]):
        yield from (Schedule(deaths, job=job) for job in jobs)


def restarts_with_uneven_parallelism(campaign: CampaignView) -> Iterator[Schedule]:
    """No subtask restores all of what another one had, or the half of it. The last one may open first, and clean up."""
    for job in UNEVENLY_RESCALED_JOBS if campaign.rescaled_jobs else ():
        yield from (Schedule((death,), job=job) for death in (*DECISIONS, COMMITTED))
        yield from (Schedule((death,), job=job, orders=OPENED_IN_REVERSE) for death in DECISIONS[:2])


def failing_targets_in_rescaled_recoveries(campaign: CampaignView) -> Iterator[Schedule]:
    """The target does not answer while a subtask commits what several had voted for: each call of one kind fails, twice
    or four times.
    """
    for job in campaign.rescaled_jobs:
        killed = Schedule(DECISIONS[1:2], job=job)
        for faults, times in product(_calls_of_recovery(campaign.run(killed), kind="error"), (2, 4)):
            if len(faults) >= times:
                yield Schedule((*killed.faults, *faults[:times]), job=job)


def failing_targets_before_second_restarts(campaign: CampaignView) -> Iterator[Schedule]:
    """What one subtask has taken over from another one, and could not commit, is restored once more."""
    others = (STANDARD, LATE_SETTLING_JOB) if settles(campaign.runner) else (STANDARD,)
    for rescaled, other in product(campaign.rescaled_jobs, others):
        killed = Schedule(DECISIONS[:1], job=rescaled if other == STANDARD else TOGETHER.join((other, rescaled)))
        recovered = campaign.run(killed)
        calls = [faults for kind in KINDS_AT_CALLS for faults in _calls_of_recovery(recovered, kind=kind)]
        failing = (fault for faults in calls for fault in faults[:TAKEN_OVER])
        yield from (replace(killed, faults=(*killed.faults, fault, DECISIONS[1])) for fault in failing)


def _calls_of_recovery(recovered: RunResult, *, kind: str) -> Collection[list[Fault]]:
    """Errors at calls of one subtask after the death, by the kind of call."""
    passed, (death,) = list(passes(recovered)), recovered.schedule.faults
    calls: dict[str, list[Fault]] = {}
    for place in passed[passed.index((death.actor, death.point, death.occurrence)) + 1 :]:
        if place[0] == "sink[0]" and place[1] not in AROUND_CALLS and KINDS[kind].applies(*place[:2]):
            calls.setdefault(place[1], []).append(Fault(*place, kind))
    return calls.values()


def restarts_from_one_checkpoint(campaign: CampaignView) -> Iterator[Schedule]:
    """The whole job dies again before it has completed another one: what was committed is restored twice, or three
    times.
    """
    rescaled = (*campaign.rescaled_jobs, SCALE_IN_AND_OUT_JOB) if campaign.rescaled_jobs else ()
    for job in (*RESTARTED, *rescaled):
        for death in (COMMITTED, *DECISIONS[1:]):
            yield from (Schedule((death, *OPENED_AGAIN[:times]), job=job) for times in (1, 2))


def crash_loops(campaign: CampaignView) -> Iterator[Schedule]:
    """The job dies again and again, before it is restored or right after: what is kept for a few attempts, or for as
    many as a number in the code says, is gone.
    """
    numbers = numbers_between(campaign.runner.files, RESTARTS_OF_LOOP - 1, KEPT_ATTEMPTS_MOST)[:LONGER_LOOPS_MOST]
    for restarts, point in product((RESTARTS_OF_LOOP, *(each + 2 for each in numbers)), ("open.before", "open.after")):
        again = (Fault("sink[0]", point, time, "kill-job") for time in range(2, restarts + 1))
        yield Schedule((DECISIONS[1], *again))


def crash_loops_at_lines(campaign: CampaignView) -> Iterator[Schedule]:
    """Each recovery dies at the same line, before its subtask is open: what is given up after a few attempts is lost.
    The last time that a recovery executes it, as what it commits first may have been committed before.
    """
    recovery = campaign.run_traced(Schedule(DECISIONS[1:2]))
    is_restored, found = False, defaultdict[str, list[int]](list)
    for actor, point, occurrence in passes(recovery):
        is_restored = (is_restored or (point == "generation.before" and occurrence > 1)) and point != "open.after"
        if is_restored and actor == SINK and is_line(point):
            found[point].append(occurrence)
    for line, occurrences in evenly([*found.items()], LINES_MOST):
        times = (occurrences[-1] + len(occurrences) * recoveries for recoveries in range(RESTARTS_OF_LOOP - 1))
        yield Schedule((DECISIONS[1], *(Fault(SINK, line, time, "kill-job") for time in times)))


def zombies_with_successors_that_die(campaign: CampaignView) -> Iterator[Schedule]:
    """Before they have fenced anything, or after; or another attempt dies later."""
    for job in (STANDARD, ZOMBIE_LATE_JOB, ZOMBIE_VERY_LATE_JOB):
        for zombie in single_faults.first_time(campaign, kind="stop", points=single_faults.ZOMBIES_LATE, job=job):
            (fault,) = zombie.faults
            deaths = [Fault(fault.actor, point, 2, "kill") for point in ("open.before", "open.after")]
            later = [Fault("sink[1]", "notify_complete.before", LATER, "kill")] if job == ZOMBIE_VERY_LATE_JOB else []
            yield from (Schedule((fault, death), job=job) for death in (*deaths, *later))
