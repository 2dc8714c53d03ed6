"""The job of `sinkproof run count` as a recipe: every process of a run makes its part of the job from it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration
from sinkproof.reference_engine.checkpointing.restart_strategy import FailureRate
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Vertex
from sinkproof.reference_engine.dataflow.operators import KeyedCount
from sinkproof.reference_engine.dataflow.replayable_sources import Input
from sinkproof.reference_engine.shells.job import Job
from sinkproof.reference_engine.shells.spark.deployment import Deployment
from sinkproof.sink_adapters.files.file_transactions import ROLL_BYTES
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

COUNT: Final = "sinkproof.pipeline.file_recipes:count"
NAME: Final = "pipeline"
RETAINED: Final = 2  # if the last checkpoint cannot be read any more, the job need not start from the beginning
CLOSING_MS: Final = 10_000  # a sink may have many files to commit at the end; a restart would not make it faster
SETTLE_MS: Final = 60_000
CHECKPOINTS_TOLERATED: Final = 10  # a full disk may be freed in time; then the job fails
FAILURES_MOST: Final = (
    30  # within RATE_MS. A restart takes 0.1 s: more frequent failures have a cause that no restart removes
)
RATE_MS: Final = 60_000.0
DELAY_MS: Final = 10.0


def count_graph(source: Input, parallelism: int) -> JobGraph:
    """Rows are sent to the subtask that owns their key, which counts them and writes them to its sink."""
    return JobGraph(
        (
            Vertex(name="source", parallelism=min(parallelism, source.splits), source=source),
            Vertex(name="count", parallelism=parallelism, operator=KeyedCount),
            Vertex(name="sink", parallelism=parallelism, sink=True),
        ),
        (Edge("source", "count", Exchange.KEYED), Edge("count", "sink", Exchange.FORWARD)),
    )


def count(*, source: Input, sink: str, folder: str, parallelism: int, interval_ms: int, pace_ms: int = 0) -> Deployment:
    """`sink`: a pair of the registry, which writes to `folder`."""
    contract = load(sink)
    scratch = Scratch(name=NAME, path=Path(folder), shell="spark", settings={"roll_bytes": ROLL_BYTES})
    job = job_of(count_graph(source, parallelism), interval_ms=interval_ms)
    return Deployment(job=job, make_sink=lambda: contract.sink(scratch), pace_ms=pace_ms)


def job_of(graph: JobGraph, *, interval_ms: int) -> Job:
    """A job with the configuration of every pipeline."""
    return Job(
        plan=graph.plan(),
        configuration=CheckpointConfiguration(
            checkpoint_interval=interval_ms,
            checkpoints_retained=RETAINED,
            tolerable_checkpoint_failure_number=CHECKPOINTS_TOLERATED,
            closing_patience=CLOSING_MS,
            settle_deadline=SETTLE_MS,
        ),
        restart=partial(FailureRate, failures=FAILURES_MOST, interval=RATE_MS, delay=DELAY_MS),
    )
