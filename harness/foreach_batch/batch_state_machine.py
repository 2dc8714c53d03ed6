"""What Spark promises to a foreachBatch function, as a pure state machine.

offsets/N written -> the function runs with batch N -> commits/N written -> offsets/N+1 written -> ...

What survives a crash are these files. After a restart a batch whose commits/N is missing runs again, with the same rows
and the same id, whether or not the function had come to its end. That the function ran is recorded nowhere else.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class Phase(enum.Enum):
    COMMITTED = enum.auto()  # commits/N-1 is there; batch N is not planned
    PLANNED = enum.auto()  # offsets/N is there
    WRITTEN = enum.auto()  # the function has returned; only this process knows


class Event(enum.Enum):
    PLAN = enum.auto()
    WRITE = enum.auto()
    COMMIT = enum.auto()
    CRASH = enum.auto()
    LOSE_COMMIT = enum.auto()  # the last commits/N never reached the disk


TRANSITIONS: Final = {
    (Phase.COMMITTED, Event.PLAN): (Phase.PLANNED, 0),  # and by how much N changes
    (Phase.PLANNED, Event.WRITE): (Phase.WRITTEN, 0),
    (Phase.WRITTEN, Event.COMMIT): (Phase.COMMITTED, 1),
    (Phase.COMMITTED, Event.CRASH): (Phase.COMMITTED, 0),
    (Phase.PLANNED, Event.CRASH): (Phase.PLANNED, 0),
    (Phase.WRITTEN, Event.CRASH): (Phase.PLANNED, 0),
    (Phase.COMMITTED, Event.LOSE_COMMIT): (Phase.PLANNED, -1),
}


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """Where a query stands: the batch that is running, or comes next."""

    batch: int = 0
    phase: Phase = Phase.COMMITTED

    def after(self, event: Event) -> MicroBatches:
        """Raises KeyError for what cannot happen here."""
        phase, step = TRANSITIONS[self.phase, event]
        return MicroBatches(self.batch + step, phase)
