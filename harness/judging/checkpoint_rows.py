"""Which rows each complete checkpoint covers: a reader may see all of them, or none, and no marker may claim more."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from numbers import Integral
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sinkproof.reference_engine.checkpointing.restore_and_rescale import covered, holds_rows, in_flight
from sinkproof.workload.ledger import Identity, Ledger

if TYPE_CHECKING:
    from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord

Rows = frozenset[Identity]


def promised(ledger: Ledger, record: CheckpointRecord | None) -> Rows:
    """Rows that sinks had received when they took part in this checkpoint: all that its offsets cover, but for those
    that its barriers have overtaken, which belong to the next one.
    """
    offsets = covered(record)
    rows = ledger.below(offsets)
    return rows - in_flight(record) if record is not None and holds_rows(record) else rows


def is_marked(what: Any) -> bool:
    """Whether a marker can call this complete: the id of a checkpoint, or a row that begins with split and offset."""
    if isinstance(what, (list, tuple)):
        return len(what) > 1 and all(isinstance(each, Integral) for each in what[:2])
    return isinstance(what, Integral)


class CheckpointRows:
    """The complete checkpoints of one run, in order. What was complete before the run counts as one checkpoint."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.complete: list[tuple[int, Rows]] = []  # all rows that are covered by it

    def note(self, latest: CheckpointRecord | None) -> None:
        if latest is not None and (not self.complete or latest.checkpoint_id > self.complete[-1][0]):
            self.complete.append((latest.checkpoint_id, promised(self.ledger, latest)))

    def torn(self, visible: set[Identity]) -> Iterable[tuple[int, tuple[Identity, ...]]]:
        """(checkpoint, hidden rows) of each checkpoint of which some rows are visible and others are not."""
        before: Rows = frozenset()
        for checkpoint_id, upto in self.complete:
            rows = upto - before
            hidden = rows - visible
            if hidden and len(hidden) < len(rows):
                yield checkpoint_id, tuple(sorted(hidden))
            before = upto

    def overclaimed(self, marked: Iterable[Any], visible: set[Identity]) -> Iterable[tuple[str, tuple[Identity, ...]]]:
        """(what, hidden rows) for each checkpoint id or row that is marked as complete and is not."""
        for what in marked:
            if isinstance(what, Integral):
                yield from self._overclaimed_checkpoint(int(what), visible)
            elif (row := (what[0], what[1])) not in visible:
                yield f"row {row}", (row,)

    def _overclaimed_checkpoint(
        self, checkpoint_id: int, visible: set[Identity]
    ) -> Iterable[tuple[str, tuple[Identity, ...]]]:
        """An aborted checkpoint is covered by the next one; all that was complete before it must be visible."""
        name = f"checkpoint {checkpoint_id}"
        if checkpoint_id > (self.complete[-1][0] if self.complete else 0):
            yield name, ()
            return
        complete_by_then = bisect_right(self.complete, checkpoint_id, key=itemgetter(0))
        if complete_by_then and (hidden := self.complete[complete_by_then - 1][1] - visible):
            yield name, tuple(sorted(hidden))
