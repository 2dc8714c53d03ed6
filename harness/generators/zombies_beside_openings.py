"""Zombies that go on while their successor opens.

A successor reads what is committed, and fences its predecessor. What the predecessor commits in between is neither
seen nor refused, if the reading comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from sinkproof.chaos.schedule import Schedule
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import evenly, in_turn
from sinkproof.generators.interleavings import within

ZOMBIES_MOST: Final = 4  # the lines of a commit are chosen evenly; each of these zombies goes on at each line of `open`


def zombies_beside_openings(campaign: CampaignView, *, waited_for: Collection[Schedule] = ()) -> Iterator[Schedule]:
    """In turn, so that a short budget covers some of each zombie. `waited_for`: zombies of which it is known that their
    successors wait for what they hold.
    """
    zombies = [Schedule((fault,)) for fault in within(campaign.traced_baseline, "notify_complete", "stop")]
    unknown = evenly([zombie for zombie in zombies if zombie not in waited_for], ZOMBIES_MOST)
    yield from in_turn([_pauses_of_successor(campaign, zombie) for zombie in unknown])


def _pauses_of_successor(campaign: CampaignView, zombie: Schedule) -> Iterator[Schedule]:
    """The successor pauses before each line that its opening executes, and the zombie goes on at that moment."""
    (stop,), run = zombie.faults, campaign.run_traced(zombie)
    if run.resumed_early:
        return
    own = replace(run, trace=[passed for passed in run.trace if run.names[passed[0]] == stop.actor])
    yield from (Schedule((stop, fault)) for fault in within(own, "open", "pause", calls_skipped=1))
