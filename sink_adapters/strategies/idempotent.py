"""Idempotent: every row is upserted under a key that a replay makes again, so that a repeated write has no effect.

The final result is correct, but readers see rows before their checkpoint is complete, and see them again after a crash.
If a replay makes other keys, each attempt leaves rows of its own, and the result is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sinkproof.sink_adapters.protocol import Batch, Row
from sinkproof.sink_adapters.strategies.direct_sink import DirectSink

Entry = tuple[str, Row]


class UpsertTarget(Protocol):
    """What the target must offer. It may also offer `attach(context)`, `close()`, and

    `flush()`: on return all upserts so far are durable; without it, each must be when `upsert` returns.
    """

    def upsert(self, entries: Sequence[Entry]) -> None:
        """For each (key, row): the row replaces what the key held. Visible at once. Repeated after every crash."""


def row_identity(row: Row) -> str:
    """A key that is equal after every replay, whatever the operators before the sink do."""
    return f"{row[0]}-{row[1]}"


class IdempotentSink(DirectSink):
    """Effectively once, if `key` depends only on the row."""

    def __init__(self, target: UpsertTarget, *, key: Callable[[Row], str] = row_identity) -> None:
        super().__init__(target)
        self.key = key

    def write(self, batch: Batch) -> None:
        key = self.key
        entries = [(key(row), row) for row in batch.rows]
        self._reach("upsert.before")
        self.target.upsert(entries)
        self._reach("upsert.after")
