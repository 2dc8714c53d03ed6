"""S02: the rows and barriers of every channel, and the rows that each checkpoint covers."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from sinkproof.execution.recorded_job import Identity, RecordedRun
from sinkproof.explain.demonstration import Scene, row_name, rows_named
from sinkproof.explain.small_jobs import run_job
from sinkproof.explain.timeline import timeline

LESSON: Final = (
    "a source records its offset and sends the barrier down every channel behind the rows that this offset covers; so "
    "checkpoint n means the same rows in every subtask, although no subtask stops and no clock is shared."
)
INTERVAL_MS: Final = 8
Items = list[Identity | int]  # of a channel, in order: rows, and the ids of its barriers


def scenes() -> tuple[Scene, ...]:
    run = run_job(checkpoint_interval=INTERVAL_MS)
    carried = _carried(run)
    ids = [record.checkpoint_id for record in run.seen.decided]
    covered = {one: run.covered(one) for one in ids}
    before_snapshot = {one: sorted(run.rows_written(before_snapshot=one)) for one in ids}
    barriers = {channel: [item for item in items if isinstance(item, int)] for channel, items in carried.items()}
    triggered = [each.at_ms for each in run.of("trigger")]
    gaps = [later - earlier for earlier, later in pairwise(triggered[:-1])]  # the end of the input triggers the last
    scene = Scene("Two sources, two sinks, a barrier every few milliseconds")
    scene.ran = f"source x2 -> sink x2 by key, two-phase into memory, checkpoint_interval={INTERVAL_MS}"
    scene.steps = timeline(run, "trigger", "forwards", "snapshot", "complete", until=triggered[1])
    for channel, items in carried.items():
        scene.fact(f"{channel}: {_named(items)}", list(map(str, items)))
    for one, rows in covered.items():
        scene.fact(f"checkpoint {one} covers offsets {run.offsets(one)}: {rows_named(rows)}", rows)
    scene.check(
        "every channel carries the barrier of every checkpoint, ids growing", dict.fromkeys(carried, ids), barriers
    )
    scene.check(
        "the rows before barrier n on the channels are the rows that the offsets in n cover",
        covered,
        {one: sorted(_rows_before(carried, one)) for one in ids},
    )
    scene.check("so are the rows written to the sinks before snapshot n", covered, before_snapshot)
    scene.check("the coordinator triggers at the interval", [float(INTERVAL_MS)] * len(gaps), list(map(float, gaps)))
    finished = scene.finish(
        f"{len(ids)} checkpoints cut {len(carried)} channels into the same epochs; the offsets of each cover "
        f"{', '.join(str(len(rows)) for rows in covered.values())} rows"
    )
    return (finished,)


def _carried(run: RecordedRun) -> dict[str, Items]:
    """`sender -> receiver` -> what the channel carried."""
    carried: dict[str, Items] = {}
    for each in run.of("sends", "forwards"):
        to, payload = each.detail
        items: Items = [payload] if each.kind == "forwards" else [row[:2] for row in payload]
        carried.setdefault(f"{each.actor} -> {to}", []).extend(items)
    return dict(sorted(carried.items()))


def _rows_before(carried: dict[str, Items], checkpoint_id: int) -> list[Identity]:
    rows: list[Identity] = []
    for items in carried.values():
        end = items.index(checkpoint_id) if checkpoint_id in items else 0
        rows += [item for item in items[:end] if not isinstance(item, int)]
    return rows


def _named(items: Items) -> str:
    return " ".join(f"|{item}|" if isinstance(item, int) else row_name(item) for item in items)
