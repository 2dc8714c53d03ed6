"""Clients of a store in memory, one for each strategy. Each call is one atomic request.

The store may be in this process or behind a socket (memory_server.py): a client holds only the methods that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart, Owner, Transaction


class MemoryTransactions:
    """The target of TwoPhaseCommitSink. `transaction_timeout`: seconds after which the store aborts by itself."""

    def __init__(self, store: Any, *, transaction_timeout: float | None = None) -> None:
        self._begin, self._write, self._prepare = store.begin, store.write, store.prepare
        self._commit, self._abort = store.commit, store.abort
        self._fence, self._lingering, self._expire = store.fence, store.lingering, store.expire
        self.transaction_timeout = transaction_timeout

    def attach(self, context: Context) -> None:
        self._token = (context.sink_id, context.generation)
        self._clock = context.clock

    def fence(self, owner: Owner, generation: int) -> None:
        """Fences the whole sink: this generation runs only after every attempt of an earlier one was replaced."""
        self._fence(self._token)

    def lingering(self, owner: Owner, before_generation: int) -> list[bytes]:
        return [name.encode() for name in self._lingering(owner, before_generation)]

    def begin(self, transaction: Transaction) -> None:
        self._begin(self._token, transaction, 0.0 if self.transaction_timeout is None else self._clock())

    def write(self, transaction: Transaction, batch: Batch) -> None:
        self._write(self._token, transaction, batch.rows)

    def pre_commit(self, transaction: Transaction) -> bytes:
        self._prepare(self._token, transaction)
        return transaction.encode()

    def commit(self, handle: bytes) -> CommitOutcome:
        if self.transaction_timeout is not None:
            self._expire(self._clock() - self.transaction_timeout)
        outcome: CommitOutcome = self._commit(self._token, handle.decode())
        return outcome

    def abort(self, transaction: Transaction | bytes) -> None:
        self._abort(self._token, transaction.decode() if isinstance(transaction, bytes) else transaction)


class MemoryLog:
    """The target of PlainSink, and of WriteAheadSink: rows of a part are sent one by one, not atomically."""

    def __init__(self, store: Any) -> None:
        self._append = store.append

    def attach(self, context: Context) -> None:
        self._reach = context.reach

    def append(self, batch: Batch) -> None:
        self._append(batch.rows)

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> None:
        for row in rows:
            self._reach("append.before")
            self._append((row,))
            self._reach("append.after")


class MemoryTable:
    """The target of IdempotentSink, and of WriteAheadSink: then a repeated row replaces itself."""

    def __init__(self, store: Any) -> None:
        self._upsert = store.upsert

    def attach(self, context: Context) -> None:
        self._reach = context.reach

    def upsert(self, entries: Sequence[tuple[str, Row]]) -> None:
        self._upsert(entries)

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> None:
        for row in rows:
            self._reach("upsert.before")
            self._upsert([(f"{row[0]}-{row[1]}", row)])
            self._reach("upsert.after")


class MemoryCommitter:
    """The committer of WriteAheadSink. Its records are not atomic with the target's rows."""

    def __init__(self, store: Any) -> None:
        self.is_committed, self.record = store.is_recorded, store.record


class MemorySegments:
    """The target of MaskedSink."""

    def __init__(self, store: Any) -> None:
        self._stage, self._reveal, self._collect = store.stage, store.reveal, store.collect

    def attach(self, context: Context) -> None:
        self._sink_id = context.sink_id

    def stage(self, segment: Transaction, batch: Batch) -> None:
        self._stage(segment, batch.rows)

    def reveal(self, generation: int, checkpoint_id: int) -> CommitOutcome:
        outcome: CommitOutcome = self._reveal((self._sink_id, generation), checkpoint_id)
        return outcome

    def collect(self, owner: Owner, before_generation: int) -> None:
        self._collect(owner, before_generation)
