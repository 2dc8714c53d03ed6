"""Zombies that go on while their successor opens, or while it commits what is new.

A successor reads what is committed, and fences its predecessor. What the predecessor commits in between is neither
seen nor refused, if the reading comes first. The same holds for the zombie of a subtask that was removed: another
one has its rows by then. Where one subtask fences for all, the others may have opened before it. And what a zombie has
begun may hide from another subtask, which opens first, what that one has committed: a transaction does in Kafka. What
both name alike, a temporary file say, has the successor's rows by the time of its next commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from sinkproof.chaos.schedule import COORDINATOR, IN_ORDER, Fault, Schedule
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import DECIDED, as_passed_by, evenly, in_turn
from sinkproof.generators.interleavings import FIRST_SINK, within
from sinkproof.workload.job_names import SCALE_IN_AND_OUT_JOB, SCALE_IN_JOB, ZOMBIE_LATE_JOB

ZOMBIES_MOST: Final = 4  # the lines of a commit are chosen evenly; each of these zombies goes on at each line of `open`
RECOVERING_MOST: Final = 8  # of which some hold a lock, and are waited for
OTHER: Final = "sink[1]"
OTHER_FIRST: Final = ("open",)
DECIDED_ONCE: Final = Fault(COORDINATOR, DECIDED, 1, "kill-job")
CALLS_OF_ZOMBIES: Final = ("snapshot", "notify_complete")


def zombies_beside_successors(campaign: CampaignView, *, waited_for: Collection[Schedule] = ()) -> Iterator[Schedule]:
    """First beside openings, where most is decided."""
    yield from zombies_beside_openings(campaign, waited_for=waited_for)
    yield from zombies_beside_later_commits(campaign, waited_for=waited_for)


def zombies_beside_openings(campaign: CampaignView, *, waited_for: Collection[Schedule] = ()) -> Iterator[Schedule]:
    """In turn, so that a short budget covers some of each zombie. `waited_for`: zombies of which it is known that their
    successors wait for what they hold.
    """
    beside_each = (_pauses_of_successor(campaign, zombie) for zombie in _some(campaign, waited_for))
    removed = (_pauses_of_successor(campaign, zombie, actor=FIRST_SINK) for zombie in _removed(campaign))
    other_first = (replace(zombie, orders=OTHER_FIRST) for zombie in _some(campaign, waited_for))
    recovering = _within_rescaled_recoveries(campaign)
    yield from in_turn([_before_the_leader_opens(campaign), other_first, *beside_each, *removed, recovering])


def zombies_beside_later_commits(
    campaign: CampaignView, *, waited_for: Collection[Schedule] = ()
) -> Iterator[Schedule]:
    """Likewise, where the successor commits what is new."""
    late = [replace(zombie, job=ZOMBIE_LATE_JOB) for zombie in _some(campaign, waited_for)]
    yield from in_turn(_pauses_in_later_commits(campaign, zombie) for zombie in late)


def _some(campaign: CampaignView, waited_for: Collection[Schedule]) -> list[Schedule]:
    zombies = [Schedule((fault,)) for fault in within(campaign.traced_baseline, "notify_complete", "stop")]
    return evenly([zombie for zombie in zombies if zombie not in waited_for], ZOMBIES_MOST)


def _removed(campaign: CampaignView) -> list[Schedule]:
    """Zombies of a subtask that the restart removes: what it had not committed is the other one's then."""
    stops = within(as_passed_by(OTHER, campaign.traced_baseline), "notify_complete", "stop")
    return [Schedule((stop,), job=SCALE_IN_JOB) for stop in evenly([*stops], ZOMBIES_MOST)]


def _within_rescaled_recoveries(campaign: CampaignView) -> Iterator[Schedule]:
    """One subtask recovers what another one had; when it goes on, as a zombie, that one is there again, and has opened
    before the zombie's own successor.
    """
    alone = Schedule((DECIDED_ONCE,), job=SCALE_IN_AND_OUT_JOB, orders=(IN_ORDER, *OTHER_FIRST))
    recovery = within(as_passed_by(FIRST_SINK, campaign.run_traced(alone)), "open", "stop", calls_skipped=1, last=True)
    last = {stop.point: stop for stop in recovery}  # for the other one's part
    for stop in evenly([*last.values()], RECOVERING_MOST):
        zombie = replace(alone, faults=(DECIDED_ONCE, stop))
        run = campaign.run_traced(zombie)
        pause = next(within(as_passed_by(FIRST_SINK, run), "open", "pause", calls_skipped=2), None)
        if pause is not None and not run.resumed_early:
            yield replace(zombie, faults=(*zombie.faults, pause))


def _pauses_of_successor(campaign: CampaignView, zombie: Schedule, *, actor: str = "") -> Iterator[Schedule]:
    """The successor (`actor`; "": of the same subtask) pauses before each line that its opening executes, and the
    zombie goes on at that moment. Another subtask executes some of them for its own part first.
    """
    (stop,), run = zombie.faults, campaign.run_traced(zombie)
    if not run.resumed_early:
        opening = within(as_passed_by(actor or stop.actor, run), "open", "pause", calls_skipped=1, last=bool(actor))
        yield from (replace(zombie, faults=(stop, fault)) for fault in opening)


def _pauses_in_later_commits(campaign: CampaignView, zombie: Schedule) -> Iterator[Schedule]:
    """The successor pauses before each line of the first commit after its opening."""
    (stop,), run = zombie.faults, campaign.run_traced(zombie)
    if not run.resumed_early:
        commit = within(as_passed_by(stop.actor, run), "notify_complete", "pause", calls_skipped=1)
        yield from (replace(zombie, faults=(stop, fault)) for fault in commit)


def _before_the_leader_opens(campaign: CampaignView) -> Iterator[Schedule]:
    """The other subtask opens first. Its zombie goes on when the leader pauses, which has not opened then."""
    own = as_passed_by(OTHER, campaign.traced_baseline)
    stops = [
        stop
        for call in CALLS_OF_ZOMBIES
        for stop in evenly([*within(own, call, "stop", calls_skipped=1)], ZOMBIES_MOST)
    ]
    if not stops:
        return
    run = as_passed_by(FIRST_SINK, campaign.run_traced(Schedule((stops[0],))))
    pause = next(within(run, "open", "pause", calls_skipped=1), None)
    if pause is not None:
        yield from (Schedule((stop, pause), orders=OTHER_FIRST) for stop in stops)
