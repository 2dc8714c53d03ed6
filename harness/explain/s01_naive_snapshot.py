"""S01: a source with an offset and two running sums, snapshotted without and with barriers, on the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sinkproof.explain.demonstration import Scene
from sinkproof.explain.models.naive_snapshots import (
    NUMBERS,
    SnapshotTrial,
    at_a_tick,
    on_their_own,
    undisturbed,
    with_barriers,
)
from sinkproof.explain.small_jobs import linear, run_job
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.reference_engine.dataflow.job_graph import Vertex
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.sink_adapters.protocol import Batch, Row

LESSON: Final = (
    "three states that are right at three different moments are no state of the job. A clock tick does not make the "
    "moments one, because a message may be late or an operator paused; a barrier that travels among the rows does."
)
SOURCE: Final = GeneratedInput(
    lambda split, at: Row(0, at, "k", str(NUMBERS[at])), splits=1, rows_per_split=len(NUMBERS), batch_rows=1
)


class RunningSum:
    """An operator: the value of each row becomes the sum of all values so far."""

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
            "each is snapshotted when the broadcast reaches it, which is one tick late for the first sum",
            at_a_tick(delayed={"first": 1}),
        ),
        _naive(
            "At a master's clock tick, one node paused: wrong",
            "each is snapshotted when the broadcast reaches it; the second sum was paused for one tick",
            at_a_tick(paused={"second": 1}),
        ),
        _naive("At a master's clock tick, no delay and no pause: right, by luck", "as before", at_a_tick(), right=True),
        _naive(
            "With barriers, one node paused: right",
            "each is snapshotted when the barrier reaches it; the first sum is paused for two ticks",
            with_barriers(paused={"first": 2}),
            right=True,
        ),
        _in_the_engine(),
    )


def _naive(title: str, ran: str, trial: SnapshotTrial, *, right: bool = False) -> Scene:
    """All operators crash right after the snapshot, are restored from it, and read on."""
    wrong = [f"row {row}={trial.results[row]}, expected {trial.expected[row]}" for row in trial.wrong]
    lost = [f"the result of row {row} is lost" for row in trial.lost]
    source, *others = trial.taken_after.values()
    scene = Scene(title)
    scene.ran = f"source -> sum -> sum of sums over {', '.join(map(str, NUMBERS))}; {ran}"
    scene.fact(f"rows processed before its snapshot: {_named(trial.taken_after)}", trial.taken_after)
    scene.fact(f"snapshot: {_named(trial.snapshot)}", {name: str(state) for name, state in trial.snapshot.items()})
    scene.fact(f"results: {_named(trial.results)}; right: {_named(trial.expected)}", trial.results)
    scene.check(
        f"the states belong to {'one moment' if right else 'different moments'}",
        right,
        all(had == source for had in others),
    )
    scene.check(f"the results are {'right' if right else 'lost or wrong'}", right, trial.right)
    return scene.finish("; ".join(lost + wrong) or "every result is right")


def _named(values: Mapping[Any, Any]) -> str:
    return ", ".join(f"{name if isinstance(name, str) else f'row {name}'}={value}" for name, value in values.items())


def _in_the_engine() -> Scene:
    graph = linear(
        Vertex(name="source", source=SOURCE),
        Vertex(name="first", operator=RunningSum),
        Vertex(name="second", operator=RunningSum),
        Vertex(name="sink", sink=True),
    )
    run = run_job(plan=graph.plan(chaining=False), schedule="checkpoint.notify#1=kill-job")
    states, offset = run.seen.decided[0].states, run.simulation.covered(run.seen.decided[0])[0]
    totals = [json.loads(states[f"{name}[0]"][name][0]) for name in ("first", "second")]
    truth = [RunningSum(), RunningSum()]
    for at in range(offset):
        truth[1].apply(truth[0].apply(SOURCE.batch(0, at)))
    results = {row.offset + 1: int(row.value) for row in run.rows}
    scene = Scene("The same operators and rows in the engine: right")
    scene.ran = f"the same job with a two-phase sink, nothing chained, {run.schedule}"
    scene.steps = timeline(run, "snapshot", *RECOVERY, until=run.crash_ms + 9)
    scene.fact(f"snapshot: offset={offset}, sums={totals}", [offset, *totals])
    scene.fact(f"results: {_named(results)}; right: {_named(undisturbed())}", results)
    scene.check("the states belong to the offset", [one.total for one in truth], totals)
    scene.check("the job crashed once", 2, run.generations)
    scene.check("every result is right", undisturbed(), results)
    return scene.finish(f"generation {run.generations} delivers the remaining rows: {len(results)} results")
