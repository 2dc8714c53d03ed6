"""Sinks with modules that remember what earlier attempts in the same process did. Right: see
surroundings.RemembersWhatIsDone.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from surroundings import DONE, SparesARename
from waiting_rows import Waiting, Waits

from sinkproof import Batch, Context

ROWS: defaultdict[tuple[Path, int], list[tuple[int, int]]] = defaultdict(list)


class NotesFirst(SparesARename):
    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        if (begun := (self.folder, self.name(subtask, checkpoint_id))) not in DONE:
            DONE.add(begun)
            Waits.publish(self, subtask, checkpoint_id, rows)


class BegunIsTakenForDone(Waiting):
    """Wrong: after a failure the next attempt in the same process takes begun work for done. A death clears that."""

    make = NotesFirst


class KeepsRowsInItsModule(Waits):
    def open(self, context: Context) -> None:
        if context.checkpoint_id_restored is None:
            ROWS.clear()
        super().open(context)
        self.rows = ROWS[self.folder, context.subtask]

    def write(self, batch: Batch) -> None:
        self.rows.extend((row.split, row.offset) for row in batch)

    def snapshot(self, checkpoint_id: int) -> bytes:
        live, self.rows = self.rows, list(self.rows)
        state = super().snapshot(checkpoint_id)
        live.clear()
        self.rows = live
        return state


class RowsOutliveTheirAttempt(Waiting):
    """Wrong: rows of a failed attempt are still there when they are written again."""

    make = KeepsRowsInItsModule
