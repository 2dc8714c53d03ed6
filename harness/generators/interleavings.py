"""Schedules in which two attempts of a sink act on the target at the same time.

Each line of a sink is a place to pause, but another subtask acts at few of them. Right after a decision both
subtasks commit, and nothing else happens if the job is idle; in a recovery both commit again what was pre-committed. A
zombie that is suspended within its commit resumes beside its own successor, which does the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import is_interior, is_line
from sinkproof.chaos.schedule import COORDINATOR, STANDARD, Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import DECIDED, EACH, as_passed_by, evenly, first_of_each, passes, places, spread
from sinkproof.generators.feasible import offered
from sinkproof.generators.rare import all_notifications_but_the_last
from sinkproof.generators.requests_sent import further_requests
from sinkproof.subject.static_analysis.names_in_code import LOCKS, has_name
from sinkproof.subject.static_analysis.numbers_in_code import has_number_between
from sinkproof.workload.job_names import (
    DOZENS_OF_CHECKPOINTS_JOB,
    HUNDREDS_OF_CHECKPOINTS_JOB,
    IN_CONTAINERS_JOB,
    JOBS,
    LATE_FIRST_ROWS_JOB,
    LATE_SETTLING_JOB,
    OTHER_HOSTS_JOB,
    SCALE_IN_AND_OUT_JOB,
    SCALE_IN_JOB,
    SLOW_DETECTION_JOB,
    SPARSE_JOB,
    THREE_TO_TWO_JOB,
    TOGETHER,
    ZOMBIE_VERY_LATE_JOB,
)
from sinkproof.workload.rows import FORGOTTEN_IN_DOZENS, HUNDREDS_OF_CHECKPOINTS, SINKS

IDLE_COMMITS: Final = SPARSE_JOB  # the job in which each checkpoint completes long before the next row
REMOVED_SUBTASK: Final = "sink[1]"  # after the scale-in
FIRST_SINK: Final = "sink[0]"
SENT: Final = "socket.send"
BETWEEN_EFFECTS: Final = ("kill-job", "error", "unanswered", "stop")
FIRST_DECISION: Final = Fault(COORDINATOR, DECIDED, 1, "kill-job")
REMEMBERED_OF_MANY: Final = 5  # of twelve checkpoints, where each subtask has a note of its own
NOTES_OF_HUNDREDS: Final = 2 * HUNDREDS_OF_CHECKPOINTS  # each of two subtasks may leave one in each checkpoint
# Checkpoints that a sink may remember, and the job in which a zombie goes on after more.
REMEMBERED: Final = (
    (0, REMEMBERED_OF_MANY, ZOMBIE_VERY_LATE_JOB),
    (REMEMBERED_OF_MANY + 1, FORGOTTEN_IN_DOZENS, DOZENS_OF_CHECKPOINTS_JOB),
    (FORGOTTEN_IN_DOZENS + 1, NOTES_OF_HUNDREDS, HUNDREDS_OF_CHECKPOINTS_JOB),
)
AFTER_HUNDREDS_MOST: Final = 16  # zombies: such a run takes seconds
FULL_COMMITS: Final = LATE_SETTLING_JOB  # the same, and each sink has rows in each checkpoint


def pauses_within_commits(campaign: CampaignView) -> Iterator[Schedule]:
    """Pauses while the other subtask commits: a wait for its lock that times out is the only possible error."""
    idle = campaign.run_traced(Schedule(job=IDLE_COMMITS))
    yield from (Schedule((fault,), job=IDLE_COMMITS) for fault in within(idle, "notify_complete", "pause"))


def pauses_within_full_commits(campaign: CampaignView) -> Iterator[Schedule]:
    """Both subtasks have rows in every checkpoint; and the last commit, which no later commit can repair."""
    full = campaign.run_traced(Schedule(job=FULL_COMMITS))
    commits = Counter(full.names[actor] for actor, point in full.trace if point == "notify_complete.before")
    last = within(full, "notify_complete", "pause", calls_skipped=max(commits.values(), default=1) - 1)
    faults = dict.fromkeys((*within(full, "notify_complete", "pause"), *last))
    yield from (Schedule((fault,), job=FULL_COMMITS) for fault in faults)


def two_pauses_within_commits(campaign: CampaignView) -> Iterator[Schedule]:
    """Both subtasks pause at the same line: each finds a partial commit of the other. Also while both have several
    checkpoints to commit: the first one commits further ones beside the second. Where locks are taken, also beside a
    third subtask: the first holds the lock, the second waits for it, and the third may make a new one.
    """
    lost = tuple(Fault(COORDINATOR, "checkpoint.notify", time, "lose") for time in range(1, SINKS + 1))
    locks = has_name(campaign.runner.files, *LOCKS) and campaign.rescaled_jobs
    beside_third = [Schedule(job=THREE_TO_TWO_JOB)] if locks else []
    for alone in (Schedule(job=IDLE_COMMITS), Schedule(lost, job=FULL_COMMITS), *beside_third):
        for faults in both_within(campaign.run_traced(alone), "notify_complete", "pause"):
            yield replace(alone, faults=(*alone.faults, *faults))


def commits_in_containers(campaign: CampaignView) -> Iterator[Schedule]:
    """Where names hold a process id: pauses and zombies within commits of attempts that have the same one."""
    if not has_name(campaign.runner.files, "getpid"):
        return
    idle = campaign.run_traced(Schedule(job=IN_CONTAINERS_JOB))
    for kind in ("pause", "stop"):
        yield from (Schedule((fault,), job=IN_CONTAINERS_JOB) for fault in within(idle, "notify_complete", kind))


def commits_on_other_hosts(campaign: CampaignView) -> Iterator[Schedule]:
    """Where locks are taken, which may lie in folders that no other host sees: pauses within commits."""
    if has_name(campaign.runner.files, *LOCKS):
        job = IDLE_COMMITS + TOGETHER + OTHER_HOSTS_JOB
        idle = campaign.run_traced(Schedule(job=job))
        yield from (Schedule((fault,), job=job) for fault in within(idle, "notify_complete", "pause"))


def zombies_within_commits(campaign: CampaignView) -> Iterator[Schedule]:
    """A zombie that read "not committed yet", then commits after its successor did; or after later checkpoints did."""
    faults = list(within(campaign.traced_baseline, "notify_complete", "stop"))
    late = () if campaign.has_breakable_service else (SLOW_DETECTION_JOB, LATE_FIRST_ROWS_JOB)
    jobs = (STANDARD, *late)
    yield from (Schedule((fault,), job=job) for job in jobs for fault in faults)


def zombies_within_commits_much_later(campaign: CampaignView) -> Iterator[Schedule]:
    """They go on when their successors have removed the notes of what is committed: after ten checkpoints, or more if a
    number in the code says so.
    """
    faults = [*within(campaign.traced_baseline, "notify_complete", "stop")]
    for least, most, job in REMEMBERED:
        if job == ZOMBIE_VERY_LATE_JOB or has_number_between(campaign.runner.files, least, most):
            some = evenly(faults, AFTER_HUNDREDS_MOST) if job == HUNDREDS_OF_CHECKPOINTS_JOB else faults
            yield from (Schedule((fault,), job=job) for fault in some)


def hanging_attempts(campaign: CampaignView) -> Iterator[Schedule]:
    """At each line of a commit, between two requests that one line sends there, and the first time at each step: a
    successor may leave something to an attempt that only seems to be at work, and a zombie would do it.
    """
    traced = campaign.traced_baseline
    in_commits = (*within(traced, "notify_complete", "hang"), *further_requests(traced, "notify_complete", "hang"))
    faults = dict.fromkeys((*in_commits, *first_of_each(traced, "hang", lines=False)))
    yield from (Schedule((fault,)) for fault in faults)


def zombies_of_removed_subtasks(campaign: CampaignView) -> Iterator[Schedule]:
    """After a scale-in the zombie's subtask number no longer exists: another subtask commits what it had voted for."""
    if SCALE_IN_JOB not in campaign.rescaled_jobs:
        return
    baseline = campaign.traced_baseline
    own = [passed for passed in baseline.trace if baseline.names[passed[0]] == REMOVED_SUBTASK]
    faults = within(replace(baseline, trace=own), "notify_complete", "stop")
    yield from (Schedule((fault,), job=SCALE_IN_JOB) for fault in faults)


def power_losses_after_deaths_within_commits(campaign: CampaignView) -> Iterator[Schedule]:
    """The power is lost after a successor took over from an attempt that died within a commit."""
    traced = campaign.traced_baseline
    for kind in offered(campaign.contract, "lose-power"):
        lost = [fault for fault in spread(traced, kind) if fault.point == DECIDED][1:2]
        for death in within(traced, "notify_complete", "kill"):
            yield from (Schedule((death, last)) for last in lost)


def losses_after_deaths(traced: RunResult, kind: str) -> Iterator[Schedule]:
    """The job dies at a line of the first openings and commits, and the power is lost when the last checkpoint is
    complete: what is there need not have been forced by the attempt that made it. Or it dies in a commit of the last
    sink, after which no other one forces anything, where it may be the last time that a line is executed (a folder is
    made), and the power is lost when the next checkpoint is complete.
    """
    decided = [fault for fault in spread(traced, kind) if fault.point == DECIDED]
    deaths = (within(traced, call, "kill-job") for call in ("open", "notify_complete"))
    yield from (Schedule((death, *decided[-1:])) for death in chain(*deaths) if decided)
    sink = max((name for name in traced.names if name.startswith("sink[")), default="")
    deaths_of_last = within(as_passed_by(sink, traced), "notify_complete", "kill-job", last=True)
    yield from (Schedule((death, *decided[1:2])) for death in deaths_of_last if decided[1:2])


def pauses_within_recoveries(campaign: CampaignView) -> Iterator[Schedule]:
    """Before the whole job died no notification arrived, so each subtask has several checkpoints to commit. Then both
    pause at one line: each finds what the other has done since, for further checkpoints.
    """
    before, recovery = _recovery_of_several(campaign)
    yield from (Schedule((*before, fault)) for fault in within(recovery, "open", "pause", calls_skipped=1))
    yield from (Schedule((*before, *faults)) for faults in both_within(recovery, "open", "pause", calls_skipped=1))


def _recovery_of_several(campaign: CampaignView) -> tuple[tuple[Fault, ...], RunResult]:
    before = death_with_several_to_commit(campaign)
    return before, campaign.run_traced(Schedule(before))


def death_with_several_to_commit(campaign: CampaignView) -> tuple[Fault, ...]:
    """Lost notifications and a death of the whole job."""
    baseline = campaign.baseline
    death = [fault for fault in spread(baseline, "kill-job", times=EACH) if fault.point == DECIDED][-1]
    return (*all_notifications_but_the_last(baseline), death)


def death_after_first_commit(result: RunResult) -> Fault:
    """Of the whole job, so that restored sinks find what they have committed."""
    committed = [fault for fault in places(result, "kill-job") if fault.point == "notify_complete.after"]
    return [fault for fault in committed if fault.occurrence == 1][-1]


def faults_in_commits_of_two_checkpoints(campaign: CampaignView) -> Iterator[Schedule]:
    """The notifications of the first checkpoint are lost, so the next one commits two: errors, zombies and deaths of
    the whole job between their effects, and restarts with another parallelism.
    """
    sinks = sum(name.startswith("sink[") for name in campaign.baseline.names)
    lost = tuple(Fault(COORDINATOR, "checkpoint.notify", number, "lose") for number in range(1, sinks + 1))
    inside = [fault for faults in _in_first_commit(campaign.run_traced(Schedule(lost))) for fault in faults]
    yield from (Schedule((*lost, fault)) for fault in inside)
    deaths = [fault for fault in inside if fault.kind == "kill-job" and not is_line(fault.point)]
    yield from (Schedule((*lost, fault), job=job) for job in campaign.rescaled_jobs for fault in deaths)


def _in_first_commit(run: RunResult) -> Iterator[tuple[Fault, ...]]:
    """At each point in the first `notify_complete` of one sink: each effect, and the first and last time of a line. Of
    what one line sends, some: a driver of a database sends several packets for each row.
    """
    executed: dict[tuple[str, str], list[int]] = {}
    is_inside, line = False, ""
    for actor, point, occurrence in passes(run):
        if actor != FIRST_SINK:
            continue
        if is_inside and point != "notify_complete.after":
            line = point if is_line(point) else line
            executed.setdefault((point, line if point == SENT else ""), []).append(occurrence)
        elif is_inside:
            break
        is_inside = is_inside or point == "notify_complete.before"
    for (point, _), times in executed.items():
        for occurrence in _some_of(times, ends=1 if is_line(point) else 2 if point == SENT else len(times)):
            faults = (Fault(FIRST_SINK, point, occurrence, kind) for kind in BETWEEN_EFFECTS)
            yield tuple(fault for fault in faults if KINDS[fault.kind].applies(FIRST_SINK, point))


def _some_of(times: list[int], *, ends: int) -> Iterator[int]:
    """So many at the beginning and at the end; unless it is one, also two around the middle."""
    middle = len(times) // 2
    between = times[middle - 1 : middle + 1] if ends > 1 else []
    yield from dict.fromkeys((*times[:ends], *between, *times[-ends:]))


def crashes_within_recoveries(campaign: CampaignView) -> Iterator[Schedule]:
    """The whole job dies again, or a subtask is suspended, while several checkpoints are committed that were restored:
    at lines that the run without faults executes, too.
    """
    before, recovery = _recovery_of_several(campaign)
    for kind in ("kill-job", "stop"):
        for fault in within(recovery, "open", kind, calls_skipped=1, last=kind == "kill-job"):
            yield Schedule((*before, fault))


def crashes_within_rescaled_recoveries(campaign: CampaignView) -> Iterator[Schedule]:
    """The whole job dies again while subtasks restore states of others; also of one subtask that had two predecessors
    and gets two successors.
    """
    for job in campaign.rescaled_jobs:
        recovery = campaign.run_traced(Schedule((FIRST_DECISION,), job=job))
        for fault in within(recovery, "open", "kill-job", calls_skipped=1, last=True):
            yield Schedule((FIRST_DECISION, fault), job=job)
        back = within(recovery, "open", "kill-job", calls_skipped=1) if job == SCALE_IN_JOB else ()
        yield from (Schedule((FIRST_DECISION, fault), job=SCALE_IN_AND_OUT_JOB) for fault in back)


def faults_in_restored_attempts(campaign: CampaignView) -> Iterator[Schedule]:
    """Deaths and zombies at each line that restored attempts execute when they are open: what `open` has left, such as
    a connection in another mode, shows only there.
    """
    recovery = campaign.run_traced(Schedule((FIRST_DECISION,)))
    for kind in ("kill",) if campaign.has_breakable_service else ("kill", "stop"):
        yield from (Schedule((FIRST_DECISION, fault)) for fault in _when_restored(recovery, kind))


def beside_a_reader(campaign: CampaignView) -> Iterator[Schedule]:
    """The certifying jobs, and whole-job crashes in recoveries in which subtasks restore states of others."""
    yield from (Schedule(job=job) for job in JOBS)
    if not campaign.has_breakable_service:
        yield from crashes_within_rescaled_recoveries(campaign)


def _when_restored(recovery: RunResult, kind: str) -> Iterator[Fault]:
    """The first time that each line is executed by an attempt of a later generation that is open."""
    is_restored, opened, found = False, set[str](), set[str]()
    for actor, point, occurrence in passes(recovery):
        is_restored = is_restored or (point == "generation.before" and occurrence > 1)
        if is_restored and point == "open.after":
            opened.add(actor)
        elif actor in opened and is_line(point) and point not in found:
            found.add(point)
            yield Fault(actor, point, occurrence, kind)


def both_within(run: RunResult, call: str, kind: str, *, calls_skipped: int = 0) -> Iterator[tuple[Fault, ...]]:
    """Two subtasks at the same line, in the same call for the same checkpoint: the first to pause resumes first."""
    first: dict[str, dict[str, Fault]] = {}
    for name in run.names:
        own = as_passed_by(name, run)
        for fault in within(own, call, kind, calls_skipped=calls_skipped):
            first.setdefault(fault.point, {})[name] = fault
    for faults in first.values():
        if len(faults) > 1:
            yield tuple(faults.values())[:2]


def within(run: RunResult, call: str, kind: str, *, calls_skipped: int = 0, last: bool = False) -> Iterator[Fault]:
    """The first time that each line, or system call, is executed within such a call, without an actor's first calls;
    and the `last` time.
    """
    inside: set[str] = set()
    executed: dict[str, list[Fault]] = {}
    for actor, point, occurrence in passes(run):
        if point == f"{call}.before" and occurrence > calls_skipped:
            inside.add(actor)
        elif point == f"{call}.after":
            inside.discard(actor)
        elif actor in inside and is_interior(point):
            executed.setdefault(point, []).append(Fault(actor, point, occurrence, kind))
    for faults in executed.values():
        yield from dict.fromkeys((faults[0], faults[-1])) if last else faults[:1]
