"""The small jobs that demonstrations run, the targets of their sinks, and real folders for their checkpoints."""

from __future__ import annotations

import logging
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any, Final, Protocol

from sinkproof.execution.recorded_job import Identity, RecordedRun, RecordingSimulation, letters, record_job
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Plan, Vertex, source_to_sink
from sinkproof.reference_engine.dataflow.operators import KeyedCount
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.sink_adapters.memory.memory_contracts import MEMORY_SINKS
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Row, Sink
from sinkproof.subject.scratch import fresh_folder

# -- jobs -----------------------------------------------------------------------------------------


def linear(*vertices: Vertex, first: Exchange = Exchange.FORWARD) -> JobGraph:
    """The vertices in a row, by forward edges. `first`: the exchange of the first edge."""
    edges = [Edge(upstream.name, downstream.name) for upstream, downstream in pairwise(vertices)]
    return JobGraph(vertices, (replace(edges[0], exchange=first), *edges[1:]))


def counting(source: GeneratedInput, *, sources: int = 2, counts: int = 1) -> JobGraph:
    """A keyed exchange into a keyed count, with the sinks chained to it."""
    return linear(
        Vertex(name="source", parallelism=sources, source=source),
        Vertex(name="count", parallelism=counts, operator=KeyedCount),
        Vertex(name="sink", parallelism=counts, sink=True),
        first=Exchange.KEYED,
    )


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


class MemoryTarget:
    """A store in memory. `make`: another sink over it; without it, the sink of this strategy, as it is certified."""

    def __init__(self, *, strategy: str = "two-phase", make: Callable[[MemoryStore], Sink] | None = None) -> None:
        self.store, self.make = MemoryStore(), make or MEMORY_SINKS[strategy]

    def sink(self) -> Sink:
        return self.make(self.store)

    def read(self) -> list[Identity]:
        return self.store.read()

    @property
    def rows(self) -> list[Row]:
        """Rows with their values: of committed transactions, by checkpoint, and of the log."""
        return [row for _, rows in sorted(self.store.committed.values()) for row in rows] + list(self.store.log)


@dataclass(frozen=True)
class DeliveredRun(RecordedRun):
    """With the rows that it delivered into a target in memory, and for a keyed count what these rows say."""

    rows: list[Row]

    @property
    def counts(self) -> dict[str, int]:
        """Key -> the greatest count that was delivered for it."""
        greatest: dict[str, int] = {}
        for row in self.rows:
            greatest[row.key] = max(greatest.get(row.key, 0), int(row.value))
        return greatest

    @property
    def right_counts(self) -> dict[str, int]:
        assert isinstance(self.source, GeneratedInput)
        return true_counts(self.source)

    @property
    def wrong_counts(self) -> list[str]:
        return [f"count {text}" for text in differing_counts(self.counts, self.right_counts)]


def run_job(*, plan: Plan = LETTERS_TO_SINK, target: JobTarget | None = None, **options: Any) -> DeliveredRun:
    """Into a two-phase sink of its own, or into `target`. `options`: of record_job."""
    target = target or MemoryTarget()
    run = record_job(plan, target.sink, read=target.read, **options)
    rows = target.rows if isinstance(target, MemoryTarget) else []
    return DeliveredRun(run.simulation, run.seen, run.schedule, run.source, rows)


def true_counts(source: GeneratedInput) -> dict[str, int]:
    """Key -> how many rows of the input have it."""
    return dict(
        Counter(source.make(split, at).key for split in range(source.splits) for at in range(source.length(split)))
    )


def differing_counts(found: dict[str, int], right: dict[str, int]) -> list[str]:
    return [f"{key}={found[key]}, expected {right[key]}" for key in right if found[key] != right[key]]


def requested_at(at_ms: float, request: str) -> Callable[[RecordingSimulation], object]:
    """To run before the job: the coordinator receives "cancel" or "stop_with_checkpoint" at that time."""
    return lambda simulation: simulation.post(at_ms, (0, FIRST_GENERATION), (request, None, None))


def slow_upload(
    subtask: str, upload_ms: int, *, checkpoint_id: int | None = None
) -> Callable[[RecordingSimulation], object]:
    """To run before the job: persisting a snapshot of this subtask takes so long; of one checkpoint, or of each."""

    def install(simulation: RecordingSimulation) -> None:
        number, upload = simulation.names.index(subtask), simulation.actions["upload"]
        usual = simulation.latency.upload[number]

        def upload_slowly(shell: Any, key: tuple[int, int], effect: tuple[Any, ...]) -> None:
            simulation.latency.upload[number] = upload_ms if checkpoint_id in (None, effect[1]) else usual
            upload(shell, key, effect)

        simulation.actions["upload"] = upload_slowly

    return install


def refusal(error: type[Exception], call: Callable[[], object]) -> str:
    """The message of this error, which the call raises; nothing if it does not."""
    try:
        call()
    except error as refused:
        return str(refused)
    return ""


@contextmanager
def collected_warnings() -> Iterator[list[logging.LogRecord]]:
    """Warnings of two-phase sinks about transactions near their timeout, kept from the terminal."""
    log = logging.getLogger("sinkproof.sink_adapters.strategies.transaction_timeout")
    handler = BufferingHandler(capacity=sys.maxsize)
    propagates, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield handler.buffer
    finally:
        log.removeHandler(handler)
        log.propagate = propagates


# -- folders for checkpoints ----------------------------------------------------------------------


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Deleted when the demonstration is over."""
    folder = fresh_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def listing(folder: Path, *, pattern: str) -> list[str]:
    """Paths of the files in it, relative to it, sorted; without the digests in the names of states."""
    found = (path.relative_to(folder).as_posix() for path in folder.glob(pattern))
    return sorted(name.rpartition("-")[0] + ".state" if name.endswith(".state") else name for name in found)
