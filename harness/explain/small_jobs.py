"""The small jobs that demonstrations run, and what their sinks write to."""

from __future__ import annotations

from collections import Counter

from sinkproof.execution.recorded_job import Identity
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Plan, Vertex
from sinkproof.reference_engine.dataflow.operators import KeyedCount
from sinkproof.reference_engine.dataflow.replayable_sources import Input
from sinkproof.sink_adapters.memory.memory_clients import MemoryLog, MemoryTransactions
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Row
from sinkproof.sink_adapters.strategies.plain import PlainSink
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink


def counting(source: Input, *, sources: int = 2, counts: int = 1, chain: bool = True) -> JobGraph:
    """Rows meet in a keyed count, whose subtasks the sinks are chained to."""
    vertices = (
        Vertex(name="source", parallelism=sources, source=source),
        Vertex(name="count", parallelism=counts, operator=KeyedCount, chain=chain),
        Vertex(name="sink", parallelism=counts, sink=True),
    )
    return JobGraph(vertices, (Edge("source", "count", Exchange.KEYED), Edge("count", "sink")))


def counting_plan(source: Input, *, sources: int = 2, counts: int = 1) -> Plan:
    return counting(source, sources=sources, counts=counts).plan()


class Transactional:
    """A two-phase sink over a store in memory."""

    def __init__(self) -> None:
        self.store = MemoryStore()

    def sink(self) -> TwoPhaseCommitSink:
        return TwoPhaseCommitSink(MemoryTransactions(self.store))

    def read(self) -> list[Identity]:
        return self.store.read()

    @property
    def rows(self) -> list[Row]:
        """What is committed, with its values, by checkpoint."""
        return [row for _, rows in sorted(self.store.committed.values()) for row in rows]


class Straight:
    """A plain sink: rows are visible as soon as they are written."""

    def __init__(self) -> None:
        self.store = MemoryStore()

    def sink(self) -> PlainSink:
        return PlainSink(MemoryLog(self.store))

    def read(self) -> list[Identity]:
        return self.store.read()

    @property
    def rows(self) -> list[Row]:
        return list(self.store.log)


def greatest_values(rows: list[Row]) -> dict[str, int]:
    """Key -> the greatest count that was delivered for it."""
    greatest: dict[str, int] = {}
    for row in rows:
        greatest[row.key] = max(greatest.get(row.key, 0), int(row.value))
    return greatest


def true_counts(source: Input) -> dict[str, int]:
    """Key -> how many rows the input really holds of it."""
    offsets = (
        (split, at) for split in range(source.splits) for at in range(0, source.length(split), source.batch_rows)
    )
    return dict(Counter(row.key for split, at in offsets for row in source.batch(split, at)))
