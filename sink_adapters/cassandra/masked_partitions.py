"""Masked rows in Cassandra: staged in partitions of their own, visible when a marker covers them.

    segments  all segments; written before the first row of each
    staged    the rows of one segment: one partition, so that it is read and removed as a whole
    revealed  the markers, (generation, checkpoint), written by conditional inserts only

A reader in any language: read `revealed`, then `segments`, then the partition in `staged` of each segment
with a sequence up to the greatest checkpoint of its generation. Markers are never changed or removed, so they may be
cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sinkproof.sink_adapters.cassandra.cassandra_client import CassandraClient, TargetWithClient
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS {ks}.segments (target text, sink text, generation bigint, sequence bigint, "
    "subtask int, PRIMARY KEY ((target), sink, generation, sequence, subtask))",
    "CREATE TABLE IF NOT EXISTS {ks}.staged (target text, segment text, place int, split int, offset bigint, key text, "
    "value text, event_time_ms bigint, PRIMARY KEY ((target, segment), place))",
    "CREATE TABLE IF NOT EXISTS {ks}.revealed (target text, sink text, generation bigint, checkpoint bigint, "
    "PRIMARY KEY ((target), sink, generation, checkpoint))",
)
# Rows have their generation as timestamp, and a removal a greater one: rows that a zombie adds to a removed segment are
# removed too, whenever they arrive and whatever its clock says.
ANNOUNCE: Final = (
    "INSERT INTO {ks}.segments (target, sink, generation, sequence, subtask) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
STAGE: Final = (
    "INSERT INTO {ks}.staged (target, segment, place, split, offset, key, value, event_time_ms) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
DROP_ROWS: Final = "DELETE FROM {ks}.staged USING TIMESTAMP ? WHERE target = ? AND segment = ?"
DROP_SEGMENT: Final = (
    "DELETE FROM {ks}.segments USING TIMESTAMP ? "
    "WHERE target = ? AND sink = ? AND generation = ? AND sequence = ? AND subtask = ?"
)
REVEAL: Final = "INSERT INTO {ks}.revealed (target, sink, generation, checkpoint) VALUES (?, ?, ?, ?) IF NOT EXISTS"
MARKERS: Final = "SELECT sink, generation, checkpoint FROM {ks}.revealed WHERE target = ?"
SEGMENTS: Final = "SELECT sink, subtask, generation, sequence FROM {ks}.segments WHERE target = ?"
ROWS: Final = "SELECT split, offset, key, value, event_time_ms FROM {ks}.staged WHERE target = ? AND segment = ?"


class CassandraSegments(TargetWithClient):
    """The MaskedTarget."""

    def __init__(self, client: CassandraClient, target: str) -> None:
        super().__init__(client, target)
        self._segment = ""
        self._place = 0

    def attach(self, context: Context) -> None:
        self.sink = context.sink_id

    def stage(self, segment: Transaction, batch: Batch) -> None:
        """Durable on return: the node answers after its commit log is on disk."""
        if segment != self._segment:
            named = (self.target, self.sink, segment.generation, segment.sequence, segment.subtask)
            self.client.write(ANNOUNCE, (*named, segment.generation))
            self._segment, self._place = segment, 0
        places = range(self._place, self._place + len(batch))
        rows = [
            (self.target, segment, place, *row, segment.generation) for place, row in zip(places, batch, strict=True)
        ]
        self.client.write_together(STAGE, rows)
        self._place = places.stop

    def reveal(self, generation: int, checkpoint_id: int) -> CommitOutcome:
        """The marker is correct from now on, so after an unknown outcome it is simply repeated."""
        return self.client.insert_if_absent(REVEAL, (self.target, self.sink, generation, checkpoint_id)).outcome

    def collect(self, owner: Owner, before_generation: int) -> None:
        """Rows first: while the segment is listed, a later attempt can still remove its rows."""
        revealed = markers(self.client, self.target)
        for segment in segments(self.client, self.target):
            is_ours = segment.sink_id == self.sink and owner.owns(segment.subtask)
            if is_ours and segment.generation < before_generation and not covers(revealed, segment):
                time = before_generation - 1
                self.client.write(DROP_ROWS, (time, self.target, segment))
                place = (segment.sink_id, segment.generation, segment.sequence, segment.subtask)
                self.client.write(DROP_SEGMENT, (time, self.target, *place))


Markers = dict[tuple[str, int], int]  # the greatest checkpoint revealed, by sink and generation


def markers(client: CassandraClient, target: str) -> Markers:
    """Decided markers. The serial read completes a conditional insert in flight."""
    greatest: Markers = {}
    for sink, generation, checkpoint in client.read(MARKERS, (target,), serial=True):
        greatest[sink, generation] = max(checkpoint, greatest.get((sink, generation), 0))
    return greatest


def segments(client: CassandraClient, target: str) -> list[Transaction]:
    return [
        Transaction.of(Owner(sink, subtask, 1), generation, sequence)
        for sink, subtask, generation, sequence in client.read(SEGMENTS, (target,))
    ]


def covers(revealed: Markers, segment: Transaction) -> bool:
    return segment.sequence <= revealed.get((segment.sink_id, segment.generation), 0)


def read_masked(client: CassandraClient, target: str) -> Iterator[Row]:
    """Revealed rows, by checkpoint. Markers are read first: the rows that they cover are older."""
    revealed = markers(client, target)
    shown = sorted((each for each in segments(client, target) if covers(revealed, each)), key=lambda each: each.order)
    for rows in client.read_many(ROWS, [(target, segment) for segment in shown]):
        yield from map(Row._make, rows)


def revealed_checkpoints(client: CassandraClient, target: str) -> list[int]:
    return sorted({row[2] for row in client.read(MARKERS, (target,), serial=True)})


def left_over(client: CassandraClient, target: str) -> list[Any]:
    """Segments that no marker covers."""
    revealed = markers(client, target)
    return [segment for segment in segments(client, target) if not covers(revealed, segment)]
