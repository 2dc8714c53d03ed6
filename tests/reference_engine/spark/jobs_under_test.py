"""Jobs for the Spark shell, as recipes: the processes of a run import this file (see conftest.py)."""

from __future__ import annotations

import json
import os
import threading
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from sinkproof.chaos.shared.event_log import EventLog
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay
from sinkproof.reference_engine.dataflow.columns import GeneratedColumns
from sinkproof.reference_engine.dataflow.event_time import Watermarks
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Vertex, source_to_sink
from sinkproof.reference_engine.dataflow.operators import KeyedCount
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput, Input
from sinkproof.reference_engine.dataflow.windows import TumblingWindows
from sinkproof.reference_engine.shells.job import Job
from sinkproof.reference_engine.shells.spark.deployment import Deployment
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SLOW_SECONDS = 0.01  # per batch; the source makes one in less than a hundredth of it
SLOW_BATCHES, SLOW_BATCH_ROWS = 150, 10_000
PATIENCE_MS = 2_000
WINDOW_MS = 250


@lru_cache
def _log(path: Path, pid: int) -> EventLog:
    return EventLog(path)


def log(path: Path) -> EventLog:
    """This process's own: a forked attempt has none of its parent's descriptors."""
    return _log(path, os.getpid())


def memory() -> int:
    """Bytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def counting(source: Input, *, exchange: Exchange = Exchange.KEYED) -> JobGraph:
    """One subtask of each: with `forward` everywhere all of it can be chained."""
    return JobGraph(
        (
            Vertex(name="source", source=source),
            Vertex(name="count", operator=KeyedCount),
            Vertex(name="sink", sink=True),
        ),
        (Edge("source", "count", exchange), Edge("count", "sink")),
    )


def files(folder: str) -> Any:
    contract, scratch = load("files/two-phase"), Scratch(name="x", path=Path(folder), shell="spark")
    return lambda: contract.sink(scratch)


def job(graph: JobGraph, configuration: CheckpointConfiguration, *, chaining: bool = True) -> Job:
    return Job(
        plan=graph.plan(chaining=chaining),
        configuration=configuration,
        restart=lambda: FixedDelay(attempts=1000, delay=0.0),
    )


# -- a few rows that are counted -------------------------------------------------------------------


def of_ada(split: int, offset: int) -> Row:
    return Row(split, offset, "ada", "")


class LoggedInput(GeneratedInput):
    """Records which rows are read, and by which process."""

    def __init__(self, path: Path) -> None:
        super().__init__(of_ada, splits=1, rows_per_split=5, batch_rows=1)
        self.path = path

    def batch(self, split: int, offset: int) -> Batch:
        log(self.path).record("read", offset=offset)
        return super().batch(split, offset)


def count_example(*, folder: str, reads: str) -> Deployment:
    """Five rows of one key, one by one; a checkpoint after every second."""
    configuration = CheckpointConfiguration(
        checkpoint_interval=None, checkpoint_every_batches=2, checkpoints_retained=100, closing_patience=PATIENCE_MS
    )
    return Deployment(job=job(counting(LoggedInput(Path(reads))), configuration), make_sink=files(folder))


# -- three ways to hand rows over ------------------------------------------------------------------


def handed_over(*, folder: str, chained: bool) -> Deployment:
    source = GeneratedColumns(splits=2, rows_per_split=500, batch_rows=50, keys=7)
    configuration = CheckpointConfiguration(checkpoint_interval=10, closing_patience=PATIENCE_MS)
    graph = counting(source, exchange=Exchange.FORWARD)
    return Deployment(job=job(graph, configuration, chaining=chained), make_sink=files(folder))


# -- a sink a hundred times slower than its source -------------------------------------------------


class WatchedColumns(GeneratedColumns):
    def __init__(self, path: Path) -> None:
        super().__init__(splits=1, rows_per_split=SLOW_BATCHES * SLOW_BATCH_ROWS, batch_rows=SLOW_BATCH_ROWS)
        self.path = path

    def batch(self, split: int, offset: int) -> Batch:
        made = super().batch(split, offset)
        log(self.path).record("read", memory=memory())
        return made


class SlowSink:
    """Keeps nothing but how many rows it was given."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows, self.never = path, 0, threading.Event()

    def open(self, context: Context) -> None:
        self.rows = sum(json.loads(state) for _, state in context.restored)

    def write(self, batch: Batch) -> None:
        self.never.wait(SLOW_SECONDS)
        self.rows += len(batch)
        log(self.path).record("wrote", memory=memory())

    def snapshot(self, checkpoint_id: int) -> bytes:
        log(self.path).record("snapshot", checkpoint=checkpoint_id, rows=self.rows)
        return json.dumps(self.rows).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        return None


def slow_sink(*, log_path: str) -> Deployment:
    path = Path(log_path)
    graph = JobGraph(
        (Vertex(name="source", source=WatchedColumns(path)), Vertex(name="sink", sink=True)),
        (Edge("source", "sink", Exchange.KEYED),),
    )
    configuration = CheckpointConfiguration(checkpoint_interval=50, closing_patience=PATIENCE_MS)
    return Deployment(job=job(graph, configuration), make_sink=lambda: SlowSink(path))


# -- unaligned checkpoints, and windows ------------------------------------------------------------


class Hesitant:
    """A sink that takes its time over each batch, so that rows wait for it."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.never = inner, threading.Event()
        for name in ("open", "snapshot", "notify_complete", "notify_aborted", "settle", "end_of_input", "close"):
            setattr(self, name, getattr(inner, name))

    def write(self, batch: Batch) -> None:
        self.never.wait(SLOW_SECONDS / 2)
        self.inner.write(batch)


def row_of_its_own(split: int, offset: int) -> Row:
    return Row(split, offset, f"{split}-{offset}", "v", 10 * offset)


def in_flight(*, folder: str, timeout_ms: int = 0, rows: int = 400) -> Deployment:
    """Two sources, two sinks; a checkpoint comes while every buffer is full."""
    source = GeneratedInput(row_of_its_own, splits=2, rows_per_split=rows, batch_rows=10)
    graph = source_to_sink(source)
    configuration = CheckpointConfiguration(
        checkpoint_interval=40,
        unaligned_checkpoints=True,
        aligned_checkpoint_timeout=timeout_ms,
        checkpoints_retained=100,
        closing_patience=PATIENCE_MS,
    )
    make = files(folder)
    return Deployment(job=job(graph, configuration), make_sink=lambda: Hesitant(make()))


def windowed(*, folder: str) -> Deployment:
    source = GeneratedInput(row_of_one_of_five, splits=2, rows_per_split=200, batch_rows=10)
    graph = JobGraph(
        (
            Vertex(name="source", parallelism=2, source=source, watermarks=Watermarks()),
            Vertex(name="window", operator=partial(TumblingWindows, WINDOW_MS)),
            Vertex(name="sink", sink=True),
        ),
        (Edge("source", "window", Exchange.KEYED), Edge("window", "sink")),
    )
    configuration = CheckpointConfiguration(checkpoint_interval=None, checkpoint_every_batches=5)
    return Deployment(job=job(graph, configuration), make_sink=files(folder))


def row_of_one_of_five(split: int, offset: int) -> Row:
    return Row(split, offset, f"k{offset % 5}", "v", 10 * offset)
