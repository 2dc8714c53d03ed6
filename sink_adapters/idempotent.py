"""Idempotent: every row is upserted under a key that a replay makes again, so that writing twice is writing once.

Right in the end; readers see rows before their checkpoint is complete, and see them again after a crash. Wrong as soon
as a replay makes other keys: then each attempt leaves rows of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from sinkproof.sink_adapters.optional import call_if_there
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from sinkproof.sink_adapters.state import EMPTY

Entry = tuple[str, Row]


class UpsertTarget(Protocol):
    """What the target must offer. It may also offer `attach(context)`, `close()`, and

    `flush()`: on return all upserts so far are durable; without it, each must be when `upsert` returns.
    """

    def upsert(self, entries: Sequence[Entry]) -> None:
        """For each (key, row): the row replaces what the key held. Visible at once. Repeated after every crash."""


def row_identity(row: Row) -> str:
    """The key that every replay makes again, whatever the operators before the sink do."""
    return f"{row[0]}-{row[1]}"


class IdempotentSink:
    """Effectively once, if `key` depends on nothing but the row."""

    __slots__ = ("_reach", "key", "target")

    def __init__(self, target: UpsertTarget, *, key: Callable[[Row], str] = row_identity) -> None:
        self.target, self.key = target, key

    def open(self, context: Context) -> None:
        self._reach = context.reach
        call_if_there(self.target, "attach", context)

    def write(self, batch: Batch) -> None:
        key = self.key
        entries = [(key(row), row) for row in batch.rows]
        self._reach("upsert.before")
        self.target.upsert(entries)
        self._reach("upsert.after")

    def snapshot(self, checkpoint_id: int) -> bytes:
        """The state is empty: what was written is in the target, and what follows is replayed."""
        call_if_there(self.target, "flush")
        return EMPTY

    def notify_complete(self, checkpoint_id: int) -> Iterable[int]:
        return ()

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Its rows are visible already."""

    def settle(self, now: float) -> Iterable[int]:
        return ()

    def end_of_input(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        call_if_there(self.target, "close")
