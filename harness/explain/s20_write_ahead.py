"""S20: order, discarding and the committer of a write-ahead sink; its two holes, and the two ways to close them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from sinkproof.execution.recorded_job import Identity, RecordedRun
from sinkproof.explain.demonstration import Scene, rows_named
from sinkproof.explain.scene_builder import SceneBuilder
from sinkproof.explain.small_jobs import run_job
from sinkproof.explain.timeline import RECOVERY
from sinkproof.sink_adapters.memory.memory_clients import MemoryCommitter, MemoryLog, MemoryTable
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import CommitOutcome, Row
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


class LogTarget:
    """A log in memory, written ahead, with a committer in the same store."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.sent: list[str] = []  # parts, in the order in which their rows were sent

    def sink(self) -> WriteAheadSink:
        return WriteAheadSink(RecordingLog(self.store, self.sent), MemoryCommitter(self.store))

    def read(self) -> list[Identity]:
        return self.store.read()

    @property
    def sent_by_first(self) -> list[str]:
        return [name for name in self.sent if name.startswith("sink-0-")]


class RefusingTarget(LogTarget):
    def sink(self) -> WriteAheadSink:
        return WriteAheadSink(RefusingLog(self.store, self.sent), MemoryCommitter(self.store))


class TableTarget(LogTarget):
    """Upserts under the row's identity."""

    def sink(self) -> WriteAheadSink:
        return WriteAheadSink(MemoryTable(self.store), MemoryCommitter(self.store))


class TransactionalTarget(LogTarget):
    def sink(self) -> WriteAheadSink:
        both = RowsAndRecord(self.store)
        return WriteAheadSink(both, both)


class RecordingLog(MemoryLog):
    """Records the parts that it sends."""

    def __init__(self, store: MemoryStore, sent: list[str]) -> None:
        super().__init__(store)
        self.sent = sent

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> Any:
        super().publish(part, rows)
        self.sent.append(str(part))


class RefusingLog(RecordingLog):
    """Answers RETRY for the first part of sink[0], REFUSALS times."""

    calls = 0

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> Any:
        self.calls += 1
        if part.subtask == 0 and part.checkpoint_id == 1 and self.calls <= REFUSALS:
            return CommitOutcome.RETRY
        return super().publish(part, rows)


class RowsAndRecord:
    """Target and committer in one: rows and the record that they were sent are one effect of the store."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> None:
        if not self.is_committed(part):
            self.store.log += tuple(rows)
            self.store.record(part)

    def is_committed(self, part: CheckpointPart) -> bool:
        return self.store.is_recorded(part)

    def record(self, part: CheckpointPart) -> None:
        """Recorded together with the rows."""


def scenes() -> tuple[Scene, ...]:
    return (
        _normal(),
        _blocked(),
        _dropped(),
        _hole("First hole: a crash in the middle of sending", LogTarget(), IN_THE_MIDDLE),
        _hole("Second hole: a crash between sending and recording", LogTarget(), BEFORE_RECORD),
        _hole("Both closed by an upsert: in the middle", TableTarget(), UPSERT_MIDDLE),
        _hole("Both closed by an upsert: before recording", TableTarget(), BEFORE_RECORD),
        _hole("Both closed by rows and record in one transaction", TransactionalTarget(), BEFORE_RECORD),
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
    scene = SceneBuilder("Rows wait in the state, are sent after completion, and are then discarded")
    scene.ran("source x2 -> write-ahead sink x2 into a log")
    scene.timeline(run, "complete", "notified", points=SENT, until=run.of("complete")[1].at_ms)
    scene.fact(f"visible when checkpoint 1 was decided: {rows_named(early)}", early)
    scene.fact(f"parts of sink[0] in the state of checkpoint 1: {held[1]}, of checkpoint {last}: {held[last]}", held)
    scene.check("no row is visible early", [], early)
    scene.check("parts are sent in the order of their checkpoints", sorted(parts), parts)
    scene.check("a part that was sent is not in later snapshots", False, held[1][0] in held[last])
    scene.check_each_row_once(run)
    return scene.outcome(
        f"sink[0] sent {', '.join(parts)}; the committer has recorded {len(target.store.recorded)} parts"
    )


def _blocked() -> Scene:
    target = RefusingTarget()
    run = run_job(target=target)
    notified = [each.detail for each in run.of("notified", actor="sink[0]")]
    sends = run.points("publish.after", actor="sink[0]")
    parts = target.sent_by_first
    scene = SceneBuilder("A part that cannot be sent yet blocks newer ones")
    scene.ran(f"the same job; the target refuses the first part of sink[0] {REFUSALS} times")
    scene.timeline(run, "notified", points=(*SENT, "settle.before"), actors=("sink[0]",))
    scene.fact(f"sink[0] tried {len(sends)} times, first at {sends[0].at_ms:g} ms", len(sends))
    scene.check("the part is sent again", True, len(sends) > len(parts))
    scene.check("the order is kept nevertheless", sorted(parts), parts)
    scene.check("without a restart no row is lost or repeated", (1, [], []), (run.generations, *run.lost_and_repeated))
    return scene.outcome(f"notified of {notified}; sent in the end: {', '.join(parts)}")


def _dropped() -> Scene:
    """A crash right after recording: the restored state holds rows that the committer has recorded as sent."""
    target = LogTarget()
    run = run_job(target=target, schedule="sink[0].record.after#1=kill-job")
    restored = _waiting(run, 1)
    sent = target.sent.count(restored[0])
    scene = SceneBuilder("A part that the committer has recorded is dropped on restore")
    scene.ran(f"the same job, {run.schedule}")
    scene.timeline(run, *RECOVERY, points=SENT, until=60)
    scene.fact(f"restored to sink[0]: {', '.join(restored)}", restored)
    scene.check("the part is restored", ["sink-0-1"], restored)
    scene.check("it is not sent again", 1, sent)
    scene.check("later parts are sent", True, bool(run.points("publish.after", actor="sink[0]", generation=2)))
    scene.check_each_row_once(run)
    return scene.outcome(f"the committer has recorded {restored[0]}; it is sent {sent} time in all")


def _hole(title: str, target: LogTarget, schedule: str) -> Scene:
    run = run_job(target=target, schedule=schedule)
    written = {row[:2] for each in run.of("writes", actor="sink[0]") for row in each.detail}
    sent = sorted(set(run.seen.visible_at_fault[0]) & written)
    lost, repeated = run.lost_and_repeated
    is_open = type(target) is LogTarget
    points = "append.after", "upsert.after", "publish.after"
    scene = SceneBuilder(title)
    scene.ran(f"the same job, {schedule}")
    scene.timeline(run, *RECOVERY, points=points, actors=("coordinator", "sink[0]"), around_crash=(4, 12))
    scene.fact(f"rows of sink[0] in the target at the crash: {rows_named(sent)}", sent)
    scene.check("rows were sent before the crash", True, bool(sent))
    scene.check("exactly those are repeated" if is_open else "no row is repeated", sent if is_open else [], repeated)
    scene.check("no row is lost", [], lost)
    return scene.outcome(
        f"{rows_named(repeated)} {'is sent again: repeated in the output' if repeated else 'is repeated'}; "
        f"{len(lost)} lost"
    )
