"""S20: order, discarding and the committer of a write-ahead sink; its two holes, and the two ways to close them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from sinkproof.execution.recorded_job import RecordedRun
from sinkproof.explain.demonstration import Scene, rows_named
from sinkproof.explain.small_jobs import MemoryTarget, run_job
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.sink_adapters.memory.memory_clients import MemoryCommitter, MemoryLog
from sinkproof.sink_adapters.memory.memory_contracts import MEMORY_SINKS
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import CommitOutcome, Row, Sink
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart
from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink

LESSON: Final = (
    "rows that wait in the state reach any target in order and never early; but sending is not one step, and sending "
    "and recording are two. Only a target that upserts, or one that takes rows and record in one transaction, closes "
    "the holes."
)
IN_THE_MIDDLE: Final = "sink[0].append.after#1=kill"  # one of two rows of checkpoint 1 is sent
BEFORE_RECORD: Final = "sink[0].record.before#1=kill"  # all rows are sent, the part is not recorded
UPSERT_MIDDLE: Final = "sink[0].upsert.after#1=kill"
SENT: Final = ("publish.after", "record.after")  # points
REFUSALS: Final = 2
UPSERT: Final = MEMORY_SINKS["write-ahead-upsert"]


class LogTarget(MemoryTarget):
    """A log in memory, written ahead, with a committer in the same store. `refusals`: see RecordingLog."""

    def __init__(self, *, refusals: int = 0) -> None:
        self.sent: list[str] = []  # parts, in the order in which their rows were sent
        super().__init__(
            make=lambda store: WriteAheadSink(RecordingLog(store, self.sent, refusals), MemoryCommitter(store))
        )

    @property
    def sent_by_first(self) -> list[str]:
        return [name for name in self.sent if name.startswith("sink-0-")]


class RecordingLog(MemoryLog):
    """Records the parts that it sends. `refusals`: how often it answers RETRY for the first part of sink[0]."""

    def __init__(self, store: MemoryStore, sent: list[str], refusals: int) -> None:
        super().__init__(store)
        self.sent, self.refusals = sent, refusals

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> Any:
        if self.refusals and (part.subtask, part.checkpoint_id) == (0, 1):
            self.refusals -= 1
            return CommitOutcome.RETRY
        super().publish(part, rows)
        self.sent.append(str(part))
        return None


class RowsAndRecord:
    """Target and committer in one: rows and the record that they were sent are one effect of the store."""

    def __init__(self, store: MemoryStore) -> None:
        self.store, self.is_committed = store, store.is_recorded

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> None:
        if not self.is_committed(part):
            self.store.log += tuple(rows)
            self.store.record(part)

    def record(self, part: CheckpointPart) -> None:
        """Recorded together with the rows."""


def _rows_and_record(store: MemoryStore) -> WriteAheadSink:
    both = RowsAndRecord(store)
    return WriteAheadSink(both, both)


def scenes() -> tuple[Scene, ...]:
    return (
        _normal(),
        _blocked(),
        _dropped(),
        _hole("First hole: a crash in the middle of sending", IN_THE_MIDDLE),
        _hole("Second hole: a crash between sending and recording", BEFORE_RECORD),
        _hole("Both closed by an upsert: in the middle", UPSERT_MIDDLE, closed_by=UPSERT),
        _hole("Both closed by an upsert: before recording", BEFORE_RECORD, closed_by=UPSERT),
        _hole("Both closed by rows and record in one transaction", BEFORE_RECORD, closed_by=_rows_and_record),
    )


def _waiting(run: RecordedRun, checkpoint_id: int) -> list[str]:
    """Parts in the snapshot of sink[0]."""
    return [name for name, _ in json.loads(run.record(checkpoint_id).states["sink[0]"]["sink"])["pending"]]


def _normal() -> Scene:
    target = LogTarget()
    run = run_job(target=target)
    early = run.seen.visible_when_deciding[1]
    last = run.seen.decided[-1].checkpoint_id
    parts, held = target.sent_by_first, {one: _waiting(run, one) for one in (1, last)}
    scene = Scene("Rows wait in the state, are sent after completion, and are then discarded")
    scene.ran = "source x2 -> write-ahead sink x2 into a log"
    scene.steps = timeline(run, "complete", "notified", points=SENT, until=run.of("complete")[1].at_ms)
    scene.fact(f"visible when checkpoint 1 was decided: {rows_named(early)}", early)
    scene.fact(f"parts of sink[0] in the state of checkpoint 1: {held[1]}, of checkpoint {last}: {held[last]}", held)
    scene.check("no row is visible early", [], early)
    scene.check("parts are sent in the order of their checkpoints", sorted(parts), parts)
    scene.check("a part that was sent is not in later snapshots", False, held[1][0] in held[last])
    scene.check_each_row_once(run)
    return scene.finish(
        f"sink[0] sent {', '.join(parts)}; the committer has recorded {len(target.store.recorded)} parts"
    )


def _blocked() -> Scene:
    target = LogTarget(refusals=REFUSALS)
    run = run_job(target=target)
    notified = [each.detail for each in run.of("notified", actor="sink[0]")]
    sends = run.points("publish.after", actor="sink[0]")
    parts = target.sent_by_first
    scene = Scene("A part that cannot be sent yet blocks newer ones")
    scene.ran = f"the same job; the target refuses the first part of sink[0] {REFUSALS} times"
    scene.steps = timeline(run, "notified", points=(*SENT, "settle.before"), actors=("sink[0]",))
    scene.fact(f"sink[0] tried {len(sends)} times, first at {sends[0].at_ms:g} ms", len(sends))
    scene.check("the part is sent again", True, len(sends) > len(parts))
    scene.check("the order is kept nevertheless", sorted(parts), parts)
    scene.check("without a restart no row is lost or repeated", (1, [], []), (run.generations, *run.lost_and_repeated))
    return scene.finish(f"notified of {notified}; sent in the end: {', '.join(parts)}")


def _dropped() -> Scene:
    """A crash right after recording: the restored state holds rows that the committer has recorded as sent."""
    target = LogTarget()
    run = run_job(target=target, schedule="sink[0].record.after#1=kill-job")
    restored = _waiting(run, 1)
    sent = target.sent.count(restored[0])
    scene = Scene("A part that the committer has recorded is dropped on restore")
    scene.ran = f"the same job, {run.schedule}"
    scene.steps = timeline(run, *RECOVERY, points=SENT, until=60)
    scene.fact(f"restored to sink[0]: {', '.join(restored)}", restored)
    scene.check("the part is restored", ["sink-0-1"], restored)
    scene.check("it is not sent again", 1, sent)
    scene.check("later parts are sent", True, bool(run.points("publish.after", actor="sink[0]", generation=2)))
    scene.check_each_row_once(run)
    return scene.finish(f"the committer has recorded {restored[0]}; it is sent {sent} time in all")


def _hole(title: str, schedule: str, *, closed_by: Callable[[MemoryStore], Sink] | None = None) -> Scene:
    run = run_job(target=MemoryTarget(strategy="write-ahead", make=closed_by), schedule=schedule)
    written = {row[:2] for each in run.of("writes", actor="sink[0]") for row in each.detail}
    sent = sorted(set(run.seen.visible_at_fault[0]) & written)
    lost, repeated = run.lost_and_repeated
    is_open = closed_by is None
    points = "append.after", "upsert.after", "publish.after"
    scene = Scene(title)
    scene.ran = f"the same job, {schedule}"
    scene.steps = timeline(run, *RECOVERY, points=points, actors=("coordinator", "sink[0]"), around_crash=(4, 12))
    scene.fact(f"rows of sink[0] in the target at the crash: {rows_named(sent)}", sent)
    scene.check("rows were sent before the crash", True, bool(sent))
    scene.check("exactly those are repeated" if is_open else "no row is repeated", sent if is_open else [], repeated)
    scene.check("no row is lost", [], lost)
    return scene.finish(
        f"{rows_named(repeated)} {'is sent again: repeated in the output' if repeated else 'is repeated'}; "
        f"{len(lost)} lost"
    )
