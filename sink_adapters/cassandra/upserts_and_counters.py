"""Rows in Cassandra that are visible at once: a table of rows by key, counters, lists, and a table of sent parts.

A repeated row changes nothing: equal key, values and timestamp. Counters and lists change each time: a repeated part is
counted twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final
from zlib import crc32

from sinkproof.sink_adapters.cassandra.cassandra_client import CassandraClient, NotAcknowledged, TargetWithClient
from sinkproof.sink_adapters.protocol import Context, Identity, Row
from sinkproof.sink_adapters.strategies.idempotent import Entry, row_identity
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart

BUCKETS: Final = 8  # partitions of one target: its rows are spread, and the rows of one request are in one partition

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS {ks}.rows (target text, bucket int, id text, split int, offset bigint, key text, "
    "value text, event_time_ms bigint, written_by set<bigint>, PRIMARY KEY ((target, bucket), id))",
    "CREATE TABLE IF NOT EXISTS {ks}.counts (target text, split int, offset bigint, times counter, "
    "PRIMARY KEY ((target), split, offset))",
    "CREATE TABLE IF NOT EXISTS {ks}.lists (target text, split int, offsets list<bigint>, "
    "PRIMARY KEY ((target), split))",
    "CREATE TABLE IF NOT EXISTS {ks}.sent (target text, part text, PRIMARY KEY ((target, part)))",
)
# The timestamp is the row's own, in microseconds: a late repetition changes nothing.
UPSERT: Final = (
    "UPDATE {ks}.rows USING TIMESTAMP ? SET split = ?, offset = ?, key = ?, value = ?, event_time_ms = ?, "
    "written_by = written_by + ? WHERE target = ? AND bucket = ? AND id = ?"
)
ROWS: Final = (
    "SELECT split, offset, key, value, event_time_ms, written_by FROM {ks}.rows WHERE target = ? AND bucket = ?"
)
COUNT: Final = "UPDATE {ks}.counts SET times = times + 1 WHERE target = ? AND split = ? AND offset = ?"
COUNTS: Final = "SELECT split, offset, times FROM {ks}.counts WHERE target = ?"
APPEND: Final = "UPDATE {ks}.lists SET offsets = offsets + ? WHERE target = ? AND split = ?"
LISTS: Final = "SELECT split, offsets FROM {ks}.lists WHERE target = ?"
RECORD: Final = "INSERT INTO {ks}.sent (target, part) VALUES (?, ?) IF NOT EXISTS"
RECORDED: Final = "SELECT part FROM {ks}.sent WHERE target = ? AND part = ?"


class CassandraTable(TargetWithClient):
    """An UpsertTarget and a WriteAheadTarget. Each row lists the generations that wrote it, for `read_written`."""

    def attach(self, context: Context) -> None:
        self._writer = {context.generation}

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> None:
        self.upsert([(row_identity(row), row) for row in rows])

    def upsert(self, entries: Sequence[Entry]) -> None:
        by_bucket: defaultdict[int, list[Sequence[object]]] = defaultdict(list)
        for key, row in entries:
            bucket = crc32(key.encode()) % BUCKETS
            by_bucket[bucket].append((row.event_time_ms * 1000, *row, self._writer, self.target, bucket, key))
        for rows in by_bucket.values():
            self.client.write_together(UPSERT, rows)


class CassandraCounters(TargetWithClient):
    """A WriteAheadTarget that adds one to a counter for each row."""

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> None:
        for row in rows:
            self.client.write_once(COUNT, (self.target, row.split, row.offset))


class CassandraLists(TargetWithClient):
    """A WriteAheadTarget that appends to one list for each split."""

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> None:
        for row in rows:
            self.client.write_once(APPEND, ([row.offset], self.target, row.split))


class CassandraCommitter(TargetWithClient):
    """A CheckpointCommitter. A part without a record may have been sent; it is sent again."""

    def is_committed(self, part: CheckpointPart) -> bool:
        return bool(self.client.read(RECORDED, (self.target, part), serial=True))

    def record(self, part: CheckpointPart) -> None:
        if self.client.insert_if_absent(RECORD, (self.target, part)).applied is None:
            raise NotAcknowledged(f"whether {part} is recorded is unknown: the next attempt reads it")


def read_rows(client: CassandraClient, target: str) -> Iterator[Row]:
    for rows in client.read_many(ROWS, [(target, bucket) for bucket in range(BUCKETS)]):
        yield from (Row(*fields) for *fields, _ in rows)


def read_written(client: CassandraClient, target: str) -> Iterator[Identity]:
    """Each row once per generation that wrote it, as a reader of the table's changes observes."""
    for rows in client.read_many(ROWS, [(target, bucket) for bucket in range(BUCKETS)]):
        for split, offset, *_, writers in rows:
            yield from [(split, offset)] * len(writers or ())


def read_counts(client: CassandraClient, target: str) -> Iterator[Identity]:
    for split, offset, times in client.read(COUNTS, (target,)):
        yield from [(split, offset)] * (times or 0)


def read_lists(client: CassandraClient, target: str) -> Iterator[Identity]:
    for split, offsets in client.read(LISTS, (target,)):
        yield from ((split, offset) for offset in offsets or ())
