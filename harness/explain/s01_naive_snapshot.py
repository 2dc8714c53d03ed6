"""S01: a source with an offset and two running sums, snapshotted without barriers, and with them, on the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sinkproof.execution.recorded_job import play
from sinkproof.explain.demonstration import Scene, check, fact
from sinkproof.explain.models.naive_snapshots import (
    NUMBERS,
    Story,
    at_a_tick,
    on_their_own,
    undisturbed,
    with_barriers,
)
from sinkproof.explain.small_jobs import Transactional
from sinkproof.reference_engine.dataflow.job_graph import Edge, JobGraph, Vertex
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.sink_adapters.protocol import Batch, Row

LESSON: Final = (
    "three right states of three different moments are no state of the job. A clock does not make the moments one, "
    "because somebody may be late when it ticks; a barrier that travels among the rows does."
)
SOURCE: Final = GeneratedInput(
    lambda split, at: Row(0, at, "k", str(NUMBERS[at])), splits=1, rows_per_split=len(NUMBERS), batch_rows=1
)


class RunningSum:
    """An operator: each row to one whose value is the sum of all so far."""

    def __init__(self) -> None:
        self.total = 0

    def apply(self, batch: Batch) -> Batch:
        return Batch(map(self._add, batch.rows))

    def _add(self, row: Row) -> Row:
        self.total += int(row.value)
        return row._replace(value=str(self.total))

    def capture(self) -> Mapping[int, bytes]:
        return {0: json.dumps(self.total).encode()}

    def restore(self, groups: Iterable[tuple[int, bytes]]) -> None:
        for _, state in groups:
            self.total = json.loads(state)


def scenes() -> tuple[Scene, ...]:
    return (
        _naive("Each operator on its own: wrong", "each is snapshotted after some rows", on_their_own()),
        _naive(
            "At a master's clock tick, one message delayed: wrong",
            "all are snapshotted when the broadcast reaches them, which is one tick late for the first sum",
            at_a_tick(delayed={"first": 1}),
        ),
        _naive(
            "At a master's clock tick, one node paused: wrong",
            "all are snapshotted when the broadcast comes; the second sum has stood still for a tick",
            at_a_tick(paused={"second": 1}),
        ),
        _naive(
            "At the tick, nobody late, nobody paused: right, by luck",
            "as before, and all goes well",
            at_a_tick(),
            right=True,
        ),
        _naive(
            "With barriers, one node paused: right",
            "each is snapshotted when the barrier reaches it; the first sum stands still for two ticks",
            with_barriers(paused={"first": 2}),
            right=True,
        ),
        _in_the_engine(),
    )


def _naive(title: str, ran: str, story: Story, *, right: bool = False) -> Scene:
    """Everybody dies right after the snapshot, is restored from it, and reads on."""
    wrong = [f"row {row}={story.results[row]}, expected {story.expected[row]}" for row in story.wrong]
    lost = [f"the result of row {row} is lost" for row in story.lost]
    source, *others = story.taken_after.values()
    return Scene(
        title=title,
        ran=f"source -> sum -> sum of sums over {', '.join(map(str, NUMBERS))}; {ran}",
        facts=(
            fact(f"rows that each had had: {_said(story.taken_after)}", story.taken_after),
            fact(f"snapshot: {_said(story.snapshot)}", {name: str(state) for name, state in story.snapshot.items()}),
            fact(f"results: {_said(story.results)}; right: {_said(story.expected)}", story.results),
        ),
        outcome="; ".join(lost + wrong) or "every result is right",
        checks=(
            check(
                "the states belong to one moment" if right else "the states belong to different moments",
                right,
                all(had == source for had in others),
            ),
            check("the results are right" if right else "results are lost or wrong", right, story.right),
        ),
    )


def _said(values: Mapping[Any, Any]) -> str:
    return ", ".join(f"{name if isinstance(name, str) else f'row {name}'}={value}" for name, value in values.items())


def _in_the_engine() -> Scene:
    vertices = (
        Vertex(name="source", source=SOURCE),
        Vertex(name="first", operator=RunningSum),
        Vertex(name="second", operator=RunningSum),
        Vertex(name="sink", sink=True),
    )
    edges = Edge("source", "first"), Edge("first", "second"), Edge("second", "sink")
    target = Transactional()
    run = play(
        JobGraph(vertices, edges).plan(chaining=False),
        target.sink,
        read=target.read,
        schedule="checkpoint.notify#1=kill-job",
    )
    states, offset = run.stage.decided[0].states, run.simulation.covered(run.stage.decided[0])[0]
    totals = [json.loads(states[f"{name}[0]"][name][0]) for name in ("first", "second")]
    truth = [RunningSum(), RunningSum()]
    for at in range(offset):
        truth[1].apply(truth[0].apply(SOURCE.batch(0, at)))
    results = {row.offset + 1: int(row.value) for row in target.rows}
    return Scene(
        title="The same operators and rows in the engine: right",
        ran=f"the same job with a two-phase sink, nothing chained, {run.schedule}",
        steps=run.steps("snapshot", "complete", "generation", "restored", until=run.of("fault")[0].at_ms + 9),
        facts=(
            fact(f"snapshot: offset={offset}, sums={totals}", [offset, *totals]),
            fact(f"results: {_said(results)}; right: {_said(undisturbed())}", results),
        ),
        outcome=f"generation {run.generations} delivers the rest: {len(results)} results",
        checks=(
            check("the states belong to the offset", [one.total for one in truth], totals),
            check("it did crash", 2, run.generations),
            check("every result is right", undisturbed(), results),
        ),
    )
