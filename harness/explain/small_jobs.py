"""The small jobs that demonstrations run, the targets of their sinks, and real folders for their checkpoints."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

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


def run_job(*, plan: Plan = LETTERS_TO_SINK, target: JobTarget | None = None, **options: Any) -> RecordedRun:
    """Into a two-phase sink of its own, or into `target`. `options`: of record_job."""
    target = target or MemoryTarget()
    return record_job(plan, target.sink, read=target.read, **options)


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


# -- counts ---------------------------------------------------------------------------------------


class CountedRun(NamedTuple):
    """A run of a job with a keyed count, and what it delivered."""

    run: RecordedRun
    counts: dict[str, int]  # key -> the greatest count that was delivered for it
    right: dict[str, int]

    @property
    def wrong(self) -> list[str]:
        return [f"count {text}" for text in wrong_counts(self.counts, self.right)]


def run_counting(*, plan: Plan = COUNTING, target: MemoryTarget | None = None, **options: Any) -> CountedRun:
    """`plan`: of a counting job. `target`, `options`: as of run_job."""
    target = target or MemoryTarget()
    run = run_job(plan=plan, target=target, **options)
    counts: dict[str, int] = {}
    for row in target.rows:
        counts[row.key] = max(counts.get(row.key, 0), int(row.value))
    assert isinstance(run.source, GeneratedInput)
    return CountedRun(run, counts, true_counts(run.source))


def true_counts(source: GeneratedInput) -> dict[str, int]:
    """Key -> how many rows of the input have it."""
    return dict(
        Counter(source.make(split, at).key for split in range(source.splits) for at in range(source.length(split)))
    )


def wrong_counts(found: dict[str, int], right: dict[str, int]) -> list[str]:
    return [f"{key}={found[key]}, expected {right[key]}" for key in right if found[key] != right[key]]


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
