"""S02: what every channel carries, and what each checkpoint covers."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from sinkproof.execution.recorded_job import Identity, Run, letters, play
from sinkproof.explain.demonstration import Scene, check, fact, row_name, rows_named
from sinkproof.explain.small_jobs import Transactional
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink

LESSON: Final = (
    "a source records its offset and sends the barrier down every channel behind the rows that this offset covers; so "
    "checkpoint n means the same rows to everybody, although nobody stops and no clock is shared."
)
SOURCE: Final = letters("aebgaebg|gabegabe")
INTERVAL_MS: Final = 8
Channel = tuple[str, str]


def scenes() -> tuple[Scene, ...]:
    target = Transactional()
    run = play(
        source_to_sink(SOURCE, sources=2, sinks=2).plan(),
        target.sink,
        read=target.read,
        checkpoint_interval=INTERVAL_MS,
    )
    carried = _carried(run)
    ids = [record.checkpoint_id for record in run.stage.decided]
    covered = {record.checkpoint_id: _covered(run, record.checkpoint_id) for record in run.stage.decided}
    before_barrier = {one: sorted(_rows_before(carried, one)) for one in ids}
    before_snapshot = {one: sorted(run.rows_written(before_snapshot=one)) for one in ids}
    barriers = {channel: [item for item in items if isinstance(item, int)] for channel, items in carried.items()}
    triggered = [each.at_ms for each in run.of("trigger")]
    by_time = [later - earlier for earlier, later in pairwise(triggered[:-1])]  # the last is the final one's
    scene = Scene(
        title="Two sources, two sinks, a barrier every few milliseconds",
        ran=f"source x2 -> sink x2 by key, two-phase into memory, checkpoint_interval={INTERVAL_MS}",
        steps=run.steps("trigger", "forwards", "snapshot", "complete", until=triggered[1]),
        facts=(
            *(fact(_said(channel, items), list(map(str, items))) for channel, items in carried.items()),
            *(
                fact(f"checkpoint {one} covers offsets {_offsets(run, one)}: {rows_named(rows)}", rows)
                for one, rows in covered.items()
            ),
        ),
        outcome=f"{len(ids)} checkpoints cut {len(carried)} channels into the same epochs; the offsets of each cover "
        f"{', '.join(str(len(rows)) for rows in covered.values())} rows",
        checks=(
            check(
                "every channel carries the barrier of every checkpoint, ids growing",
                dict.fromkeys(map(" -> ".join, carried), ids),
                {" -> ".join(channel): of for channel, of in barriers.items()},
            ),
            check(
                "rows before barrier n on the channels are the rows that the offsets in n cover",
                covered,
                before_barrier,
            ),
            check("and those that the sinks had before snapshot n", covered, before_snapshot),
            check(
                "the coordinator triggers at the interval",
                [float(INTERVAL_MS)] * len(by_time),
                list(map(float, by_time)),
            ),
        ),
    )
    return (scene,)


def _carried(run: Run) -> dict[Channel, list[Identity | int]]:
    """Channel -> its rows and the ids of its barriers, in order."""
    carried: dict[Channel, list[Identity | int]] = {}
    for each in run.of("sends", "forwards"):
        to, what = each.detail
        items: list[Identity | int] = [what] if each.what == "forwards" else [row[:2] for row in what]
        carried.setdefault((each.actor, to), []).extend(items)
    return dict(sorted(carried.items()))


def _rows_before(carried: dict[Channel, list[Identity | int]], checkpoint_id: int) -> list[Identity]:
    rows: list[Identity] = []
    for items in carried.values():
        end = items.index(checkpoint_id) if checkpoint_id in items else 0
        rows += [item for item in items[:end] if not isinstance(item, int)]
    return rows


def _offsets(run: Run, checkpoint_id: int) -> dict[int, int]:
    record = next(record for record in run.stage.decided if record.checkpoint_id == checkpoint_id)
    return run.simulation.covered(record)


def _covered(run: Run, checkpoint_id: int) -> list[Identity]:
    offsets = _offsets(run, checkpoint_id)
    return [(split, at) for split, end in sorted(offsets.items()) for at in range(end)]


def _said(channel: Channel, items: list[Identity | int]) -> str:
    words = [f"|{item}|" if isinstance(item, int) else row_name(item) for item in items]
    return f"{channel[0]} -> {channel[1]}: {' '.join(words)}"
