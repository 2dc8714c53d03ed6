"""S13: the count example and the ETL example, on the embedded source and sink."""

from __future__ import annotations

import json
from typing import Final

from sinkproof.execution.recorded_job import letters, record_job
from sinkproof.explain.demonstration import Scene, counts_named, row_name, rows_named
from sinkproof.explain.models.broker_transactions import ProducerPerTransaction
from sinkproof.explain.models.simulated_broker import Broker
from sinkproof.explain.small_jobs import counting, linear, run_job
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.reference_engine.dataflow.job_graph import Vertex
from sinkproof.reference_engine.dataflow.operators import Map
from sinkproof.reference_engine.dataflow.replayable_sources import decode_offsets
from sinkproof.reference_engine.shells.virtual_timing import Timing
from sinkproof.sink_adapters.protocol import Row
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

LESSON: Final = (
    "offset and count are captured at the same barrier: a restore of both neither skips the third row nor counts the "
    "first two again. Kafka at both ends changes the source and the target of the rows, not this (see S17 and S23)."
)
ONE_KEY: Final = letters("aaaa", splits=1)
ETL: Final = letters("aebg|gabe")


def scenes() -> tuple[Scene, ...]:
    return (_counting(), _etl())


def _counting() -> Scene:
    """One source, one count. After two rows there is a checkpoint; then the whole job is killed."""
    run = run_job(
        plan=counting(ONE_KEY, sources=1).plan(),
        schedule="sink[0].write.after#3=kill-job",
        timing=Timing(pace=20),  # so that checkpoint 1 is complete before the third row is read
    )
    latest = run.simulation.storage.latest()
    first = run.seen.decided[0]
    offset = dict(decode_offsets(first.states["source[0]"]["source"]))[0]
    count = next(n for group in first.states["sink[0]"]["count"].values() for n in json.loads(group).values())
    resumed = run.rows_read(generation=2)[0]
    written = run.rows_written(generation=1)
    scene = Scene("Count rows; crash after the third")
    scene.ran = f"1 source -> count -> two-phase sink, {ONE_KEY.length(0)} rows, a checkpoint every 2, {run.schedule}"
    scene.steps = timeline(run, "sends", "snapshot", *RECOVERY, "writes")
    scene.fact(f"checkpoint {first.checkpoint_id}: offset={offset}, count={count}", [offset, count])
    scene.fact(f"written before the crash: {rows_named(written)}", written)
    scene.check("after two rows the snapshot holds offset=2 and count=2", [2, 2], [offset, count])
    scene.check("the third row had been read before the crash", True, (0, 2) in written)
    scene.check("the third row is the first that is read again", (0, 2), resumed)
    scene.check("the count is right in the end", run.right_counts, run.counts)
    scene.check_each_row_once(run)
    scene.check("the last checkpoint is final", True, bool(latest and latest.final))
    return scene.finish(
        f"generation 2 resumes at row {row_name(resumed)} and counts it as {count + 1}; in the end "
        f"{counts_named(run.counts)}"
    )


def _transformed(row: Row) -> Row:
    return row._replace(value=row.value.upper())


def _etl() -> Scene:
    """One job into two targets by the same strategy: a store in memory, and a simulated broker."""
    plan = linear(
        Vertex(name="source", parallelism=2, source=ETL),
        Vertex(name="transform", parallelism=2, operator=lambda: Map(_transformed)),
        Vertex(name="sink", parallelism=2, sink=True),
    ).plan(chaining=False)
    schedule = "sink[1].pre_commit.after#2=kill"
    run = run_job(plan=plan, schedule=schedule)
    broker = Broker(partitions=2)
    to_kafka = record_job(
        plan, lambda: TwoPhaseCommitSink(ProducerPerTransaction(broker)), read=broker.read, schedule=schedule
    )
    splits = {each.actor: sorted({row[0] for row in each.detail}) for each in run.of("writes")}
    scene = Scene("Extract, transform, load with parallelism 2, forward")
    scene.ran = (
        f"source x2 -> transform x2 -> sink x2, subtask i to subtask i, {schedule}; into memory, and into a "
        "simulation of a Kafka broker (S23)"
    )
    scene.steps = timeline(
        run, "snapshot", *RECOVERY, points=["commit.after"], actors=("coordinator", "sink"), until=60
    )
    scene.fact(f"splits of the rows that each sink writes: {splits}", splits)
    scene.fact(f"a reader of the broker's committed rows gets {rows_named(to_kafka.visible)}", to_kafka.visible)
    scene.check("forward: each sink has one split", {"sink[0]": [0], "sink[1]": [1]}, splits)
    scene.check(
        "every row is transformed",
        {f"V{split}.{at}" for split in range(2) for at in range(ETL.length(split))},
        {row.value for row in run.rows},
    )
    scene.check_each_row_once(run)
    scene.check("nor in the broker", ([], []), to_kafka.lost_and_repeated)
    scene.check("both runs crashed", [2, 2], [run.generations, to_kafka.generations])
    return scene.finish(
        f"after a kill between pre-commit and vote, and a restore from checkpoint {run.restored_from()[0]}, "
        f"{len(run.visible)} transformed rows are visible, each once"
    )
