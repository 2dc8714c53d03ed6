"""Schedules in which a host of the cluster dies, is cut off, or has a slow link."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sinkproof.chaos.faults.faults_of_hosts import CUT, CUT_ALL, CUT_IN, CUT_OUT, HEAL, KILL_HOST, SLOW_LINK
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import first_of_each, in_turn

# Each kind at a step of its own; every sink passes these. What is in doubt when a host vanishes comes first.
FIRST: Final = (
    (CUT, "notify_complete.before"),
    (CUT, "write.before"),  # it has no file yet that its successor could remove
    (KILL_HOST, "snapshot.after"),
    (CUT, "write.after"),
    (SLOW_LINK, "snapshot.before"),
    (CUT_OUT, "acknowledge.before"),
    (CUT_IN, "notify_complete.before"),
    (CUT_ALL, "notify_complete.after"),
    (KILL_HOST, "notify_complete.before"),
)
# The coordinator has noticed the silence by then, and has replaced nothing yet.
HEALED_AT: Final = Fault(COORDINATOR, "generation.before", 2, HEAL)


def each_kind(campaign: CampaignView) -> Iterator[Schedule]:
    for kind, point in FIRST:
        found = [fault for fault in first_of_each(campaign.baseline, kind, lines=False) if fault.point == point]
        yield from (Schedule((fault,)) for fault in found)
        if (kind, point) == FIRST[0]:
            yield from (Schedule((fault, HEALED_AT)) for fault in found)


def at_each_step(campaign: CampaignView) -> Iterator[Schedule]:
    """Each kind the first time that any subtask passes each named point, in turn."""
    kinds = (CUT, KILL_HOST, CUT_IN, SLOW_LINK, CUT_OUT, CUT_ALL)
    faults = [list(first_of_each(campaign.baseline, kind, lines=False)) for kind in kinds]
    yield from in_turn([Schedule((fault,)) for fault in of_kind] for of_kind in faults)
