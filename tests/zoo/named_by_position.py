"""Sinks that name a part by how many rows their attempt had before it. Right: Positions."""

from __future__ import annotations

import json
import os
from typing import Any

from waiting_rows import Waiting, Waits

from sinkproof import Context


class ByPosition(Waits):
    """Rows wait in the state, with the generation that has them and their place in it."""

    def open(self, context: Context) -> None:
        self.first = 0
        super().open(context)

    def snapshot(self, checkpoint_id: int) -> bytes:
        before, self.first = self.first, self.first + len(self.rows)
        self.pending.append((checkpoint_id, [self.context.generation, before, self.rows]))  # type: ignore[arg-type]
        self.rows = []
        return json.dumps(self.pending).encode()

    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        generation, before, own = rows
        temporary = self.folder / f"temporary-{self.context.subtask}-{self.context.generation}"
        temporary.write_text(json.dumps(own))
        os.replace(temporary, self.out / f"{subtask}-{generation}-{before}")


class EmptyOverFull(Waiting):
    """Wrong: a checkpoint without rows has the name of the next one. A zombie puts it over what its successor has
    published for that.
    """

    make = ByPosition


class PutsRowsOnly(ByPosition):
    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        if rows[-1]:
            super().publish(subtask, checkpoint_id, rows)


class Positions(Waiting):
    make = PutsRowsOnly
