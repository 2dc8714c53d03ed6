"""What Spark promises to a foreachBatch function, as a pure state machine.

offsets/N written -> the function runs with batch N -> commits/N written -> offsets/N+1 written -> ...

These files survive a crash. After a restart a batch without commits/N runs again, with the same rows and the same id,
also if the function had returned. No other file records that the function ran.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class BatchPhase(enum.Enum):
    COMMITTED = enum.auto()  # commits/N-1 is written; batch N is not planned
    PLANNED = enum.auto()  # offsets/N is written
    WRITTEN = enum.auto()  # the function has returned, which is recorded in memory only


class BatchEvent(enum.Enum):
    PLAN = enum.auto()
    WRITE = enum.auto()
    COMMIT = enum.auto()
    CRASH = enum.auto()
    LOSE_COMMIT = enum.auto()  # the last commits/N never reached the disk


TRANSITIONS: Final = {
    (BatchPhase.COMMITTED, BatchEvent.PLAN): (BatchPhase.PLANNED, 0),  # and by how much N changes
    (BatchPhase.PLANNED, BatchEvent.WRITE): (BatchPhase.WRITTEN, 0),
    (BatchPhase.WRITTEN, BatchEvent.COMMIT): (BatchPhase.COMMITTED, 1),
    (BatchPhase.COMMITTED, BatchEvent.CRASH): (BatchPhase.COMMITTED, 0),
    (BatchPhase.PLANNED, BatchEvent.CRASH): (BatchPhase.PLANNED, 0),
    (BatchPhase.WRITTEN, BatchEvent.CRASH): (BatchPhase.PLANNED, 0),
    (BatchPhase.COMMITTED, BatchEvent.LOSE_COMMIT): (BatchPhase.PLANNED, -1),
}


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """The state of a query: the batch that is running, or comes next, and its phase."""

    batch: int = 0
    phase: BatchPhase = BatchPhase.COMMITTED

    def after(self, event: BatchEvent) -> MicroBatches:
        """Raises KeyError for an event that cannot happen in this phase."""
        phase, step = TRANSITIONS[self.phase, event]
        return MicroBatches(self.batch + step, phase)
