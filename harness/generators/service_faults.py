"""Faults of external systems: each kind at each step of the commit window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.kill_sender import KILL_SENDER
from sinkproof.chaos.faults.message_sites import message_sites
from sinkproof.chaos.faults.toxics import TOXICS
from sinkproof.chaos.messages.message_points import LATE
from sinkproof.chaos.points import AROUND_CALLS, COMMIT_WINDOW, SINK_POINTS
from sinkproof.chaos.schedule import Schedule
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import in_turn, spread

NODE_KINDS: Final = ("service-kill", "service-stop", "service-pause")
DECIDED: Final = {"write.after", "checkpoint.persist.after"}  # rows are in flight; rows must become visible now
# The messages at which each kind is injected each time; at others, the first time. A delay takes seconds, and a client
# handles a late reply as it handles a late request.
EACH_OF: Final = {
    KILL_SENDER.word: ("end_txn.request", "end_txn.reply"),
    "drop": ("end_txn.request", "end_txn.reply"),
    "hold": ("end_txn.request",),
    "double": ("end_txn.request",),
    "delay": ("end_txn.reply",),
}


def message_faults(campaign: CampaignView) -> Iterator[Schedule]:
    """Runs without faults once to count messages; then each end of a transaction, and the first of all others."""
    proxies = campaign.runner.scratch.services.proxies()
    if not proxies:
        return
    campaign.runner.run(Schedule())
    counts = Counter[str]()
    for proxy in proxies:
        counts.update(proxy.status().counts)
    kinds = [kind for kind in EACH_OF if kind != LATE or campaign.contract.offers("late_requests")]
    if campaign.runner.scratch.services.network() is not None:
        kinds.remove(KILL_SENDER.word)  # the connection to the broker is not that of the sender then
    faults = in_turn(message_sites(counts, kind, every=EACH_OF[kind]) for kind in kinds)
    yield from (Schedule((fault,)) for fault in faults)


def node_faults_near_requests(campaign: CampaignView) -> Iterator[Schedule]:
    """Nodes and networks fail at the steps next to a request."""
    yield from _node_faults(campaign, COMMIT_WINDOW & _next_to_requests(campaign))


def node_faults(campaign: CampaignView) -> Iterator[Schedule]:
    """The same at every step of the commit window, those next to a request first."""
    near = _next_to_requests(campaign)
    for steps in (COMMIT_WINDOW & near, COMMIT_WINDOW - near):
        yield from _node_faults(campaign, steps)


def _next_to_requests(campaign: CampaignView) -> set[str]:
    passed = {point for point in campaign.points_passed() if point in SINK_POINTS}
    return (passed or {*AROUND_CALLS}) | DECIDED


def _node_faults(campaign: CampaignView, steps: frozenset[str]) -> Iterator[Schedule]:
    """Kinds in turn: a fault takes seconds."""
    kinds = NODE_KINDS if campaign.runner.scratch.services.network() is None else (*TOXICS, *NODE_KINDS)
    yield from in_turn(_of_kind(campaign, kind, steps=steps) for kind in kinds)


def _of_kind(campaign: CampaignView, kind: str, *, steps: frozenset[str]) -> Iterator[Schedule]:
    """Once at each step: the first time that it is passed, or where a recovery has passed it."""
    found = {fault.point: Schedule((fault,)) for fault in spread(campaign.baseline, kind, times=1)}
    for point, (before, fault) in campaign.shortest_ways_to().items():
        if KINDS[kind].applies(fault.actor, point):
            found.setdefault(point, replace(before, faults=(*before.faults, replace(fault, kind=kind))))
    yield from (schedule for point, schedule in found.items() if point in steps)
