"""The small jobs that demonstrations run, and the targets of their sinks."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from sinkproof.execution.recorded_job import Identity, RecordedRun, RecordingSimulation, letters, record_job
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Plan, Vertex, source_to_sink
from sinkproof.reference_engine.dataflow.operators import KeyedCount
from sinkproof.reference_engine.dataflow.replayable_sources import Input
from sinkproof.sink_adapters.memory.memory_clients import MemoryLog, MemoryTransactions
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Row, Sink
from sinkproof.sink_adapters.strategies.plain import PlainSink
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink


def counting(source: Input, *, sources: int = 2, counts: int = 1, chain: bool = True) -> JobGraph:
    """A keyed exchange into a keyed count, with the sinks chained to it."""
    vertices = (
        Vertex(name="source", parallelism=sources, source=source),
        Vertex(name="count", parallelism=counts, operator=KeyedCount, chain=chain),
        Vertex(name="sink", parallelism=counts, sink=True),
    )
    return JobGraph(vertices, (Edge("source", "count", Exchange.KEYED), Edge("count", "sink")))


LETTERS: Final = letters("aebgaebg|gabegabe")
LETTERS_TO_SINK: Final = source_to_sink(LETTERS).plan()  # source x2 -> sink x2 by key
ROW_COUNT: Final = LETTERS.splits * LETTERS.length(0)
COUNTED: Final = letters("aabaab|babaab")
COUNTING: Final = counting(COUNTED).plan()  # 2 sources -> keyed count -> sink


class JobTarget(Protocol):
    def sink(self) -> Sink:
        """Another sink over the same target."""

    def read(self) -> list[Identity]:
        """The rows that an independent reader sees."""


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
        """Committed rows with their values, by checkpoint."""
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


def run_job(*, plan: Plan = LETTERS_TO_SINK, target: JobTarget | None = None, **options: Any) -> RecordedRun:
    """Into a two-phase sink of its own, or into `target`. `options`: of record_job."""
    target = target or Transactional()
    return record_job(plan, target.sink, read=target.read, **options)


def requested_at(at_ms: float, request: str) -> Callable[[RecordingSimulation], object]:
    """To run before the job: the coordinator receives "cancel" or "stop_with_checkpoint" at that time."""
    return lambda simulation: simulation.post(at_ms, (0, FIRST_GENERATION), (request, None, None))


def slow_upload(subtask: str, upload_ms: int) -> Callable[[RecordingSimulation], object]:
    """To run before the job: persisting a snapshot of this subtask takes so long."""

    def install(simulation: RecordingSimulation) -> None:
        simulation.latency.upload[simulation.names.index(subtask)] = upload_ms

    return install


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Warnings of two-phase sinks about transactions near their timeout, kept from the terminal."""
    messages: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    log, handler = logging.getLogger("sinkproof.sink_adapters.strategies.transaction_timeout"), Collector()
    propagates, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield messages
    finally:
        log.removeHandler(handler)
        log.propagate = propagates


def greatest_values(rows: list[Row]) -> dict[str, int]:
    """Key -> the greatest count that was delivered for it."""
    greatest: dict[str, int] = {}
    for row in rows:
        greatest[row.key] = max(greatest.get(row.key, 0), int(row.value))
    return greatest


def true_counts(source: Input) -> dict[str, int]:
    """Key -> how many rows of the input have it."""
    offsets = (
        (split, at) for split in range(source.splits) for at in range(0, source.length(split), source.batch_rows)
    )
    return dict(Counter(row.key for split, at in offsets for row in source.batch(split, at)))


def wrong_counts(found: dict[str, int], right: dict[str, int]) -> list[str]:
    return [f"{key}={found[key]}, expected {right[key]}" for key in right if found[key] != right[key]]
