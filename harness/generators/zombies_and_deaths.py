"""Zombies that resume and then die, that others have waited for, that resume when two successors have been there, or
without their connection.

A commit of several steps repairs what a dead attempt has left, until a zombie dies in the middle of one that is done
already. A fence may tell an attempt from its successor, and not from the one after that; and it may hold for the
connection that was fenced, and not for the one that a client opens instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from sinkproof.chaos.points import AROUND_CALLS, is_interior, is_line
from sinkproof.chaos.requests.socket_points import POINT as SENDS
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import evenly, in_turn, passes, spread
from sinkproof.generators.interleavings import within
from sinkproof.workload.job_names import IDLE_CLOSED_JOB, LONG_WAITS_JOB, UNUSED_CLOSED_JOB
from sinkproof.workload.rows import SINKS

COMMIT: Final = "notify_complete"
CUT_OFF_IN: Final = (COMMIT, "snapshot", "write")
CUT_OFF_MOST: Final = 12  # in each of these calls
# The lines of a commit are chosen evenly: at each of them a run shows what the zombie goes on with.
ZOMBIES_MOST: Final = 24
UNFENCED: Final = ("write.after", "snapshot.before", "notify_complete.before")
HANDLED_MOST: Final = 8  # errors
LINES_AFTER_MOST: Final = 12
AFTER_CALLS: Final = frozenset(point for point in AROUND_CALLS if point.endswith(".after"))
# Seconds that one takes at least, how many there are, and how many of these are killed.
WAITED_FOR_MOST: Final = ((5.0, 6, 2), (11.0, 3, 2), (inf, 4, 1))


def zombies_and_deaths(campaign: CampaignView, *, waited_for: Collection[Schedule] = ()) -> Iterator[Schedule]:
    """Those that outlive a whole generation come first; the others in turn, so that a short budget covers some of each.
    Not where the successor waits for what the zombie holds: then the zombie is done first. `waited_for`: zombies of
    which that is known.
    """
    yield from successors_that_all_die(campaign)
    zombies = [Schedule((fault,)) for fault in within(campaign.traced_baseline, COMMIT, "stop")]
    unknown = [zombie for zombie in zombies if zombie not in waited_for]
    runs = [campaign.run_traced(zombie) for zombie in evenly(unknown, ZOMBIES_MOST)]
    resumed = [run for run in runs if run.fired and not run.resumed_early]
    yield from in_turn((_cut_off(campaign), map(_with_second_successor, resumed), *map(_own_deaths, resumed)))


def _cut_off(campaign: CampaignView) -> Iterator[Schedule]:
    """Zombies of which the first request fails, after a line of a call that sends some over TCP; and the same ones, of
    which the servers have closed the connections, which a client may look for before it sends anything.
    """
    baseline = campaign.traced_baseline
    if all(point != SENDS for _, point in baseline.trace):
        return
    for call in CUT_OFF_IN:
        for fault in evenly(list(within(baseline, call, "stop")), CUT_OFF_MOST):
            run = campaign.run_traced(Schedule((fault,)))
            sent = next((place for place in _after_it_resumed(run, fault, until=call) if place[0] == SENDS), None)
            if sent is not None and not run.resumed_early:
                yield Schedule((fault, Fault(fault.actor, *sent, "error")))
                yield Schedule((fault,), job=IDLE_CLOSED_JOB)


def zombies_with_one_session(campaign: CampaignView) -> Iterator[Schedule]:
    """Servers end what a suspended attempt has not used last, such as a session that holds its lock: others, which have
    waited for that, go on, and so does the zombie, with the session that it writes by.
    """
    for call in CUT_OFF_IN[:2]:
        stops = evenly(list(within(campaign.traced_baseline, call, "stop")), CUT_OFF_MOST)
        yield from (Schedule((stop,), job=UNUSED_CLOSED_JOB) for stop in stops)


def successors_that_all_die(campaign: CampaignView) -> Iterator[Schedule]:
    """Before one of them has fenced, as while the target is out of reach: the next have two generations to fence."""
    each_dies = tuple(Fault(f"sink[{subtask}]", "open.before", 2, "kill") for subtask in range(SINKS))
    for stop in (fault for fault in spread(campaign.baseline, "stop") if fault.point in UNFENCED):
        yield Schedule((stop, *each_dies))


def _with_second_successor(run: RunResult) -> Schedule:
    """The first one dies when it has been opened: the zombie resumes when the second one has."""
    (fault,) = run.schedule.faults
    return Schedule((fault, Fault(fault.actor, "open.after", 2, "kill")))


def _own_deaths(run: RunResult) -> Iterator[Schedule]:
    """At each line that the zombie goes on with, the first and the last time."""
    (fault,) = run.schedule.faults
    times: dict[str, list[int]] = {}
    for point, occurrence in _after_it_resumed(run, fault, until=COMMIT):
        if is_interior(point):
            times.setdefault(point, []).append(occurrence)
    for point, occurrences in times.items():
        for occurrence in dict.fromkeys((occurrences[0], occurrences[-1])):
            yield Schedule((fault, Fault(fault.actor, point, occurrence, "kill")))


def _after_it_resumed(run: RunResult, fault: Fault, *, until: str) -> Iterator[tuple[str, int]]:
    """What its actor passes outside of its successor's calls, until the call that it was suspended in is over: lines,
    system calls, and what is sent.
    """
    is_suspended, call = False, ""
    for actor, point, occurrence in passes(run):
        if actor != fault.actor:
            continue
        if not is_suspended:
            is_suspended = (point, occurrence) == (fault.point, fault.occurrence)
        elif call:
            call = "" if point == f"{call}.after" else call
        elif is_interior(point) or point == SENDS:
            yield point, occurrence
        elif point.endswith(".before"):
            call = point.removesuffix(".before")
        elif point == f"{until}.after":
            return


def zombies_after_errors(campaign: CampaignView, *, errors: Sequence[Schedule]) -> Iterator[Schedule]:
    """A call fails, and the sink handles that: with a new connection it may have lost a lock, or forgotten what it had
    looked for. It is suspended then, at lines up to the end of its call, and goes on beside its successor: unless that
    waits for it. In turn, so that a short budget covers some of each. `errors`: of which no attempt fails.
    """
    yield from in_turn(_zombies_after(campaign, schedule) for schedule in evenly(errors, HANDLED_MOST))


def _zombies_after(campaign: CampaignView, schedule: Schedule) -> Iterator[Schedule]:
    (fault,) = schedule.faults
    lines = dict.fromkeys(_lines_after(campaign.run_traced(schedule), fault))
    stops = (Fault(fault.actor, point, occurrence, "stop") for point, occurrence in evenly([*lines], LINES_AFTER_MOST))
    zombies = [replace(schedule, faults=(fault, stop)) for stop in stops]
    if zombies and not campaign.run(zombies[len(zombies) // 2]).resumed_early:
        yield from zombies


def _lines_after(run: RunResult, fault: Fault) -> Iterator[tuple[str, int]]:
    """Those that its actor executes after it until the call of the sink is over."""
    has_failed = False
    for actor, point, occurrence in passes(run):
        if actor == fault.actor:
            has_failed |= (point, occurrence) == (fault.point, fault.occurrence)
            if has_failed and point in AFTER_CALLS:
                return
            if has_failed and is_line(point):
                yield point, occurrence


def zombies_waited_for(schedules: Sequence[Schedule], *, wait_seconds: float) -> Iterator[Schedule]:
    """Some of them again, where other attempts wait for so long that they may give up, or take the lock by force. At
    the first and the last of these places the zombie is killed then: what it would do may hide what others did.
    """
    every = [*dict.fromkeys(replace(schedule, job=LONG_WAITS_JOB) for schedule in schedules)]
    most, killed = next(numbers for seconds, *numbers in WAITED_FOR_MOST if wait_seconds <= seconds)
    chosen = [*dict.fromkeys(every[step * (len(every) - 1) // (most - 1)] for step in range(most) if every)]
    ends = [*dict.fromkeys((*chosen[:1], *chosen[-1:]))][:killed]
    yield from chosen
    yield from (replace(each, faults=(replace(each.faults[0], kind="hang"),)) for each in ends)
