"""The part that all these sinks share: rows wait in the checkpoint until it is complete."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from sinkproof import Batch, Context

SCHEMA = pa.schema([("split", pa.int64()), ("offset", pa.int64())])


def as_table(rows: Any) -> pa.Table:
    return pa.Table.from_pydict({name: [row[place] for row in rows] for place, name in enumerate(SCHEMA.names)}, SCHEMA)


class RowsUntilComplete:
    def __init__(self, target: Any) -> None:
        self.target = target
        self.rows: list[tuple[int, int]] = []
        self.pending: list[tuple[int, list[tuple[int, int]]]] = []

    def open(self, context: Context) -> None:
        self.context = context
        for subtask, state in context.restored:
            for checkpoint_id, rows in json.loads(state):
                self.publish(f"{context.sink_id}-{subtask}", checkpoint_id, rows)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending.append((checkpoint_id, self.rows))
        self.rows = []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older, rows in [entry for entry in self.pending if entry[0] <= checkpoint_id]:
            self.publish(f"{self.context.sink_id}-{self.context.subtask}", older, rows)
        self.pending = [entry for entry in self.pending if entry[0] > checkpoint_id]

    def publish(self, writer: str, checkpoint_id: int, rows: Any) -> None:
        """Adds the rows unless they are there. `writer`: the subtask that took the snapshot."""
        raise NotImplementedError
