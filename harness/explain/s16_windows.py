"""S16: rows out of order into tumbling windows of event time; open ones in the snapshot, results exactly once."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

from sinkproof.execution.recorded_job import Run, play
from sinkproof.explain.demonstration import Scene, check, fact, rows_named
from sinkproof.explain.small_jobs import Transactional
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.dataflow.event_time import Watermarks
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Plan, Vertex
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.reference_engine.dataflow.windows import TumblingWindows, expected_results
from sinkproof.sink_adapters.protocol import Row

LESSON: Final = (
    "a watermark travels among the rows and says that none older will come; only then is a window fired, once. Windows "
    "that are open are state, windows that were fired are output, and a checkpoint holds the two apart."
)
SIZE_MS: Final = 30
TIMES: Final = (10, 0, 40, 20, 30, 50, 70, 60)  # of the rows of each split: each at most 20 ms out of order
DISORDER_MS: Final = 20
CRASH: Final = "sink[0].notify_complete.after#2=kill-job"


def _row(split: int, offset: int) -> Row:
    return Row(split, offset, "ab"[(split + offset) % 2], f"v{split}.{offset}", TIMES[offset])


SOURCE: Final = GeneratedInput(_row, splits=2, rows_per_split=len(TIMES), batch_rows=1)
EVERY_ROW: Final = [_row(split, at) for split in range(2) for at in range(len(TIMES))]


def scenes() -> tuple[Scene, ...]:
    return (_fired(), _crashed(), _late())


def _plan(disorder_ms: int) -> Plan:
    vertices = (
        Vertex(name="source", parallelism=2, source=SOURCE, watermarks=Watermarks(out_of_order_ms=disorder_ms)),
        Vertex(name="window", operator=lambda: TumblingWindows(SIZE_MS)),
        Vertex(name="sink", sink=True),
    )
    edges = Edge("source", "window", Exchange.KEYED), Edge("window", "sink")
    return JobGraph(vertices, edges).plan(chaining=False)


def _run(*, schedule: str = "no-fault", disorder_ms: int = DISORDER_MS) -> tuple[Run, Transactional]:
    target = Transactional()
    run = play(_plan(disorder_ms), target.sink, read=target.read, schedule=schedule, checkpoint_interval=9)
    return run, target


def _shown(rows: list[Row]) -> list[str]:
    """`a [0,30): 3 rows`, with the fold of their identities left out."""
    results = sorted((json.loads(row.value)["window"], row.key, json.loads(row.value)["count"]) for row in rows)
    return [f"{key} [{start},{end}): {count}" for (start, end), key, count in results]


def _open_windows(record: CheckpointRecord) -> list[str]:
    groups = [json.loads(state) for of in record.states.values() for state in of.get("window", {}).values()]
    return sorted(
        f"{key} [{start},{start + SIZE_MS}): {count}" for of in groups for key, start, count, _ in of["windows"]
    )


def _fired() -> Scene:
    run, target = _run()
    fired = [each.at_ms for each in run.of("sends", actor="window")]
    watermarks = [float(each.detail[1]) for each in run.of("watermark", actor="window")]
    first = run.of("sends", actor="window")[0]
    end = json.loads(first.detail[1][0].value)["window"][1]
    passed_on = [each for each in run.of("watermark", actor="window") if each.at_ms <= first.at_ms]
    before = float(passed_on[-1].detail[1])
    return Scene(
        title="A window is one row, when the watermark has passed its end",
        ran=f"2 sources -> tumbling windows of {SIZE_MS} ms by key -> two-phase sink, event times {TIMES} in each "
        "split",
        steps=run.steps("watermark", "sends", actors=("source", "window"), until=first.at_ms),
        facts=(
            fact(
                f"the first result came at {first.at_ms:g} ms, when the watermark had reached {before:g}: its window "
                f"ends at {end}",
                [first.at_ms, before, end],
            ),
            fact(f"watermarks that the windows passed on: {', '.join(f'{one:g}' for one in watermarks)}", watermarks),
            fact(f"results: {'; '.join(_shown(target.rows))}", _shown(target.rows)),
        ),
        outcome=f"{len(EVERY_ROW)} rows, out of order, became {len(target.rows)} results, in {len(fired)} goes",
        checks=(
            check(
                "each window once and whole",
                Counter(expected_results(EVERY_ROW, size_ms=SIZE_MS)).total(),
                len(target.rows),
            ),
            check(
                "with exactly the rows that belong to it",
                expected_results(EVERY_ROW, size_ms=SIZE_MS),
                sorted(target.rows),
            ),
            check("none before the watermark has passed its end", True, before >= end - 1),
            check("watermarks never go back", sorted(watermarks), watermarks),
        ),
    )


def _crashed() -> Scene:
    run, target = _run(schedule=CRASH)
    crash = run.of("fault")[0].at_ms
    last = max(each.detail for each in run.of("complete") if each.at_ms <= crash)
    record = next(one for one in run.stage.decided if one.checkpoint_id == last)
    held, offsets = _open_windows(record), run.simulation.covered(record)
    again: list[Any] = [
        row[:2] for each in run.of("sends", actor="source") if each.generation == 2 for row in each.detail[1]
    ]
    return Scene(
        title="A crash with windows open",
        ran=f"the same job, {CRASH}",
        steps=run.steps("complete", "generation", "restored", since=crash - 8, until=crash + 14),
        facts=(
            fact(f"checkpoint {last}: offsets {offsets}, open windows {'; '.join(held)}", held),
            fact(f"read again: {rows_named(sorted(again))}", sorted(again)),
        ),
        outcome=f"the open windows went on where they were: {'; '.join(_shown(target.rows))}",
        checks=(
            check("windows were open", True, bool(held)),
            check("what the offsets cover is not read again", [], [row for row in again if row[1] < offsets[row[0]]]),
            check(
                "each window once, with exactly its rows",
                expected_results(EVERY_ROW, size_ms=SIZE_MS),
                sorted(target.rows),
            ),
        ),
    )


def _late() -> Scene:
    """The source promises more order than there is: watermarks run ahead of rows."""
    run, target = _run(disorder_ms=0)
    record = run.stage.decided[-1]
    groups = [json.loads(state) for of in record.states.values() for state in of.get("window", {}).values()]
    late = sum(of["late"] for of in groups)
    counted = sum(json.loads(row.value)["count"] for row in target.rows)
    return Scene(
        title="Watermarks that promise too much: late rows are dropped, and counted",
        ran=f"the same job without a crash, out_of_order_ms=0 instead of {DISORDER_MS}",
        facts=(fact(f"late in the state of the final checkpoint: {late}", late),),
        outcome=f"{counted} of {len(EVERY_ROW)} rows are in the results: {'; '.join(_shown(target.rows))}",
        checks=(
            check("some rows are late", True, late > 0),
            check("every row is counted or late, none both", len(EVERY_ROW), counted + late),
        ),
    )
