"""S16: rows out of order into tumbling windows of event time; open windows in the snapshot, results exactly once."""

from __future__ import annotations

import json
from typing import Any, Final

from sinkproof.explain.demonstration import Scene, rows_named
from sinkproof.explain.small_jobs import DeliveredRun, linear, run_job
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.dataflow.event_time import Watermarks
from sinkproof.reference_engine.dataflow.job_graph import Exchange, Vertex
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.reference_engine.dataflow.windows import TumblingWindows, expected_results
from sinkproof.sink_adapters.protocol import Row

LESSON: Final = (
    "a watermark travels among the rows and says that no older row will follow; only then is a window fired, once. "
    "Open windows are state, fired windows are output, and a checkpoint separates the two."
)
SIZE_MS: Final = 30
TIMES: Final = (10, 0, 40, 20, 30, 50, 70, 60)  # of the rows of each split: each at most 20 ms out of order
DISORDER_MS: Final = 20
CRASH: Final = "sink[0].notify_complete.after#2=kill-job"


def _row(split: int, offset: int) -> Row:
    return Row(split, offset, "ab"[(split + offset) % 2], f"v{split}.{offset}", TIMES[offset])


SOURCE: Final = GeneratedInput(_row, splits=2, rows_per_split=len(TIMES), batch_rows=1)
EVERY_ROW: Final = [_row(split, at) for split in range(2) for at in range(len(TIMES))]
EXPECTED: Final = expected_results(EVERY_ROW, size_ms=SIZE_MS)


def scenes() -> tuple[Scene, ...]:
    return (_fired(), _crashed(), _late())


def _run(*, schedule: str = "no-fault", disorder_ms: int = DISORDER_MS) -> DeliveredRun:
    graph = linear(
        Vertex(name="source", parallelism=2, source=SOURCE, watermarks=Watermarks(out_of_order_ms=disorder_ms)),
        Vertex(name="window", operator=lambda: TumblingWindows(SIZE_MS)),
        Vertex(name="sink", sink=True),
        first=Exchange.KEYED,
    )
    return run_job(plan=graph.plan(chaining=False), schedule=schedule, checkpoint_interval=9)


def _results(rows: list[Row]) -> list[str]:
    """`a [0,30): 3`: key, window and rows in it."""
    results = sorted((json.loads(row.value)["window"], row.key, json.loads(row.value)["count"]) for row in rows)
    return [f"{key} [{start},{end}): {count}" for (start, end), key, count in results]


def _window_states(record: CheckpointRecord) -> list[dict[str, Any]]:
    return [json.loads(state) for of in record.states.values() for state in of.get("window", {}).values()]


def _fired() -> Scene:
    run = _run()
    fired, passed_on = run.of("sends", actor="window"), run.of("watermark", actor="window")
    first, watermarks = fired[0], [float(each.detail[1]) for each in passed_on]
    end = json.loads(first.detail[1][0].value)["window"][1]
    before = [float(each.detail[1]) for each in passed_on if each.at_ms <= first.at_ms][-1]
    results = _results(run.rows)
    scene = Scene("A window is one row, when the watermark has passed its end")
    scene.ran = (
        f"2 sources -> tumbling windows of {SIZE_MS} ms by key -> two-phase sink, event times {TIMES} in each split"
    )
    scene.steps = timeline(run, "watermark", "sends", actors=("source", "window"), until=first.at_ms)
    scene.fact(
        f"the first result came at {first.at_ms:g} ms, when the watermark had reached {before:g}: its window "
        f"ends at {end}",
        [first.at_ms, before, end],
    )
    scene.fact(f"watermarks that the window operator sends: {', '.join(f'{one:g}' for one in watermarks)}", watermarks)
    scene.fact(f"results: {'; '.join(results)}", results)
    scene.check("each window once", len(EXPECTED), len(results))
    scene.check("each window with exactly its rows", EXPECTED, sorted(run.rows))
    scene.check("none before the watermark has passed its end", True, before >= end - 1)
    scene.check("watermarks never decrease", sorted(watermarks), watermarks)
    return scene.finish(f"{len(EVERY_ROW)} rows, out of order, became {len(results)} results, in {len(fired)} batches")


def _crashed() -> Scene:
    run = _run(schedule=CRASH)
    last = max(run.complete_at_crash)
    offsets, again = run.offsets(last), run.rows_read(generation=2)
    held = sorted(
        f"{key} [{start},{start + SIZE_MS}): {count}"
        for state in _window_states(run.record(last))
        for key, start, count, _ in state["windows"]
    )
    scene = Scene("A crash with windows open")
    scene.ran = f"the same job, {CRASH}"
    scene.steps = timeline(run, *RECOVERY, around_crash=(8, 14))
    scene.fact(f"checkpoint {last}: offsets {offsets}, open windows {'; '.join(held)}", held)
    scene.fact(f"read again: {rows_named(sorted(again))}", sorted(again))
    scene.check("windows were open", True, bool(held))
    scene.check("rows that the offsets cover are not read again", [], [r for r in again if r[1] < offsets[r[0]]])
    scene.check("each window once, with exactly its rows", EXPECTED, sorted(run.rows))
    return scene.finish(f"the open windows were restored: {'; '.join(_results(run.rows))}")


def _late() -> Scene:
    """The source promises more order than there is: watermarks are ahead of rows."""
    run = _run(disorder_ms=0)
    late = sum(state["late"] for state in _window_states(run.seen.decided[-1]))
    counted = sum(json.loads(row.value)["count"] for row in run.rows)
    scene = Scene("Watermarks that promise too much: late rows are dropped, and counted")
    scene.ran = f"the same job without a crash, out_of_order_ms=0 instead of {DISORDER_MS}"
    scene.fact(f"late rows in the state of the final checkpoint: {late}", late)
    scene.check("some rows are late", True, late > 0)
    scene.check("every row is either counted or late", len(EVERY_ROW), counted + late)
    return scene.finish(f"{counted} of {len(EVERY_ROW)} rows are in the results: {'; '.join(_results(run.rows))}")
