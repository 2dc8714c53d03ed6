"""Which events of a recorded run does a timeline show, and in what words?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from sinkproof.execution.recorded_job import RecordedRun
from sinkproof.explain.demonstration import TimelineEntry, row_name
from sinkproof.sink_adapters.protocol import Row

RECOVERY: Final = ("complete", "generation", "restored")  # kinds of events around a restart
ENDS: Final = ("commit.after", "abort.after")  # points at which a transaction has ended
POINTS: Final = {
    "begin.after": "begins a transaction",
    "commit.after": "committed",
    "abort.after": "aborted a transaction",
    "publish.after": "sent to the target",
    "record.after": "recorded as sent",
    "upsert.after": "upserted",
    "append.after": "appended",
    "stage.after": "staged",
    "reveal.after": "revealed",
    "collect.after": "collected rows that no marker covers",
    "settle.before": "settle is called again",
    "end_of_input.after": "notified of the end of input",
}
SENTENCES: Final[dict[str, Callable[[Any], str]]] = {
    "trigger": lambda checkpoint_id: f"triggers {checkpoint_id}",
    "complete": lambda checkpoint_id: f"{checkpoint_id} is complete",
    "aborted": lambda checkpoint_id: f"aborts {checkpoint_id}",
    "generation": lambda number: f"starts generation {number}",
    "sends": lambda detail: f"{_rows(detail[1])} -> {detail[0]}",
    "forwards": lambda detail: f"barrier {detail[1]} -> {detail[0]}",
    "barrier": lambda detail: f"barrier {detail[1]} from {detail[0]}",
    "forwards urgent": lambda detail: f"urgent barrier {detail[1]} -> {detail[0]}",
    "barrier urgent": lambda detail: f"urgent barrier {detail[1]} from {detail[0]}",
    "writes": lambda rows: f"writes {_rows(rows)}",
    "drains": lambda rows: f"processes the held {_rows(rows)}",
    "snapshot": lambda checkpoint_id: f"snapshot {checkpoint_id}",
    "acknowledged": lambda checkpoint_id: f"acknowledges {checkpoint_id}",
    "declined": lambda checkpoint_id: f"declines {checkpoint_id}",
    "notified": lambda checkpoint_id: f"notified: {checkpoint_id} complete",
    "abort notified": lambda checkpoint_id: f"notified: {checkpoint_id} aborted",
    "upload cancelled": lambda checkpoint_id: f"cancels the upload of {checkpoint_id}",
    "restored": lambda checkpoint_id: f"restored from {checkpoint_id or 'nothing'}",
    "fault": lambda detail: f"{detail[1]} at {detail[0]}",
    "raised": lambda error: f"fails: {error}",
    "watermark": lambda detail: f"watermark {detail[1]:g} -> {detail[0]}",
    "stalled": lambda _: "stops: its queue is full",
    "resumed": lambda _: "resumes",
    "point": lambda point: POINTS.get(point, point),
}


def timeline(
    run: RecordedRun,
    *kinds: str,
    points: Iterable[str] = (),
    actors: tuple[str, ...] = ("",),
    since: float = 0,
    until: float = 1e9,
    around_crash: tuple[float, float] | None = None,
) -> tuple[TimelineEntry, ...]:
    """Events of these kinds, and these points; faults always. `around_crash`: ms before and after the first fault."""
    if around_crash is not None:
        since, until = run.crash_ms - around_crash[0], run.crash_ms + around_crash[1]
    shown, wanted = {*kinds, "fault"}, set(points)
    return tuple(
        TimelineEntry(
            at=each.at_ms, lane=each.actor, what=SENTENCES[each.kind](each.detail), crash=each.kind == "fault"
        )
        for each in run.events
        if (each.kind in shown or (each.kind == "point" and each.detail in wanted))
        and since <= each.at_ms <= until
        and each.actor.startswith(actors)
    )


def _rows(rows: Iterable[Row]) -> str:
    return " ".join(map(_row, rows))


def _row(row: Row) -> str:
    """A row of a source by its identity; the result of a window by key and window, because its identity is a digest."""
    if not row.value.startswith('{"window"'):
        return row_name(row)
    start, end = json.loads(row.value)["window"]
    return f"{row.key} [{start},{end})"
