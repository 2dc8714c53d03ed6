"""The jobs that `make bench` and `make soak` run on Spark, as recipes: every process of a run imports this file."""

from __future__ import annotations

from typing import Final

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay
from sinkproof.reference_engine.dataflow.columns import GeneratedColumns
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Vertex, source_to_sink
from sinkproof.reference_engine.dataflow.operators import KeyedCount
from sinkproof.reference_engine.shells.job import Job
from sinkproof.reference_engine.shells.spark.deployment import Deployment
from sinkproof.sink_adapters.files.arrow_format import ARROW
from sinkproof.sink_adapters.files.disk_real import RealDisk
from sinkproof.sink_adapters.files.file_system import Files
from sinkproof.sink_adapters.files.file_transactions import FileTransactions
from sinkproof.sink_adapters.files.row_formats import JSON_LINES
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

FORMS: Final = {"arrow": ARROW, "jsonl": JSON_LINES}
SPLITS: Final = 2
ROWS_WITHOUT_END: Final = 1 << 40  # the job is stopped, it does not come to its end
DEATHS_WITHOUT_END: Final = 1_000_000
FAILURES_TOLERATED: Final = 10
PATIENCE_MS, SETTLE_MS = 5_000, 20_000


def written(
    *, folder: str, form: str, counted: bool, interval_ms: int, batch_rows: int = 10_000, pace_ms: int = 0
) -> Deployment:
    """Two sources, a keyed exchange, two two-phase file sinks; `counted`: each chained behind a keyed count."""
    source = GeneratedColumns(splits=SPLITS, rows_per_split=ROWS_WITHOUT_END, batch_rows=batch_rows)
    FORMS[form].writer().add(source.batch(0, 0))  # makes tables and lazy imports before attempts are forked
    job = Job(
        plan=(counting(source) if counted else source_to_sink(source)).plan(),
        configuration=CheckpointConfiguration(
            checkpoint_interval=interval_ms,
            max_concurrent_checkpoints=2,
            tolerable_checkpoint_failure_number=FAILURES_TOLERATED,
            closing_patience=PATIENCE_MS,
            settle_deadline=SETTLE_MS,
        ),
        restart=lambda: FixedDelay(attempts=DEATHS_WITHOUT_END, delay=0.0),
    )
    return Deployment(
        job=job,
        make_sink=lambda: TwoPhaseCommitSink(FileTransactions(Files(RealDisk(folder)), form=FORMS[form])),
        pace_ms=pace_ms,
    )


def counting(source: GeneratedColumns) -> JobGraph:
    return JobGraph(
        (
            Vertex(name="source", parallelism=SPLITS, source=source),
            Vertex(name="count", parallelism=SPLITS, operator=KeyedCount),
            Vertex(name="sink", parallelism=SPLITS, sink=True),
        ),
        (Edge("source", "count", Exchange.KEYED), Edge("count", "sink", Exchange.FORWARD)),
    )
