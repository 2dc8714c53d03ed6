"""Parts that could not be published stay in the state, also of a subtask that has taken them over. Wrong:
NamedByKeeper, which names them after the subtask that has them in its state. Right: NamedOnce.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from parts_of_checkpoints import JsonParts

from sinkproof import Batch, Context, Scratch


class Parts:
    def __init__(self, folder: Path, keeps_names: bool) -> None:
        self.folder, self.keeps_names = folder, keeps_names
        self.rows: list[Any] = []
        self.pending: list[list[Any]] = []  # checkpoint, name, rows
        self.waiting: list[list[Any]] = []  # the same, of complete checkpoints

    def open(self, context: Context) -> list[int]:
        self.context = context
        for subtask, state in context.restored:
            for checkpoint, name, rows in json.loads(state):
                self.waiting.append([checkpoint, name if self.keeps_names else f"{subtask}-{checkpoint}", rows])
        return self.settle(0.0)

    def write(self, batch: Batch) -> None:
        self.rows += [[row.split, row.offset] for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending.append([checkpoint_id, f"{self.context.subtask}-{checkpoint_id}", self.rows])
        self.rows = []
        return json.dumps([*self.waiting, *self.pending]).encode()

    def notify_complete(self, checkpoint_id: int) -> list[int]:
        self.waiting += [part for part in self.pending if part[0] <= checkpoint_id]
        self.pending = [part for part in self.pending if part[0] > checkpoint_id]
        return self.settle(0.0)

    def settle(self, now: float) -> list[int]:
        for part in list(self.waiting):
            try:
                self.publish(*part[1:])
            except OSError:
                continue
            self.waiting.remove(part)
        return sorted({part[0] for part in self.waiting})

    def publish(self, name: str, rows: list[Any]) -> None:
        new = self.folder / f"{name}-{self.context.generation}.new"
        new.write_text(json.dumps(rows))
        os.replace(new, self.folder / f"{name}.json")


class NamedByKeeper(JsonParts):
    keeps_names = False

    def sink(self, scratch: Scratch) -> Parts:
        return Parts(scratch.path, self.keeps_names)


class NamedOnce(NamedByKeeper):
    keeps_names = True
