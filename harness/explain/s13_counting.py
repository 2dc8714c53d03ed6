"""S13: the two examples that every text begins with, on the embedded source and sink."""

from __future__ import annotations

import json
from typing import Final

from sinkproof.execution.recorded_job import letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, counts_named, fact, row_name, rows_named
from sinkproof.explain.models.simulated_broker import Broker
from sinkproof.explain.s23_kafka_transactions import ProducerEach
from sinkproof.explain.small_jobs import Transactional, counting_plan, greatest_values, true_counts
from sinkproof.reference_engine.dataflow.job_graph import Edge, JobGraph, Plan, Vertex
from sinkproof.reference_engine.dataflow.operators import Map
from sinkproof.reference_engine.dataflow.replayable_sources import decode_offsets
from sinkproof.reference_engine.shells.virtual_timing import Timing
from sinkproof.sink_adapters.protocol import Row
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

LESSON: Final = (
    "offset and count are taken at the same barrier: whoever restores both neither skips the third row nor counts the "
    "first two again. Kafka at both ends changes where rows come from and go to, not this (see S17 and S23)."
)
ONE_KEY: Final = letters("aaaa", splits=1)
ETL: Final = letters("aebg|gabe")


def scenes() -> tuple[Scene, ...]:
    return (_counting(), _etl())


def _counting() -> Scene:
    """One source, one count. After two rows there is a checkpoint; then everybody dies."""
    target = Transactional()
    run = play(
        counting_plan(ONE_KEY, sources=1),
        target.sink,
        read=target.read,
        schedule="sink[0].write.after#3=kill-job",
        timing=Timing(pace=20),  # so that checkpoint 1 is complete before the third row is read
    )
    record = run.simulation.storage.latest()
    first = run.stage.decided[0]
    offset = dict(decode_offsets(first.states["source[0]"]["source"]))[0]
    count = next(n for group in first.states["sink[0]"]["count"].values() for n in json.loads(group).values())
    again = [row for each in run.of("sends", actor="source") if each.generation == 2 for row in each.detail[1]]
    written_before = run.rows_written(generation=1)
    counts = greatest_values(target.rows)
    return Scene(
        title="Count rows; crash after the third",
        ran=f"1 source -> count -> two-phase sink, {ONE_KEY.length(0)} rows, a checkpoint every 2, {run.schedule}",
        steps=run.steps("sends", "snapshot", "complete", "generation", "restored", "writes"),
        facts=(
            fact(f"checkpoint {first.checkpoint_id}: offset={offset}, count={count}", [offset, count]),
            fact(f"written when everybody died: {rows_named(written_before)}", written_before),
        ),
        outcome=f"generation 2 goes on with row {row_name(again[0])} and counts it as {count + 1}; in the end "
        f"{counts_named(counts)}",
        checks=(
            check("after two rows the snapshot holds offset=2 and count=2", [2, 2], [offset, count]),
            check("the third row had been read before the crash", True, (0, 2) in written_before),
            check("the third row is the first that is read again", (0, 2), again[0][:2]),
            check("the count is right in the end", true_counts(ONE_KEY), counts),
            check("every row is delivered once", ([], []), once_each(ONE_KEY, run.visible)),
            check("the last checkpoint is final", True, bool(record and record.final)),
        ),
    )


def _etl_plan() -> Plan:
    vertices = (
        Vertex(name="source", parallelism=2, source=ETL),
        Vertex(name="transform", parallelism=2, operator=lambda: Map(_transformed)),
        Vertex(name="sink", parallelism=2, sink=True),
    )
    return JobGraph(vertices, (Edge("source", "transform"), Edge("transform", "sink"))).plan(chaining=False)


def _transformed(row: Row) -> Row:
    return row._replace(value=row.value.upper())


def _etl() -> Scene:
    """One job into two sinks of the same strategy: a store in memory, and a simulated broker."""
    target, broker = Transactional(), Broker(partitions=2)
    schedule = "sink[1].pre_commit.after#2=kill"
    run = play(_etl_plan(), target.sink, read=target.read, schedule=schedule)
    to_kafka = play(_etl_plan(), lambda: TwoPhaseCommitSink(ProducerEach(broker)), read=broker.read, schedule=schedule)
    values = {row.value for row in target.rows}
    right = {f"V{split}.{at}" for split in range(2) for at in range(ETL.length(split))}
    parts = {each.actor: sorted({row[0] for row in each.detail}) for each in run.of("writes")}
    restored = sorted({each.detail for each in run.of("restored") if each.generation == 2})
    shown = ("snapshot", "complete", "generation", "restored")
    return Scene(
        title="Extract, transform, load with parallelism 2, forward",
        ran=f"source x2 -> transform x2 -> sink x2, subtask i to subtask i, {schedule}; into memory, and into a "
        "simulation of a Kafka broker (S23)",
        steps=run.steps(*shown, points=["commit.after"], actors=("coordinator", "sink"), until=60),
        facts=(
            fact(f"splits that each sink was given: {parts}", parts),
            fact(f"a reader of the broker's committed rows gets {rows_named(to_kafka.visible)}", to_kafka.visible),
        ),
        outcome=f"after a kill between pre-commit and vote, and a restore from checkpoint {restored}, "
        f"{len(run.visible)} transformed rows are there, each once",
        checks=(
            check("forward: each sink has one split", {"sink[0]": [0], "sink[1]": [1]}, parts),
            check("every row is transformed", right, values),
            check("every row is delivered once", ([], []), once_each(ETL, run.visible)),
            check("also to the broker", ([], []), once_each(ETL, to_kafka.visible)),
            check("both did crash", [2, 2], [run.generations, to_kafka.generations]),
        ),
    )
