"""Sinks on a real Cassandra with one sin each, and the controls that do the same thing right.

The control keeps rows in the state. A part (one subtask's rows of one checkpoint) has one name in all attempts, and one
conditional insert under that name decides which copy of its rows is visible. An insert without an answer is repeated:
the first insert to be applied wins, also if it is applied long after its client has timed out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from sinkproof.sink_adapters.cassandra.cassandra_client import CassandraClient, InsertResult, NotAcknowledged
from sinkproof.sink_adapters.cassandra.cassandra_contracts import OnCassandra
from sinkproof.sink_adapters.cassandra.masked_partitions import TABLES as MASKED_TABLES
from sinkproof.sink_adapters.cassandra.masked_partitions import CassandraSegments, read_masked
from sinkproof.sink_adapters.cassandra.upserts_and_counters import COUNT, read_counts
from sinkproof.sink_adapters.cassandra.upserts_and_counters import TABLES as ROW_TABLES
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from sinkproof.sink_adapters.strategies.masked import MaskedSink
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction

Identity = tuple[int, int]
Pending = tuple[int, str, list[Identity]]  # checkpoint, part, rows

COPIES: Final = (
    "CREATE TABLE IF NOT EXISTS {ks}.copies (target text, copy text, place int, split int, offset bigint, "
    "PRIMARY KEY ((target, copy), place))"
)
CHOSEN: Final = (
    "CREATE TABLE IF NOT EXISTS {ks}.chosen (target text, part text, copy text, PRIMARY KEY ((target), part))"
)
COPY: Final = "INSERT INTO {ks}.copies (target, copy, place, split, offset) VALUES (?, ?, ?, ?, ?)"
CHOOSE: Final = "INSERT INTO {ks}.chosen (target, part, copy) VALUES (?, ?, ?) IF NOT EXISTS"
ALL_CHOSEN: Final = "SELECT copy FROM {ks}.chosen WHERE target = ?"
ONE_CHOSEN: Final = "SELECT copy FROM {ks}.chosen WHERE target = ? AND part = ?"
ROWS: Final = "SELECT split, offset FROM {ks}.copies WHERE target = ? AND copy = ?"
DROP_COPY: Final = "DELETE FROM {ks}.copies WHERE target = ? AND copy = ?"
FORGET: Final = "DELETE FROM {ks}.chosen USING TIMESTAMP ? WHERE target = ? AND part = ?"
PERIODIC: Final = {"commitlog_sync": "periodic", "commitlog_compression": [{"class_name": "LZ4Compressor"}]}
TIME_AHEAD: Final = 4_000_000_000_000_000  # microseconds: in the year 2096


class Choosing:
    """The control."""

    def __init__(self, client: CassandraClient, target: str) -> None:
        self.client, self.target = client, target
        self.rows: list[Identity] = []
        self.pending: list[Pending] = []
        self.covered = 0
        self.numbers = count(1)

    def open(self, context: Context) -> Iterable[int]:
        self.context = context
        self.covered = context.checkpoint_id_covered
        for _, state in context.restored:
            self.pending += [(checkpoint, part, [*map(tuple, rows)]) for checkpoint, part, rows in json.loads(state)]
        self.pending.sort()
        return self.settle(0.0)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self.rows:
            self.pending.append((checkpoint_id, f"{self.context.subtask}-{checkpoint_id}", self.rows))
            self.rows = []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> Iterable[int]:
        self.covered = max(self.covered, checkpoint_id)
        return self.settle(0.0)

    def settle(self, now: float) -> Iterable[int]:
        while self.pending and self.pending[0][0] <= self.covered:
            _, part, rows = self.pending[0]
            if not self.commit(part, rows):
                return [checkpoint for checkpoint, *_ in self.pending if checkpoint <= self.covered]
            del self.pending[0]
        return ()

    def notify_aborted(self, checkpoint_id: int) -> None:
        """The next complete checkpoint covers it."""

    def commit(self, part: str, rows: Sequence[Identity]) -> bool:
        """Whether it is known that some copy of this part is shown."""
        copy = self.stage(part, rows)
        return self.choose(part, copy).applied is not None

    def stage(self, part: str, rows: Sequence[Identity]) -> str:
        copy = f"{part}-{self.context.generation}-{next(self.numbers)}"
        self.client.write_together(COPY, [(self.target, copy, place, *row) for place, row in enumerate(rows)])
        return copy

    def choose(self, part: str, copy: str) -> InsertResult:
        self.context.reach("commit.before")
        claim = self.client.insert_if_absent(CHOOSE, (self.target, part, copy))
        self.context.reach("commit.after")
        return claim

    def close(self) -> None:
        self.client.close()


class OfSinkClass(OnCassandra):
    sink_class: type[Any]

    def make(self, client: CassandraClient, target: str) -> Any:
        return self.sink_class(client, target)


class ChoosingContract(OfSinkClass):
    claims = ("EXACTLY_ONCE", "LIVENESS")
    tables = (COPIES, CHOSEN)
    sink_class = Choosing

    def rows_of(self, client: CassandraClient, target: str) -> Iterator[Identity]:
        copies = client.read(ALL_CHOSEN, (target,), serial=True)
        for rows in client.read_many(ROWS, [(target, copy) for (copy,) in copies]):
            yield from rows


class TrustsASerialRead(ChoosingContract):
    """R7: no row is found under the part's name, which is taken for a failed insert: the rows get another name.

    The insert that was not found is still in flight.
    """

    class sink_class(Choosing):  # noqa: N801
        def commit(self, part: str, rows: Sequence[Identity]) -> bool:
            generation = self.context.generation
            for earlier in [part, *(f"{part}-{number}" for number in range(1, generation + 1))][-2:]:
                if self.client.read(ONE_CHOSEN, (self.target, earlier), serial=True):
                    return True
            return super().commit(f"{part}-{generation}", rows)


class ResendsUnderANewName(ChoosingContract):
    """R7: an insert without an answer is taken for failed, and is repeated under another name."""

    class sink_class(Choosing):  # noqa: N801
        def commit(self, part: str, rows: Sequence[Identity]) -> bool:
            return super().commit(part, rows) or super().commit(f"{part}-again", rows)


class CleansUpOnTimeout(ChoosingContract):
    """R7: an insert without an answer is taken for failed, and the copy is deleted."""

    class sink_class(Choosing):  # noqa: N801
        def commit(self, part: str, rows: Sequence[Identity]) -> bool:
            copy = self.stage(part, rows)
            if self.choose(part, copy).applied is not None:
                return True
            self.client.write(DROP_COPY, (self.target, copy))
            return False


class ChoosesBeforeRows(ChoosingContract):
    """R1: the marker is written before the rows."""

    class sink_class(Choosing):  # noqa: N801
        def commit(self, part: str, rows: Sequence[Identity]) -> bool:
            copy = f"{part}-{self.context.generation}-first"
            claim = self.choose(part, copy)
            if claim.applied:
                self.client.write_together(COPY, [(self.target, copy, place, *row) for place, row in enumerate(rows)])
            return claim.applied is not None


class MixesPlainWrites(ChoosingContract):
    """R18: a plain delete on a row of conditional inserts, with a clock that is ahead: later inserts stay invisible."""

    class sink_class(Choosing):  # noqa: N801
        def open(self, context: Context) -> Iterable[int]:
            for checkpoint in range(1, 9):
                if checkpoint > context.checkpoint_id_covered:
                    self.client.write(FORGET, (TIME_AHEAD, self.target, f"{context.subtask}-{checkpoint}"))
            return super().open(context)


# -- counters --------------------------------------------------------------------------------------


class Counting(Choosing):
    """The control: a row is counted at most once."""

    def commit(self, part: str, rows: Sequence[Identity]) -> bool:
        """A part that was begun, with an unknown outcome, is not repeated."""
        if self.client.insert_if_absent(CHOOSE, (self.target, part, part)).applied:
            self.context.reach("publish.before")
            for row in rows:
                self.count(row)
            self.context.reach("publish.after")
        return True

    def count(self, row: Identity) -> None:
        try:
            self.client.write_once(COUNT, (self.target, *row))
        except NotAcknowledged:
            return


class CountingContract(OfSinkClass):
    claims = ("NO_DUPLICATES",)
    tables = (CHOSEN, *ROW_TABLES)
    sink_class = Counting

    def rows_of(self, client: CassandraClient, target: str) -> Iterator[Identity]:
        return read_counts(client, target)


class RetriesAnIncrement(CountingContract):
    """R18: an increment without an answer is repeated, and may count twice."""

    class sink_class(Counting):  # noqa: N801
        def count(self, row: Identity) -> None:
            self.client.write(COUNT, (self.target, *row))


# -- the last of each key --------------------------------------------------------------------------

LATEST: Final = "CREATE TABLE IF NOT EXISTS {ks}.latest (target text, key text, row text, PRIMARY KEY ((target), key))"
UPSERT: Final = "INSERT INTO {ks}.latest (target, key, row) VALUES (?, ?, ?) USING TIMESTAMP ?"
ALL_LATEST: Final = "SELECT row FROM {ks}.latest WHERE target = ?"


class Latest:
    """The control: of two rows with one key the later one wins in any order of arrival, by its timestamp."""

    def __init__(self, client: CassandraClient, target: str) -> None:
        self.client, self.target = client, target
        self.epoch = 1

    def open(self, context: Context) -> None:
        self.epoch = 1 + context.checkpoint_id_covered

    def write(self, batch: Batch) -> None:
        entries = [(self.target, row.key, f"{row.split}:{row.offset}", self.time(row)) for row in batch]
        self.client.write_together(UPSERT, entries)

    def time(self, row: Row) -> int:
        return 1 + row.offset

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.epoch = checkpoint_id + 1
        return b""

    def notify_complete(self, checkpoint_id: int) -> None:
        """Rows are visible as soon as they are written."""

    def close(self) -> None:
        self.client.close()


class LatestContract(OfSinkClass):
    claims = ("EFFECTIVELY_ONCE",)
    rows = "upsert"
    tables = (LATEST,)
    sink_class = Latest

    def rows_of(self, client: CassandraClient, target: str) -> Iterator[Identity]:
        for (row,) in client.read(ALL_LATEST, (target,)):
            split, _, offset = row.partition(":")
            yield int(split), int(offset)


class TimeIsTheCheckpoint(LatestContract):
    """R18: the timestamp of a write is its checkpoint: of two rows of one epoch the greater wins, not the later one."""

    class sink_class(Latest):  # noqa: N801
        def time(self, row: Row) -> int:
            return self.epoch


# -- masked ----------------------------------------------------------------------------------------


class MaskedPartitionsContract(OnCassandra):
    """The control: one marker reveals all subtasks of a checkpoint at once."""

    claims = ("EXACTLY_ONCE", "ATOMIC_CHECKPOINT")
    tables = MASKED_TABLES
    target_class: type[CassandraSegments] = CassandraSegments

    def make(self, client: CassandraClient, target: str) -> Any:
        return MaskedSink(self.target_class(client, target))

    def rows_of(self, client: CassandraClient, target: str) -> Iterator[Identity]:
        return ((row.split, row.offset) for row in read_masked(client, target))


class MarkerPerSubtask(MaskedPartitionsContract):
    """R13: each subtask reveals its own rows, so that a reader sees a part of a checkpoint."""

    class target_class(CassandraSegments):  # noqa: N801
        def attach(self, context: Context) -> None:
            self.sink = f"{context.sink_id}-{context.subtask}"

        def stage(self, segment: Transaction, batch: Batch) -> None:
            owner = Owner(self.sink, segment.subtask, 1)
            super().stage(Transaction.of(owner, segment.generation, segment.sequence), batch)

        def collect(self, owner: Owner, before_generation: int) -> None:
            super().collect(owner._replace(sink_id=self.sink), before_generation)


# -- durability ------------------------------------------------------------------------------------


class AcknowledgesBeforeItIsOnDisk(MaskedPartitionsContract):
    """R16: the node's default commit log setting: writes acknowledged in its last ten seconds are lost with it.

    Ten seconds where the log is compressed; otherwise a tenth of a second.
    """

    settings: Mapping[str, Any] = PERIODIC
