"""Which rows of the committed view no complete checkpoint covers, and what a zombie has changed there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.restore_and_rescale import covered, in_flight
from sinkproof.sink_adapters.protocol import Identity


def beyond(latest: CheckpointRecord | None, rows: Iterable[Identity]) -> list[Identity]:
    """The rows that this checkpoint does not cover yet: rows in flight belong to a later one."""
    offsets, waiting = covered(latest), in_flight(latest)
    return [row for row in rows if row[1] >= offsets.get(row[0], 0) or row in waiting]


def changed_by_zombie(
    latest: CheckpointRecord | None, before: Counter[Identity], after: Counter[Identity]
) -> tuple[list[Identity], list[Identity]]:
    """Rows added, and removed. Other attempts may have added rows of complete checkpoints meanwhile, each once: those
    are allowed.
    """
    new = after - before
    early = {*beyond(latest, new)}
    return [row for row in new if after[row] > 1 or row in early], [*(before - after)]
