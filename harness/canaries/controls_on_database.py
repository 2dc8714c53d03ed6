"""Four more correct sinks, on a server (simulated_database.py) that may lose requests and answers.

Their canaries differ from them by a few lines. A sink holds the server's `request` function and nothing else of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from sinkproof.canaries.controls import FolderContract, inherited
from sinkproof.canaries.simulated_database import Database
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from sinkproof.subject.claims import Claim
from sinkproof.subject.scratch import Scratch

Identities = list[tuple[int, int]]


class DatabaseSink:
    """What the sinks share: the server, the context, the names of owners, and rows that wait for the snapshot."""

    def __init__(self, database: Database) -> None:
        self.request = database.request
        self.rows: Identities = []

    def open(self, context: Context) -> None:
        self.context = context
        self.me = f"{context.sink_id}.{context.subtask}"
        self.mine = [f"{context.sink_id}.{subtask}" for subtask in inherited(context)]

    def write(self, batch: Batch) -> None:
        self.rows += identities(batch)

    def notify_complete(self, checkpoint_id: int) -> Any:
        """Nothing to do."""

    def snapshot(self, checkpoint_id: int) -> bytes:
        return b""


def identities(batch: Batch) -> Identities:
    return [(row.split, row.offset) for row in batch]


class Transactions(DatabaseSink):
    """Rows are prepared with the snapshot and committed when it is complete."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.pending: dict[int, str] = {}
        self.covered = 0

    def open(self, context: Context) -> None:
        super().open(context)
        self.request("fence", self.mine, context.generation)
        for name in self.restored():
            if not self.commit(name):
                raise TimeoutError(f"{name} could not be committed yet; the next attempt repeats it")
        self.sweep()

    def restored(self) -> list[str]:
        return [name for _, state in self.context.restored for name in json.loads(state)]

    def sweep(self) -> None:
        self.request("sweep", self.mine, self.context.generation)

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self.rows:
            self.pending[checkpoint_id] = self.prepare(checkpoint_id, self.rows)
            self.rows = []
        return json.dumps(list(self.pending.values())).encode()

    def prepare(self, checkpoint_id: int, rows: Identities) -> str:
        name = self.name(checkpoint_id)
        self.request("prepare", name, (self.me, self.context.generation), rows)
        return name

    def name(self, checkpoint_id: int) -> str:
        return f"{self.me}-{self.context.generation}-{checkpoint_id}"

    def notify_complete(self, checkpoint_id: int) -> list[int]:
        self.covered = max(self.covered, checkpoint_id)
        return self.settle(0.0)

    def settle(self, now: float) -> list[int]:
        for older in sorted(older for older in self.pending if older <= self.covered):
            if not self.commit(self.pending[older]):
                return [doubtful for doubtful in self.pending if doubtful <= self.covered]
            del self.pending[older]
        return []

    def commit(self, name: str) -> bool:
        """False: the outcome is unknown. The commit is repeated later, which is harmless."""
        try:
            outcome = self.request("commit", name)
        except OSError:
            return False
        if outcome == "unknown":
            raise LookupError(f"{name} can never be committed any more: its rows are gone")
        return True


class Masked(DatabaseSink):
    """Rows are in the server at once, and one marker reveals those of a whole checkpoint, of all subtasks."""

    def open(self, context: Context) -> None:
        super().open(context)
        self.request("fence", self.mine, context.generation)
        self.reveal_restored()
        self.collect()

    def reveal_restored(self) -> None:
        for generation in sorted({int(state) for _, state in self.context.restored}):
            self.request("reveal", generation, self.context.checkpoint_id_restored)

    def collect(self) -> None:
        self.request("collect", self.mine, self.context.generation)

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self.rows:
            place = (self.me, self.context.generation, checkpoint_id)
            self.request("stage", "-".join(map(str, place)), place, self.rows)
            self.rows = []
        return str(self.context.generation).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        self.request("reveal", self.context.generation, checkpoint_id)


class Upserts(DatabaseSink):
    """Each row replaces itself: right in the end, and visible before its checkpoint is complete."""

    def write(self, batch: Batch) -> None:
        self.request("upsert", [(self.key(row), self.timestamp(row), (row.split, row.offset)) for row in batch])

    def key(self, row: Row) -> str:
        return f"{row.split}-{row.offset}"

    def timestamp(self, row: Row) -> int:
        return 0


class Producer:
    """Sends in the background. `delivered` is called with each outcome, much later."""

    def __init__(self, request: Callable[..., Any], delivered: Callable[[OSError | None], None]) -> None:
        self.request, self.delivered = request, delivered
        self.queue: list[Identities] = []

    def send(self, rows: Identities) -> None:
        """Never fails. Delivers the rows that were queued before."""
        self.queue.append(rows)
        if len(self.queue) > 1:
            self.deliver()

    def deliver(self) -> None:
        rows, error = self.queue.pop(0), None
        try:
            self.request("append", rows)
        except OSError as failed:
            error = failed
        self.delivered(error)

    def flush(self) -> None:
        """On return `delivered` was called for all rows."""
        while self.queue:
            self.deliver()


class Asynchronous(DatabaseSink):
    """At least once: a snapshot waits for every row in flight, and fails if one of them has failed."""

    def open(self, context: Context) -> None:
        super().open(context)
        self.error: OSError | None = None
        self.producer = Producer(self.request, self.delivered)

    def delivered(self, error: OSError | None) -> None:
        self.error = self.error or error

    def write(self, batch: Batch) -> None:
        self.producer.send(identities(batch))

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.producer.flush()
        if self.error is not None:
            raise self.error
        return b""


class DatabaseContract(FolderContract):
    """The contract of sinks that keep everything in the server."""

    make: Any = Transactions
    expires_after: float | None = None

    def sink(self, scratch: Scratch) -> Any:
        return self.make(self.database(scratch))

    def database(self, scratch: Scratch) -> Database:
        return Database(scratch.path, scratch.clock, limit=self.expires_after)

    def committed(self, scratch: Scratch) -> Iterator[tuple[int, int]]:
        return self.database(scratch).tables_now().rows()

    def residue(self, scratch: Scratch) -> list[str]:
        return self.database(scratch).tables_now().hidden()

    def version(self, scratch: Scratch) -> int:
        journal = scratch.path / "journal"
        return journal.stat().st_size if journal.exists() else 0

    def canonical(self, scratch: Scratch, live: str) -> str:
        return self.database(scratch).tables_now().text()


class TransactionalControl(DatabaseContract):
    """Correct. A second sink may write to the same server."""

    def second_sink(self, scratch: Scratch) -> Any:
        return self.sink(scratch)


class TimeLimitControl(DatabaseContract):
    """Correct: the server aborts transactions that are prepared for too long, and the sink then raises an error."""

    expires_after = 3600.0


class MaskedControl(DatabaseContract):
    """Correct."""

    make = Masked


class IdempotentControl(DatabaseContract):
    """Correct."""

    claims = Claim.EFFECTIVELY_ONCE
    make = Upserts


class AsynchronousControl(DatabaseContract):
    """Correct."""

    claims = Claim.AT_LEAST_ONCE
    make = Asynchronous
