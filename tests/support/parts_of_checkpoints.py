"""What sinks under test share: rows of each checkpoint wait in the state, and become a part once it is complete."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from sinkproof import Batch, Claim, Context, Scratch


class PartsOfCheckpoints(ABC):
    """Subclasses publish a part, which has the same name each time."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.pending: dict[int, list[Any]] = {}

    def open(self, context: Context) -> None:
        self.context = context
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish(f"{subtask}-{checkpoint}", rows)

    def write(self, batch: Batch) -> None:
        self.rows += [[row.split, row.offset] for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(f"{self.context.subtask}-{older}", self.pending[older])
            del self.pending[older]

    @abstractmethod
    def publish(self, name: str, rows: list[Any]) -> None:
        """Once its checkpoint is complete, and again where it is restored."""


class JsonParts:
    """What contracts have in common of which each part is a JSON file."""

    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in scratch.path.glob("*.json"):
            yield from json.loads(file.read_text())
