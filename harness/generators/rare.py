"""Rarer faults: late and repeated messages, time limits and maintenance, power losses, split brain, older checkpoints.

Fault sites are sparse: of each point the first, the middle and the last time that it is passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from sinkproof.chaos.faults import POWER_LOSSES
from sinkproof.chaos.lines import FILE_READ
from sinkproof.chaos.points import is_line
from sinkproof.chaos.requests.socket_points import POINT as SENDS
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import DECIDED, EACH, in_turn, passes, places, spread
from sinkproof.generators.feasible import offered, settles
from sinkproof.subject.static_analysis.names_in_code import LISTING, has_name
from sinkproof.workload.job_names import (
    FAILING_READS_JOB,
    JOBS,
    LATE_SETTLING_JOB,
    MANY_CHECKPOINTS_JOB,
    OTHER_LISTINGS_JOB,
    PERIODIC_CHECKPOINTS_JOB,
    PIECES_JOB,
    PLAIN_JOBS,
    REBATCHED_JOB,
    REUSED_PROCESS_JOB,
    TOGETHER,
    TWO_SINKS_JOB,
    VIRTUAL_JOBS,
)

MESSAGES: Final = ("late", "repeat")
ALL_MESSAGES: Final = ("decline", "lose", *MESSAGES)
CONCURRENT_KINDS: Final = ("kill-job", "kill", "stop")
VOTE: Final = "acknowledge.before"
SEVEN_DIGITS: Final = 299_998  # generations begin at 999,999: the next one, compared as a text, comes before it
SIXTEEN_BITS: Final = 20_893  # generations begin two below 11 * 65,536
VOTES_LATE: Final = 3  # the first vote of each sink subtask is late, and the second one of one of them
AFTER_ABORTS: Final = ("notify_aborted.after", "notify_complete.before")
TWO_DIGITS: Final = 8  # checkpoint ids begin after it: 10 and 11, compared as texts, come before 9


def with_a_concurrent_reader(campaign: CampaignView) -> Iterator[Schedule]:
    """Runs in which the observer reads wherever the target has changed: without faults, and with one of each kind."""
    faults = [fault for kind in CONCURRENT_KINDS for fault in spread(campaign.baseline, kind, times=1)]
    yield from (Schedule(job=job) for job in JOBS)
    yield from (Schedule((fault,)) for fault in faults)
    decided = Fault(COORDINATOR, DECIDED, 1, "kill-job")  # after a rescale subtasks finish at different times
    yield from (Schedule((decided,), job=job) for job in campaign.rescaled_jobs)


def late_and_repeated_messages(campaign: CampaignView) -> Iterator[Schedule]:
    """Notifications of completion and of abort that arrive late, or twice."""
    baseline = campaign.baseline
    for kind in MESSAGES:
        yield from (Schedule((fault,)) for fault in spread(baseline, kind, times=8))
    decline = next(spread(baseline, "decline"), None)
    if decline is None:
        return
    declined = campaign.run(Schedule((decline,)))
    for kind in MESSAGES:
        faults = (fault for fault in spread(declined, kind, times=4) if fault.point == "checkpoint.abort")
        yield from (Schedule((decline, fault)) for fault in faults)


def aborts_after_the_next_snapshot(campaign: CampaignView) -> Iterator[Schedule]:
    """A vote is late, so its checkpoint is aborted when the next one is complete: alone, and with deaths of the whole
    job between the abort and the commit.
    """
    votes = (fault for fault in places(campaign.baseline, "late") if fault.point == VOTE and "sink" in fault.actor)
    for vote in islice(votes, VOTES_LATE):
        late = campaign.run(Schedule((vote,)))
        yield late.schedule
        deaths = (fault for fault in spread(late, "kill-job") if fault.point in AFTER_ABORTS)
        yield from (Schedule((vote, death)) for death in deaths)


def many_lost_messages(campaign: CampaignView) -> Iterator[Schedule]:
    yield from (Schedule(faults, ids=ids) for faults in several_messages(campaign.baseline) for ids in (0, TWO_DIGITS))


def deaths_without_notifications(campaign: CampaignView) -> Iterator[Schedule]:
    yield from no_notifications_then_death(campaign.baseline, _death(campaign))


def deaths_in_plain_jobs(campaign: CampaignView) -> Iterator[Schedule]:
    """Deaths right after decisions in the jobs with odd values, equal rows, many rows, many checkpoints; in the last of
    them also many lost messages.
    """
    for job in PLAIN_JOBS:
        alone = campaign.run(Schedule(job=job))
        decided = (fault for fault in spread(alone, _death(campaign)) if fault.point == DECIDED)
        yield from (Schedule((fault,), job=job) for fault in decided)
    yield from (Schedule(faults, job=job) for faults in several_messages(alone))


def _death(campaign: CampaignView) -> str:
    """A whole-job crash if the target can be copied; otherwise the death of the coordinator."""
    return "kill-job" if campaign.contract.copies else "kill"


def expiry_and_maintenance(campaign: CampaignView) -> Iterator[Schedule]:
    """Time limits and maintenance, by themselves, between a death and the recovery from it, one after the other."""
    baseline = campaign.baseline
    kinds = offered(campaign.contract, "expire", "maintain")
    for kind in kinds:
        yield from (Schedule((fault,)) for fault in _sites(campaign, baseline, kind))
        yield from before_recoveries(_sites(campaign, baseline, "kill-job", times=2), kind)
    if len(kinds) > 1:
        for fault in _sites(campaign, baseline, "expire"):
            then = Fault(fault.actor, fault.point, fault.occurrence + 1, "maintain")
            yield Schedule((fault, then))
        yield from expiry_then_maintenance_before_commits(baseline)
        yield from expiry_then_maintenance_after(_sites(campaign, baseline, "kill-job", times=2))


def power_losses(campaign: CampaignView) -> Iterator[Schedule]:
    for kind in offered(campaign.contract, *POWER_LOSSES):
        yield from (Schedule((fault,)) for fault in _sites(campaign, campaign.baseline, kind))


def engine_faults(campaign: CampaignView) -> Iterator[Schedule]:
    """A job that is cancelled or stopped and goes on, split brain, older checkpoints, lost state."""
    yield from older_states_in_other_batches(campaign.baseline)
    for kind, times in (("cancel", 3), ("drain", 3), ("depose", 3), ("rewind", 2), ("forget", 2)):
        yield from (Schedule((fault,)) for fault in _sites(campaign, campaign.baseline, kind, times=times))


def older_states_in_other_batches(baseline: RunResult) -> Iterator[Schedule]:
    """What was committed comes again together with rows that were not: the boundaries of checkpoints are other ones."""
    for kind in ("forget", "rewind"):
        faults = (fault for fault in spread(baseline, kind, times=EACH) if fault.point == "checkpoint.notify")
        yield from (Schedule((fault,), job=REBATCHED_JOB) for fault in faults)


def late_writes_and_repeated_errors(campaign: CampaignView) -> Iterator[Schedule]:
    """Requests that outlive their sender, and calls that fail repeatedly."""
    for kind, times in (("land", 3), ("fail", 5)):
        yield from (Schedule((fault,)) for fault in _sites(campaign, campaign.baseline, kind, times=times))


def _sites(campaign: CampaignView, run: RunResult, kind: str, *, times: int = 3) -> Iterator[Fault]:
    return spread(run, kind, times=min(times, campaign.occurrences_most))


def virtual_jobs(campaign: CampaignView) -> list[str]:
    """The jobs that only a simulated engine runs, without those that this sink cannot be tried in."""
    left_out = {REUSED_PROCESS_JOB}  # all attempts are in this process
    left_out |= set() if campaign.contract.offers("second_sink") else {TWO_SINKS_JOB}
    left_out |= set() if settles(campaign.runner) else {LATE_SETTLING_JOB}
    return [job for job in VIRTUAL_JOBS if job not in left_out]


def in_job(campaign: CampaignView, job: str) -> Iterator[Schedule]:
    """Restarts in this job: after deaths of the whole job and of one attempt, and with zombies."""
    alone = campaign.run(Schedule(job=job))
    for kind, times in (("kill", 2), ("stop", 2), ("rewind", 1)):
        yield from (Schedule((fault,), job=job) for fault in _sites(campaign, alone, kind, times=times))
    if job == PERIODIC_CHECKPOINTS_JOB:
        declined = [fault for fault in spread(alone, "decline", times=EACH) if fault.actor == "sink[0]"]
        by_two = [replace(declined[0], actor=f"source[{number}]") for number in (0, 1)]
        pairs = (declined[:1], declined[:2], declined[1:3], by_two)
        yield from (Schedule(tuple(faults), job=job) for faults in pairs)


def faults_before_whole_job_crashes(campaign: CampaignView, job: str) -> list[tuple[Fault, ...]]:
    """The faults before the whole-job crash in this job: for a checkpoint to be in doubt, two have to become due."""
    if job != LATE_SETTLING_JOB:
        return [()]
    alone = campaign.runner.run(Schedule(job=job))
    return [(), *((fault,) for kind in ("lose", "decline") for fault in _sites(campaign, alone, kind, times=2))]


def message_faults_before_whole_job_crashes(campaign: CampaignView) -> list[tuple[Fault, ...]]:
    one = [(fault,) for kind in ALL_MESSAGES for fault in _sites(campaign, campaign.baseline, kind)]
    return [*one, *several_messages(campaign.baseline)]


def before_recoveries(deaths: Iterable[Fault], kind: str) -> Iterator[Schedule]:
    """Each death of the whole job, and the fault right before the next generation begins."""
    yield from (Schedule((death, Fault(COORDINATOR, "generation.before", 2, kind))) for death in deaths)


def expiry_then_maintenance_before_commits(baseline: RunResult) -> Iterator[Schedule]:
    """Time limits pass and maintenance runs between the last vote and the commit."""
    expired = (fault for fault in spread(baseline, "expire", times=EACH) if fault.point == "checkpoint.persist.before")
    yield from (Schedule((fault, replace(fault, point=DECIDED, kind="maintain"))) for fault in expired)


def expiry_then_maintenance_after(deaths: Iterable[Fault]) -> Iterator[Schedule]:
    """The same between a death of the whole job and the recovery from it."""
    expired = Fault(COORDINATOR, "generation.before", 2, "expire")
    maintained = Fault(COORDINATOR, "generation.after", 2, "maintain")
    yield from (Schedule((death, expired, maintained)) for death in deaths)


def all_notifications_but_the_last(baseline: RunResult) -> list[Fault]:
    """Loses the notification of every checkpoint but the last."""
    sinks = sum(name.startswith("sink[") for name in baseline.names)
    lost = [fault for fault in spread(baseline, "lose", times=EACH) if fault.point == "checkpoint.notify"]
    return lost[:-sinks]


def several_messages(baseline: RunResult) -> Iterator[tuple[Fault, ...]]:
    """All notifications but the last are lost: for each sink, for all of them; and all votes but the last declined."""
    sinks, lost = sum(name.startswith("sink[") for name in baseline.names), all_notifications_but_the_last(baseline)
    for first in range(sinks):
        yield tuple(lost[first::sinks])
    yield tuple(lost)
    declined = [fault for fault in spread(baseline, "decline", times=EACH) if fault.actor == "sink[0]"]
    yield tuple(declined[:-1])


def no_notifications_then_death(baseline: RunResult, death: str) -> Iterator[Schedule]:
    """The recovery has every checkpoint to commit, with ids of one digit, and of one and of two."""
    last = [fault for fault in spread(baseline, death) if fault.point == DECIDED][-1:]
    lost = [faults for faults in several_messages(baseline) if {fault.kind for fault in faults} == {"lose"}]
    yield from (Schedule((*faults, *last), ids=ids) for faults in lost for ids in (0, TWO_DIGITS))


def folders_in_another_order(campaign: CampaignView) -> Iterator[Schedule]:
    """Where the code lists folders: without faults, after deaths, and with the entries of twelve checkpoints."""
    if has_name(campaign.runner.files, *LISTING):
        deaths = (Fault(COORDINATOR, DECIDED, occurrence, "kill-job") for occurrence in (1, 2, 3))
        yield from (Schedule(faults, job=OTHER_LISTINGS_JOB) for faults in ((), *((death,) for death in deaths)))
        yield Schedule(job=MANY_CHECKPOINTS_JOB + TOGETHER + OTHER_LISTINGS_JOB)


def replies_in_pieces(campaign: CampaignView) -> Iterator[Schedule]:
    """Where the code sends over TCP: without faults, after deaths, and in twelve checkpoints."""
    if any(point == SENDS for _, point in campaign.baseline.trace):
        deaths = (Fault(COORDINATOR, DECIDED, occurrence, "kill-job") for occurrence in (1, 2, 3))
        yield from (Schedule(faults, job=PIECES_JOB) for faults in ((), *((death,) for death in deaths)))
        yield Schedule(job=MANY_CHECKPOINTS_JOB + TOGETHER + PIECES_JOB)


def errors_of_reads(campaign: CampaignView) -> Iterator[Schedule]:
    """What cannot be read is not what is not there. Of each line that reads, the first time and the last one fail: in a
    usual run, and after the job has died.
    """
    usual = Schedule(job=FAILING_READS_JOB)
    killed = replace(usual, faults=(Fault(COORDINATOR, DECIDED, 2, "kill-job"),))
    runs = [campaign.run_traced(schedule) for schedule in (usual, killed)]
    yield from in_turn(map(_failing_reads, runs))


def _failing_reads(result: RunResult) -> Iterator[Schedule]:
    """After the faults of this run."""
    before = result.schedule.faults
    to_come = {(fault.actor, fault.point, fault.occurrence) for fault in before}
    line: dict[str, str] = {}
    reads: dict[str, list[Fault]] = {}
    for actor, point, occurrence in passes(result):
        to_come.discard((actor, point, occurrence))
        if is_line(point):
            line[actor] = point
        elif point == FILE_READ and not to_come:
            reads.setdefault(line.get(actor, ""), []).append(Fault(actor, point, occurrence, "error"))
    for fault in in_turn(dict.fromkeys((found[0], found[-1])) for found in reads.values()):
        yield replace(result.schedule, faults=(*before, fault))
