"""The schedules that convict most wrong sinks: tried first in every shell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sinkproof.chaos.faults import POWER_LOSSES
from sinkproof.chaos.points import AROUND_CALLS
from sinkproof.chaos.schedule import COORDINATOR, EVERY_STEP, IN_ORDER, STANDARD, Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators import single_faults
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import (
    DECIDED,
    EACH,
    KINDS_AT_CALLS,
    first_of_each,
    first_of_each_call,
    in_turn,
    passes,
    spread,
)
from sinkproof.generators.feasible import OF_TARGET, of_target, settles
from sinkproof.generators.interleavings import FIRST_SINK, within
from sinkproof.generators.rare import (
    MESSAGES,
    SEVEN_DIGITS,
    SIXTEEN_BITS,
    TWO_DIGITS,
    VOTE,
    before_recoveries,
    expiry_then_maintenance_after,
    expiry_then_maintenance_before_commits,
    no_notifications_then_death,
    older_states_in_other_batches,
    several_messages,
)
from sinkproof.reference_engine.dataflow.key_groups import KEY_GROUPS
from sinkproof.subject.static_analysis.numbers_in_code import (
    chunk_sizes,
    factors_apart,
    factors_of_packed,
    widths_of_padded_numbers,
)
from sinkproof.workload.job_names import (
    CLOCK_SKEW_JOB,
    DAYLIGHT_SAVING_JOB,
    EDGE_CASE_VALUES_JOB,
    EMPTY_BATCHES_JOB,
    EQUAL_ROWS_JOB,
    IMPATIENT_THREADS_JOB,
    LARGE_BATCHES_JOB,
    LATE_SETTLING_JOB,
    LEAP_DAY_JOB,
    LONG_IDLE_JOB,
    MANY_CHECKPOINTS_JOB,
    MANY_KEYS_JOB,
    OUTAGE_JOB,
    PLAIN_JOBS,
    RACING_THREADS_JOB,
    REBATCHED_JOB,
    REFUSABLE_ROWS,
    REUSED_PROCESS_JOB,
    SCALE_IN_AND_OUT_JOB,
    SKIPPED_IDS_JOB,
    SLOW_THREADS_JOB,
    SPARSE_JOB,
    TOGETHER,
    TWELVE_OF_BOTH_JOB,
    TWELVE_SINKS_JOB,
    UNALIGNED_JOB,
    UNEVEN_SOURCES_JOB,
    WALL_CLOCK_JOBS,
    YEAR_END_JOB,
)
from sinkproof.workload.made_jobs import (
    CHUNK_MOST,
    EXACT_MOST,
    apart_name,
    exact_name,
    splits_name,
    subtasks_name,
    twelve_chunks_name,
)
from sinkproof.workload.rows import BASES, SINKS

SLOW_SPARSE: Final = SPARSE_JOB + TOGETHER + SLOW_THREADS_JOB
RACING_TIMERS: Final = IMPATIENT_THREADS_JOB + TOGETHER + RACING_THREADS_JOB
NOTIFIED: Final = "notify_complete.before"
ENGINE_STEPS: Final = (DECIDED, NOTIFIED, VOTE, "snapshot.after", "notify_complete.after")  # outside of sinks
CLOCK_STEPS: Final = (*ENGINE_STEPS, "write.after")
# In these jobs processes are tried after whole-job kills.
DEADLY_JOBS: Final = (OUTAGE_JOB, REBATCHED_JOB, CLOCK_SKEW_JOB, UNALIGNED_JOB, UNEVEN_SOURCES_JOB)
# Not each case is a statement of its own.
RARE_ONCE: Final = (EMPTY_BATCHES_JOB, MANY_KEYS_JOB, *REFUSABLE_ROWS, LONG_IDLE_JOB)
SIZES_MOST: Final = 6
MANY_SPLITS, SUBTASKS_OF_THREE_DIGITS = 40, 102
MANY_SUBTASKS, BEYOND = 12, 2  # other jobs have twelve; that many more than there is room for
WIDTHS: Final = range(1, 7)  # of numbers padded with zeros that a schedule can make the ids of checkpoints exceed
LONG_DEATHS: Final = (7, 11)  # of which checkpoint's decision, of twelve


def one_crash_in_each_job(campaign: CampaignView, *, kind: str) -> Iterator[Schedule]:
    """One death in each kind of job, right after a decision. `kind`: kill (of the coordinator) or kill-job."""
    decided = tuple(Fault(COORDINATOR, DECIDED, occurrence, kind) for occurrence in (1, 2, 3))
    # In a shell that cannot kill attempts, a cancelled one may still hold a lock that a third one waits for.
    rescaled = campaign.rescaled_jobs if campaign.can_rescale_after(decided[0]) else ()
    if kind == "kill-job":  # the simulated shell begins with shifted ids; a sink in a process sees them here first
        yield Schedule(ids=TWO_DIGITS)
    yield from (Schedule(decided[:1], job=job) for job in (STANDARD, *rescaled, *DEADLY_JOBS))
    yield from (Schedule(decided[1:2], job=job) for job in rescaled)  # a part of what is restored is committed already
    # A subtask without restored state may open first, and clean up before the others have committed what they restored.
    orders = (IN_ORDER, EVERY_STEP) if kind == "kill-job" else (EVERY_STEP,)
    yield from (Schedule(decided[:1], job=job, orders=orders) for job in rescaled)
    again = (*rescaled, SCALE_IN_AND_OUT_JOB) if rescaled else ()
    yield from (Schedule(decided[:2], job=job) for job in again)  # restores what was made of restored states
    if kind == "kill-job":  # what was published is published again on the next day
        yield Schedule((Fault("sink[0]", "notify_complete.after", 1, kind),), job=OUTAGE_JOB)
    for each in of_target(campaign.contract):
        if kind == "kill-job" or each not in POWER_LOSSES:  # a power loss needs real deaths
            yield Schedule((replace(decided[1], kind=each),))
    declined = Fault("sink[0]", VOTE, 1, "decline")
    yield Schedule((declined, decided[0]))
    if settles(campaign.runner):
        lost = Fault(COORDINATOR, "checkpoint.notify", 1, "lose")
        yield Schedule((lost, decided[2]), job=LATE_SETTLING_JOB)


def whole_job_kills_in_other_jobs(campaign: CampaignView) -> Iterator[Schedule]:
    """High-yield schedules for sinks that are processes: the faults are injected in the engine itself, attempts die
    by real kills all the same. In turn, so that a short budget covers something of each.
    """
    baseline, contract = campaign.baseline, campaign.contract
    deaths = [fault for fault in spread(baseline, "kill-job") if fault.point in ("checkpoint.notify", NOTIFIED)]
    decided = [fault for fault in spread(baseline, "kill-job") if fault.point == DECIDED]
    jobs = [[Schedule((fault,), job=job) for fault in deaths] for job in DEADLY_JOBS]
    failed = [fault for fault in first_of_each(baseline, "error", lines=False) if fault.point not in AROUND_CALLS]
    if not contract.is_ours:
        jobs.append([Schedule((fault,), job=REUSED_PROCESS_JOB) for fault in failed])
    jobs.append([Schedule((fault, last)) for last in decided[1:] for fault in failed])
    if settles(campaign.runner):
        jobs.append([Schedule((fault, last), job=LATE_SETTLING_JOB) for last in decided[1:] for fault in failed])
        first = [*[*spread(baseline, "lose", times=EACH)][:2], *[*spread(baseline, "decline")][:1]]
        jobs.insert(0, [Schedule((fault, last), job=LATE_SETTLING_JOB) for last in decided[::-1] for fault in first])
    jobs.append(_in_plain_jobs(campaign, decided))
    lost = list(several_messages(baseline))
    jobs += [list(no_notifications_then_death(baseline, "kill-job")), list(map(Schedule, lost))]
    jobs.append([Schedule(faults, ids=TWO_DIGITS) for faults in (*lost, tuple(decided[1:2]))])
    if {"expire", "maintain"} <= {*of_target(contract)}:
        after = expiry_then_maintenance_after(decided[:2])
        jobs.append([*after, *expiry_then_maintenance_before_commits(baseline)])
    dead = [fault for fault in spread(baseline, "kill-job", times=2) if fault.point in ENGINE_STEPS]
    jobs += [list(before_recoveries(dead, kind)) for kind in of_target(contract) if kind not in POWER_LOSSES]
    for kind in (*of_target(contract), *MESSAGES, "cancel", "drain", "rewind", "forget"):
        points = ENGINE_STEPS if kind in OF_TARGET else ("checkpoint.notify", VOTE)
        faults = [fault for fault in spread(baseline, kind) if fault.point in points]
        jobs.append([Schedule((fault,)) for fault in faults])
    jobs.append(list(older_states_in_other_batches(baseline)))
    yield from in_turn(jobs)


def moved_wall_clocks(campaign: CampaignView) -> Iterator[Schedule]:
    """Clocks jump over the end of a year, and of daylight saving time, within a transaction, between vote and commit,
    and between a death, or a zombie's commit, and the recovery from it; over the end of a year also back again. A few
    runs are made on a leap day, and over its end.
    """
    baseline = campaign.baseline
    jumps = [fault for fault in spread(baseline, "clock-forward", times=2) if fault.point in CLOCK_STEPS]
    deaths = [fault for fault in spread(baseline, "kill-job", times=2) if fault.point in ENGINE_STEPS]
    restart = Fault(COORDINATOR, "generation.before", 2, "clock-forward")
    first, back = jumps[0], [replace(jump, kind="clock-back") for jump in jumps[1:]]
    if campaign.has_breakable_service:
        yield from _at_midnight(jumps, deaths, restart)
        return
    turns = [[Schedule(job=job) for job in WALL_CLOCK_JOBS]]
    for job in (YEAR_END_JOB, DAYLIGHT_SAVING_JOB):
        turns.append([Schedule((jump,), job=job) for jump in jumps])
        turns.append([Schedule((death, restart), job=job) for death in deaths])
    turns.append([Schedule(faults, job=LEAP_DAY_JOB) for faults in ((first,), (deaths[0], restart))])
    zombies = within(campaign.traced_baseline, "notify_complete", "stop")
    turns.append([Schedule((zombie, restart), job=YEAR_END_JOB) for zombie in zombies])
    turns.append([Schedule((first, jump), job=YEAR_END_JOB) for jump in back])
    turns.append([Schedule((first, death, replace(restart, kind="clock-back")), job=YEAR_END_JOB) for death in deaths])
    yield from in_turn(turns)


def _at_midnight(jumps: list[Fault], deaths: list[Fault], restart: Fault) -> Iterator[Schedule]:
    """Beside a service each run takes seconds: between vote and commit, and across restarts; there also back to
    where it was. The clock of a service does not pass the end of daylight saving time.
    """

    def first_at(point: str, faults: list[Fault]) -> Fault:
        return next(fault for fault in faults if fault.point == point)

    late = [(first_at(point, jumps),) for point in (DECIDED, NOTIFIED)]
    died = [first_at(point, deaths) for point in (DECIDED, "notify_complete.after")]
    restarts = [(death, restart) for death in died]
    for faults in ((), *late, *restarts, (jumps[0], died[0], replace(restart, kind="clock-back"))):
        yield Schedule(faults, job=YEAR_END_JOB)


def twelve_sinks(campaign: CampaignView) -> Iterator[Schedule]:
    """Subtasks with numbers of one digit and of two: after deaths of the whole job, and of the second one alone. With
    checkpoints that have such numbers, too: a name made of both may be that of another subtask and checkpoint. Once the
    last subtask comes first: "0-1" is a part of "10-1". A number made of split and offset may be that of another row,
    by numbers in the code. At last there are so many splits that they share buckets.
    """
    decided = [Fault(COORDINATOR, DECIDED, occurrence, "kill-job") for occurrence in (1, 2)]
    second = Fault("sink[1]", "write.after", 2, "kill")
    yield from (Schedule(faults, job=TWELVE_SINKS_JOB) for faults in ((), *((each,) for each in (*decided, second))))
    yield from (Schedule(job=job, orders=(EVERY_STEP,)) for job in (TWELVE_SINKS_JOB, TWELVE_OF_BOTH_JOB))
    yield Schedule(job=TWELVE_OF_BOTH_JOB)
    yield from (Schedule(job=apart_name(each)) for each in factors_apart(campaign.runner.files, known=BASES))
    yield from (Schedule(faults, job=splits_name(MANY_SPLITS)) for faults in ((), (decided[0],)))


def threads_at_another_pace(campaign: CampaignView) -> Iterator[Schedule]:
    """Threads of the sink have not done yet what its calls have promised, or do it before; without faults, and with
    deaths. Then each overtakes the others, also where there is work for several.
    """
    decided = [Fault(COORDINATOR, DECIDED, occurrence, "kill-job") for occurrence in (1, 2, 3)]
    for job in (SLOW_THREADS_JOB, IMPATIENT_THREADS_JOB):
        yield from (Schedule(faults, job=job) for faults in ((), *((each,) for each in decided)))
    yield from _errors_of_slow_threads(campaign)
    yield from (Schedule(job=job) for job in (RACING_THREADS_JOB, RACING_TIMERS))
    yield from (Schedule((death,), job=RACING_TIMERS) for death in decided)
    yield from (Schedule(job=job + TOGETHER + RACING_THREADS_JOB) for job in (EDGE_CASE_VALUES_JOB, LARGE_BATCHES_JOB))


def _errors_of_slow_threads(campaign: CampaignView) -> Iterator[Schedule]:
    """What a thread meets when a call of the sink waits for it already, and has looked for errors before. The next call
    comes when the checkpoint is complete.
    """
    slow, usual = campaign.run_traced(Schedule(job=SLOW_SPARSE)), campaign.run_traced(Schedule(job=SPARSE_JOB))
    if _points_of_first_sink(slow) == _points_of_first_sink(usual):
        return  # no thread does anything
    for kind in KINDS_AT_CALLS:
        faults = (fault for fault in first_of_each_call(slow, kind) if fault.actor == FIRST_SINK)
        yield from (Schedule((fault,), job=SLOW_SPARSE) for fault in faults if campaign.can_inject(fault))


def _points_of_first_sink(result: RunResult) -> list[str]:
    return [point for actor, point, _ in passes(result) if actor == FIRST_SINK]


def _in_plain_jobs(campaign: CampaignView, decided: list[Fault]) -> list[Schedule]:
    """With a service, long jobs take ten seconds each, and run with their deaths only."""
    late = [Fault(COORDINATOR, DECIDED, occurrence, "kill-job") for occurrence in LONG_DEATHS]
    long = [Schedule((fault,), job=MANY_CHECKPOINTS_JOB) for fault in late]
    long += [Schedule((fault,), job=LARGE_BATCHES_JOB) for fault in decided[1:2]]
    if campaign.has_breakable_service:
        return [*(Schedule(job=job) for job in (EDGE_CASE_VALUES_JOB, EQUAL_ROWS_JOB)), *long[1:]]
    return [*without_faults(campaign), *long]


def without_faults(campaign: CampaignView) -> list[Schedule]:
    """In one run each, unusual rows and batches convict; where runs are slow, too, if they come early."""
    rare = [job for job in RARE_ONCE if job != LONG_IDLE_JOB or campaign.contract.expires_after is None]
    return [*(Schedule(job=job) for job in (*PLAIN_JOBS, *rare)), *exact_sizes(campaign)]


def exact_sizes(campaign: CampaignView) -> list[Schedule]:
    """The last page, or chunk, is full where a number in the code is the size of one: the largest such numbers. Then
    twelve checkpoints have twelve chunks each: a name made of both numbers may be that of another chunk.
    """
    files = campaign.runner.files
    sizes = chunk_sizes(files, EXACT_MOST, few=SIZES_MOST)
    names = [*map(exact_name, sizes), *map(twelve_chunks_name, chunk_sizes(files, CHUNK_MOST))]
    return [Schedule(job=name) for name in names]


def many_pending_checkpoints(campaign: CampaignView) -> Iterator[Schedule]:
    """No notification of eleven checkpoints arrives. The twelfth one commits them all; or the recovery from it does."""
    lost = tuple(Fault(COORDINATOR, "checkpoint.notify", number, "lose") for number in range(1, SINKS * 11 + 1))
    yield Schedule(lost, job=MANY_CHECKPOINTS_JOB)
    yield Schedule((*lost, Fault(COORDINATOR, DECIDED, 12, "kill-job")), job=MANY_CHECKPOINTS_JOB)


def longer_generations(campaign: CampaignView) -> Iterator[Schedule]:
    """The number of the successor has a digit more: zombies, and a death of the whole job. That of a checkpoint has one
    more than its name has been given, or does not fit into a field of so many bits.
    The second successor has a number of which sixteen bits are 0.
    """
    yield Schedule(job=SKIPPED_IDS_JOB)
    zombies = single_faults.zombies_at_first_steps(campaign)
    yield from (replace(zombie, ids=SEVEN_DIGITS) for zombie in zombies)
    deaths = [Fault(COORDINATOR, DECIDED, occurrence, "kill-job") for occurrence in (1, 2)]
    yield Schedule((deaths[0],), ids=SEVEN_DIGITS)
    yield Schedule(tuple(deaths), ids=SIXTEEN_BITS)
    for width in widths_of_padded_numbers(campaign.runner.files):
        if width in WIDTHS:
            yield from (Schedule(faults, ids=10**width - 2) for faults in ((), *((death,) for death in deaths)))


def more_subtasks_than_numbers_have_room_for(campaign: CampaignView) -> Iterator[Schedule]:
    """Where numbers are padded to two digits, or packed into one. The whole job dies once."""
    files = campaign.runner.files
    full = {each + BEYOND for each in factors_of_packed(files, MANY_SUBTASKS, KEY_GROUPS - BEYOND)}
    full |= {SUBTASKS_OF_THREE_DIGITS} if 2 in widths_of_padded_numbers(files) else set()
    death = Fault(COORDINATOR, DECIDED, 1, "kill-job")
    yield from (Schedule((death,), job=subtasks_name(subtasks)) for subtasks in sorted(full))
