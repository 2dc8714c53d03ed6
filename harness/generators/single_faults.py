"""Schedules with a single fault: where each kind is injected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from math import ceil
from typing import Final

from sinkproof.chaos.faults import KINDS, REGISTERED_KINDS
from sinkproof.chaos.faults.reply_cut import REPLY_CUT
from sinkproof.chaos.faults.terminate_attempt import TERMINATE, TERMINATE_LATER
from sinkproof.chaos.points import AROUND_CALLS, is_line, is_system_call
from sinkproof.chaos.schedule import COORDINATOR, STANDARD, Fault, Schedule, parse
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import (
    DECIDED,
    KINDS_AT_CALLS,
    evenly,
    faults_of_replies,
    first_of_each,
    first_of_each_call,
    in_turn,
    last_before_votes,
    last_decision,
    passes,
    places,
    spread,
)
from sinkproof.generators.feasible import offered
from sinkproof.generators.interleavings import REMOVED_SUBTASK
from sinkproof.generators.longest_commits import IN_COMMIT_MOST, longest_commit
from sinkproof.generators.native_calls import refused_statements
from sinkproof.generators.requests_sent import requests
from sinkproof.workload.job_names import (
    LARGE_BATCHES_JOB,
    NULL_CHARACTERS_JOB,
    OTHER_HOSTS_JOB,
    REUSED_PROCESS_JOB,
    SCALE_IN_JOB,
    TOGETHER,
    ZOMBIE_LATE_JOB,
    ZOMBIE_VERY_LATE_JOB,
)

ZOMBIES_FIRST: Final = ("open.before", "open.after", "write.after", "notify_complete.before")
# A later flush repairs what a zombie in the first snapshot spoils.
ZOMBIES_LATE: Final = (*ZOMBIES_FIRST, "snapshot.before")
TERMINATED_SLOWLY: Final = ("open.after", "write.after", "snapshot.after", "notify_complete.after")
RESCALED_AT: Final = ("checkpoint.persist.after", "checkpoint.notify")
DECLINES_FIRST: Final = 4
# One attempt pauses so often in a run: with eight pauses a seventh of them do not find their points.
PAUSES_IN_A_RUN: Final = 4
REQUESTS_IN_RECOVERY: Final = 12


# -- every occurrence of every named point: the simulated shell ----------------------------------


def at_every_step(campaign: CampaignView, *, kind: str) -> Iterator[Schedule]:
    yield from (Schedule((fault,)) for fault in places(campaign.baseline, kind))


def registered_faults(campaign: CampaignView) -> Iterator[Schedule]:
    """Kinds that other packages register: some occurrences of each named point at which they apply."""
    kinds = offered(campaign.contract, *(kind.word for kind in REGISTERED_KINDS))
    yield from in_turn((Schedule((fault,)) for fault in spread(campaign.baseline, kind)) for kind in kinds)


def late_zombies_at_every_step(campaign: CampaignView) -> Iterator[Schedule]:
    yield from (Schedule((fault,), job=ZOMBIE_LATE_JOB) for fault in places(campaign.baseline, "stop", sparse=True))


def very_late_zombies(campaign: CampaignView) -> Iterator[Schedule]:
    yield from first_time(campaign, kind="stop", job=ZOMBIE_VERY_LATE_JOB)


# -- the first occurrence of each point: sinks that are processes --------------------------------


def first_time(
    campaign: CampaignView, *, kind: str, points: tuple[str, ...] = (), job: str = STANDARD
) -> Iterator[Schedule]:
    """The first time that any subtask passes each named point. `points`: these only."""
    faults = first_of_each(campaign.baseline, kind, lines=False)
    yield from (Schedule((fault,), job=job) for fault in faults if not points or fault.point in points)


def zombies_at_first_steps(campaign: CampaignView) -> Iterator[Schedule]:
    yield from first_time(campaign, kind="stop", points=ZOMBIES_FIRST)


def late_zombies(campaign: CampaignView) -> Iterator[Schedule]:
    faults = (fault for fault in spread(campaign.baseline, "stop") if fault.point in ZOMBIES_LATE)
    yield from (Schedule((fault,), job=ZOMBIE_LATE_JOB) for fault in faults)


def very_late_zombies_at_first_steps(campaign: CampaignView) -> Iterator[Schedule]:
    yield from first_time(campaign, kind="stop", points=ZOMBIES_LATE, job=ZOMBIE_VERY_LATE_JOB)


def errors(campaign: CampaignView) -> Iterator[Schedule]:
    """At each call to the target, the first time and after the last decision; and before each actor's last vote."""
    baseline = campaign.baseline
    voted = (fault for fault in last_before_votes(baseline, "error") if fault.point not in AROUND_CALLS)
    last = last_decision(baseline)
    calls = (*errors_at_calls(campaign), *errors_at_calls(campaign, since=last), *requests(campaign.baseline, "error"))
    yield from (Schedule((fault,)) for fault in dict.fromkeys((*calls, *voted)))


def errors_at_calls(campaign: CampaignView, *, since: int = 0) -> list[Fault]:
    faults = first_of_each_call(campaign.baseline, "error", since=since)
    return [fault for fault in faults if fault.point not in AROUND_CALLS]


def unanswered_calls(campaign: CampaignView) -> Iterator[Schedule]:
    """The effect happens, and the call fails: the first time, and after the last decision."""
    baseline = campaign.baseline
    first, last = (first_of_each_call(baseline, "unanswered", since=since) for since in (0, last_decision(baseline)))
    yield from (
        Schedule((fault,)) for fault in dict.fromkeys((*first, *last, *requests(campaign.baseline, "unanswered")))
    )


def refused_requests(campaign: CampaignView) -> Iterator[Schedule]:
    """Replies that do not come, come late, or say that the request was refused. Also in recoveries before and after a
    commit.
    """
    recovery = cache(campaign.run)  # the same for all kinds
    yield from in_turn(_refused(campaign, kind, recovery) for kind in faults_of_replies(campaign.runner.files))


def _refused(campaign: CampaignView, kind: str, recovery: Callable[[Schedule], RunResult]) -> Iterator[Schedule]:
    usual = [fault for fault in requests(campaign.baseline, kind) if campaign.can_inject(fault)]
    if not usual:
        return
    yield from (Schedule((fault,)) for fault in usual)
    committed = Fault("sink[0]", "notify_complete.after", 1, "kill-job")
    for death in (Fault(COORDINATOR, DECIDED, 2, "kill-job"), committed):
        recovered = recovery(Schedule((death,)))
        passed = list(passes(recovered))
        struck = (death.actor, death.point, death.occurrence)
        after = passed[passed.index(struck) :] if struck in passed else []
        faults = [Fault(*place, kind) for place in after if KINDS[kind].applies(*place[:2])]
        few = faults[:REQUESTS_IN_RECOVERY]
        yield from (Schedule((death, fault)) for fault in few)
        if kind == REPLY_CUT.word:  # by a proxy, all that are long: what is looked for twice is not found twice
            yield from (Schedule((death, fault, replace(fault, occurrence=fault.occurrence + 1))) for fault in few)


def errors_in_recoveries(campaign: CampaignView) -> Iterator[Schedule]:
    """A whole-job kill, and a call to the target that fails in the recovery, before its effect or after it."""
    killed = Schedule((Fault(COORDINATOR, DECIDED, 2, "kill-job"),))
    for before in (killed, *(replace(killed, job=job) for job in campaign.rescaled_jobs)):
        recovered = campaign.run_traced(before)
        decided = (at for at, passed in enumerate(passes(recovered)) if passed == (COORDINATOR, DECIDED, 2))
        for since in islice(decided, 1):
            faults = [fault for kind in KINDS_AT_CALLS for fault in first_of_each_call(recovered, kind, since=since)]
            yield from (replace(before, faults=(*before.faults, fault)) for fault in faults)


def declined_votes(campaign: CampaignView) -> Iterator[Schedule]:
    """Some declined votes, then faults at the abort of the first one, then the others."""
    declines = [Schedule((fault,)) for fault in places(campaign.baseline, "decline")]
    yield from declines[:DECLINES_FIRST]
    yield from faults_after_decline(campaign)
    yield from declines[DECLINES_FIRST:]


def faults_after_decline(campaign: CampaignView) -> Iterator[Schedule]:
    """Faults at steps that only an aborted checkpoint leads to."""
    decline = next(places(campaign.baseline, "decline"))
    declined = campaign.runner.run(Schedule((decline,)))
    for kind in ("lose", "kill", "stop"):
        faults = (fault for fault in places(declined, kind) if "abort" in fault.point)
        yield from (Schedule((decline, fault)) for fault in faults if campaign.can_inject(fault))


def zombies_without_successor(campaign: CampaignView) -> Iterator[Schedule]:
    """The job goes on with fewer sinks: the zombie's subtask number no longer exists."""
    if SCALE_IN_JOB in campaign.rescaled_jobs:
        leaving = [fault for fault in places(campaign.baseline, "stop", sparse=True) if fault.actor == REMOVED_SUBTASK]
        yield from (Schedule((fault,), job=SCALE_IN_JOB) for fault in leaving if fault.point in ZOMBIES_FIRST)


def errors_in_reused_processes(campaign: CampaignView) -> Iterator[Schedule]:
    """The next attempt runs in the process of the one that failed: at a call to the target, for a reason of another
    operator, or because a client refuses a value. Our own adapters keep nothing in their modules.
    """
    yield Schedule(job=NULL_CHARACTERS_JOB + TOGETHER + REUSED_PROCESS_JOB)
    first = (fault for fault in first_of_each(campaign.baseline, "kill", lines=False) if fault.point in AROUND_CALLS)
    of_engine = [replace(fault, kind="error") for fault in first if fault.actor.startswith("sink[")]
    yield from (Schedule((fault,), job=REUSED_PROCESS_JOB) for fault in (*errors_at_calls(campaign), *of_engine))


def rescales(campaign: CampaignView) -> Iterator[Schedule]:
    """Whole-job kills from which the job goes on with another parallelism."""
    faults = [fault for fault in places(campaign.baseline, "kill-job", sparse=True) if fault.point in RESCALED_AT]
    yield from (Schedule((fault,), job=job) for fault in faults for job in campaign.rescaled_jobs)


def zombies_errors_and_job_kills(campaign: CampaignView) -> Iterator[Schedule]:
    """In turn, so that a short budget covers something of each."""
    kinds = ("stop", "error", "kill-job")
    of_kind = {kind: list(first_of_each(campaign.baseline, kind, lines=False)) for kind in kinds}
    turns = [[Schedule((fault,)) for fault in faults] for faults in of_kind.values()]
    turns.insert(1, [Schedule((fault,), job=ZOMBIE_LATE_JOB) for fault in of_kind["stop"]])
    yield from in_turn(turns)


def terminations(campaign: CampaignView) -> Iterator[Schedule]:
    """SIGTERM at each named point, the first time; with a slow end; then, unless a run takes long, also in a recovery,
    and later.
    """
    yield from first_time(campaign, kind=TERMINATE.word)
    slowly = spread(campaign.baseline, TERMINATE_LATER.word)
    yield from (Schedule((fault,)) for fault in slowly if fault.point in TERMINATED_SLOWLY)
    if campaign.contract.kind == "command" or campaign.has_breakable_service:
        return
    yield from _in_recovery(campaign.run(Schedule((Fault(COORDINATOR, DECIDED, 2, "kill-job"),))), TERMINATE.word)
    yield from (Schedule((fault,)) for fault in spread(campaign.baseline, TERMINATE.word))


def _in_recovery(recovered: RunResult, kind: str) -> Iterator[Schedule]:
    """The first time that each named point is passed after the faults of this run."""
    last, seen = recovered.schedule.faults[-1], set()
    struck = False
    for actor, point, occurrence in passes(recovered):
        struck |= (actor, point, occurrence) == (last.actor, last.point, last.occurrence)
        if struck and point not in seen and not is_line(point) and KINDS[kind].applies(actor, point):
            seen.add(point)
            fault = Fault(actor, point, occurrence, kind)
            yield replace(recovered.schedule, faults=(*recovered.schedule.faults, fault))


def restarts_on_other_hosts(campaign: CampaignView) -> Iterator[Schedule]:
    """Deaths of the job after which states name what an attempt has kept, and of one attempt, before it has committed
    and after; the last ones first: what a reader has seen of a target is much by then.
    """
    committed = ("notify_complete.before", "notify_complete.after")
    for kind, points in (("kill-job", (DECIDED, *committed)), ("kill", committed)):
        faults = [fault for fault in spread(campaign.baseline, kind) if fault.point in points]
        yield from (Schedule((fault,), job=OTHER_HOSTS_JOB) for fault in reversed(faults))


# -- at executed lines ----------------------------------------------------------------------------


def first_time_at_lines(campaign: CampaignView, *, kind: str) -> Iterator[Schedule]:
    yield from (Schedule((fault,)) for fault in first_of_each(campaign.traced_baseline, kind, lines=True))


def at_outward_calls(campaign: CampaignView) -> Iterator[Schedule]:
    """System calls of a command that change something outside: the first time and the last, by any subtask. Then some
    of its statements to databases.
    """
    kills = places(campaign.baseline, "kill", lines=True)
    yield from otherwise_at([fault for fault in kills if is_system_call(fault.point)])
    yield from refused_statements(campaign.baseline)


def otherwise_at(kills: Sequence[Fault]) -> Iterator[Schedule]:
    """Other faults before these calls: the first and the last of each name."""
    groups = []
    for kind in ("stop", "error", "land", "overlap", "pause", "unanswered"):
        faults = [replace(fault, kind=kind) for fault in kills if KINDS[kind].applies(fault.actor, fault.point)]
        first = {fault.point: fault for fault in reversed(faults)}
        last = {fault.point: fault for fault in faults}
        groups.append([Schedule((fault,)) for fault in dict.fromkeys((*first.values(), *last.values()))])
    yield from in_turn(groups)


def kills_at_lines(campaign: CampaignView) -> Iterator[Schedule]:
    """The first time at each line, then each time in the longest commit of a subtask: a line may run statements of any
    kind, one after the other.
    """
    yield from first_time_at_lines(campaign, kind="kill")
    yield from (Schedule((fault,)) for fault in evenly(longest_commit(campaign.traced_baseline), IN_COMMIT_MOST))


def later_occurrences(campaign: CampaignView) -> Iterator[Schedule]:
    """The first, the middle and the last occurrence of each point, then of each line."""
    baseline = campaign.traced_baseline
    for kind in ("kill", "stop", "kill-job", "error"):
        yield from (Schedule((fault,)) for fault in places(baseline, kind, sparse=True))
    yield from first_time_at_lines(campaign, kind="kill-job")
    for kind in ("kill", "stop"):
        yield from (Schedule((fault,)) for fault in places(baseline, kind, lines=True, sparse=True))


def every_time_at_lines(campaign: CampaignView) -> Iterator[Schedule]:
    """Each occurrence of each line, also in the jobs that go on with another parallelism. With large batches, where a
    line runs hundreds of times: the first, the middle and the last. Pauses come several in a run, as the same attempt
    goes on after each; and once in jobs that differ after a restart only.
    """
    usual = campaign.traced_baseline
    for job in (STANDARD, *campaign.rescaled_jobs, LARGE_BATCHES_JOB):
        baseline = usual if job == STANDARD else campaign.run_traced(Schedule(job=job))
        kills, stops, pauses = (
            list(places(baseline, kind, lines=True, sparse=job == LARGE_BATCHES_JOB))
            for kind in ("kill", "stop", "pause")
        )
        deaths = (Schedule((fault,), job=job) for fault in in_turn((kills, stops)))
        is_as_usual = job != STANDARD and baseline.trace == usual.trace
        paused = _together([] if is_as_usual else pauses)
        yield from in_turn((deaths, (Schedule(faults, job=job) for faults in paused)))


def _together(pauses: Sequence[Fault]) -> Iterator[tuple[Fault, ...]]:
    """Of one attempt each, far from each other: another pause within the same call may find its point passed."""
    for actor in dict.fromkeys(fault.actor for fault in pauses):
        its = [fault for fault in pauses if fault.actor == actor]
        runs = ceil(len(its) / PAUSES_IN_A_RUN)
        yield from (tuple(its[first::runs]) for first in range(runs))


def pauses_alone(unfired: Iterable[str]) -> Iterator[Schedule]:
    """Each one of those that an attempt had in a run where not all found their points. `unfired`: schedules as text."""
    for schedule in map(parse, unfired):
        pauses = [fault for fault in schedule.faults if fault.kind == "pause" and is_line(fault.point)]
        if len(pauses) == len(schedule.faults) > 1 and len({fault.actor for fault in pauses}) == 1:
            yield from (replace(schedule, faults=(fault,)) for fault in schedule.faults)
