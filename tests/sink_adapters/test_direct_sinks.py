"""Idempotent and plain sinks, driven call by call: rows are visible at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sinkproof.sink_adapters.memory.memory_clients import MemoryLog, MemoryTable
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Batch, Row
from sinkproof.sink_adapters.strategies.idempotent import IdempotentSink
from sinkproof.sink_adapters.strategies.plain import PlainSink

from .by_hand import batch, offsets, restored, started, two_phase


@pytest.mark.row("S19")
def test_upserts_are_seen_early_and_repeatedly_and_the_final_view_is_correct(store: MemoryStore) -> None:
    started(IdempotentSink(MemoryTable(store))).write(batch(0, 1))
    assert [0, 1] == offsets(store)
    started(IdempotentSink(MemoryTable(store)), generation=2).write(batch(0, 1, 2))
    assert [0, 1, 2] == offsets(store)
    assert [0, 1, 0, 1, 2] == [offset for _, offset in store.read_changes()]


@pytest.mark.row("S19")
def test_keys_that_differ_after_a_replay_leave_rows_of_killed_attempts(store: MemoryStore) -> None:
    for generation in (1, 2):
        sink = IdempotentSink(MemoryTable(store), key=lambda row, generation=generation: f"{generation}-{row.offset}")
        started(sink, generation=generation).write(batch(0, 1))
    assert [0, 0, 1, 1] == offsets(store)


@pytest.mark.row("S27")
def test_a_plain_sink_repeats_rows_after_a_crash_where_a_transactional_one_does_not(store: MemoryStore) -> None:
    transactional = MemoryStore()
    sinks = [started(PlainSink(MemoryLog(store))), started(two_phase(transactional))]
    for sink in sinks:
        sink.write(batch(0))
    states = [sink.snapshot(1) for sink in sinks]
    for sink in sinks:
        sink.notify_complete(1)
        sink.write(batch(1))  # and crashes: row 1 is replayed
    again = [
        restored(PlainSink(MemoryLog(store)), 2, states[0]),
        restored(two_phase(transactional), 2, states[1]),
    ]
    for sink in again:
        sink.write(batch(1))
        sink.snapshot(2)
        sink.notify_complete(2)
    assert [0, 1, 1] == offsets(store)
    assert [0, 1] == offsets(transactional)


class Buffering:
    """Buffers rows until `flush`."""

    def __init__(self) -> None:
        self.buffer: list[Any] = []
        self.flushed: list[Any] = []

    def append(self, batch: Batch) -> None:
        self.buffer += batch

    def upsert(self, entries: Sequence[tuple[str, Row]]) -> None:
        self.buffer += [row for _, row in entries]

    def flush(self) -> None:
        self.flushed += self.buffer
        self.buffer = []


@pytest.mark.row("S19")
@pytest.mark.parametrize("strategy", [PlainSink, IdempotentSink])
def test_a_snapshot_flushes_the_buffer_of_the_target(strategy: Any) -> None:
    target = Buffering()
    sink = started(strategy(target))
    sink.write(batch(0, 1))
    sink.snapshot(1)
    assert [0, 1] == [row.offset for row in target.flushed]
