"""Sinks that publish full parts only, and carry the other rows over to the next checkpoint. Right: Carrying."""

from __future__ import annotations

import json
from typing import Any

from waiting_rows import Waiting, Waits

from sinkproof import Batch, Context


class CarriesOver(Waits):
    """Publishes five rows at a time; the others wait in the state for the next checkpoint, all for the last one."""

    at_once = 5

    def open(self, context: Context) -> None:
        self.waiting: list[tuple[int, int]] = []
        super().open(context)

    def write(self, batch: Batch) -> None:
        self.waiting += [(row.split, row.offset) for row in batch]

    def end_of_input(self) -> None:
        self.at_once = 1

    def snapshot(self, checkpoint_id: int) -> bytes:
        full = len(self.waiting) // self.at_once * self.at_once
        self.rows, self.waiting = self.waiting[:full], self.waiting[full:]
        super().snapshot(checkpoint_id)
        return self.state()

    def state(self) -> bytes:
        return json.dumps([*self.pending, (0, self.waiting)]).encode()

    def restore(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        if checkpoint_id:
            super().restore(subtask, checkpoint_id, rows)
        else:
            self.waiting += rows


class Carrying(Waiting):
    """Right: rows of a checkpoint may become visible with a later one."""

    make = CarriesOver


class DropsWhatWaits(CarriesOver):
    def state(self) -> bytes:
        return json.dumps(self.pending).encode()


class CarriedInMemoryOnly(Waiting):
    """Wrong: the rows that wait for the next checkpoint are not in the state."""

    make = DropsWhatWaits
