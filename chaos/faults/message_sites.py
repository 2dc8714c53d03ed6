"""Selects the messages at which a kind of message fault is injected, from the counts of a run without faults."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.messages.message_points import BROKER
from sinkproof.chaos.points import MESSAGE_POINTS
from sinkproof.chaos.schedule import Fault


def message_sites(counts: Mapping[str, int], kind: str, *, every: Collection[str] = ()) -> Iterator[Fault]:
    """All occurrences of the messages in `every`, then the first one of each other to which the kind applies."""
    for point in sorted(MESSAGE_POINTS, key=lambda point: point not in every):
        if KINDS[kind].applies(BROKER, point):
            passed = counts.get(point, 0)
            most = passed if point in every else min(passed, 1)
            yield from (Fault(BROKER, point, number, kind) for number in range(1, most + 1))
