"""S20: order, discarding, the committer; then the two holes, and the two ways to close them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from sinkproof.execution.recorded_job import Identity, Run, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, fact, rows_named
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.sink_adapters.memory.memory_clients import MemoryCommitter, MemoryLog, MemoryTable
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import CommitOutcome, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart
from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink

LESSON: Final = (
    "rows that wait in the state reach any target in the right order, none too early; but sending is not one step, and "
    "sending and recording are two. Only a target that upserts, or one that takes rows and record in one transaction, "
    "closes the gaps."
)
SOURCE: Final = letters("aebgaebg|gabegabe")
IN_THE_MIDDLE: Final = "sink[0].append.after#1=kill"  # one of two rows of checkpoint 1 is sent
BEFORE_RECORD: Final = "sink[0].record.before#1=kill"  # all are sent; that they were is not recorded
UPSERT_MIDDLE: Final = "sink[0].upsert.after#1=kill"


class World:
    """A store, and the sinks that write ahead into it."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.sent: list[str] = []  # parts, in the order in which their rows were sent

    def read(self) -> list[Identity]:
        return self.store.read()

    def log(self) -> WriteAheadSink:
        return WriteAheadSink(Listed(self.store, self.sent), MemoryCommitter(self.store))

    def stubborn(self) -> WriteAheadSink:
        return WriteAheadSink(Stubborn(self.store, self.sent), MemoryCommitter(self.store))

    def table(self) -> WriteAheadSink:
        return WriteAheadSink(MemoryTable(self.store), MemoryCommitter(self.store))

    def one_transaction(self) -> WriteAheadSink:
        both = RowsAndRecord(self.store)
        return WriteAheadSink(both, both)


class Listed(MemoryLog):
    """A log row by row, which lists what it was asked to send."""

    def __init__(self, store: MemoryStore, sent: list[str]) -> None:
        super().__init__(store)
        self.sent = sent

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> Any:
        super().publish(part, rows)
        self.sent.append(str(part))


class Stubborn(Listed):
    """Refuses the first part of sink 0 twice: not now, ask again later."""

    refusals: Final = 2

    def __init__(self, store: MemoryStore, sent: list[str]) -> None:
        super().__init__(store, sent)
        self.asked: list[str] = []

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> Any:
        self.asked.append(str(part))
        if part.subtask == 0 and part.checkpoint_id == 1 and len(self.asked) <= self.refusals:
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
        """It stands beside the rows already."""


def scenes() -> tuple[Scene, ...]:
    return (
        _normal(),
        _blocked(),
        _dropped(),
        _hole("First hole: a crash in the middle of sending", World.log, IN_THE_MIDDLE),
        _hole("Second hole: a crash between sending and recording", World.log, BEFORE_RECORD),
        _hole("Both closed by an upsert: in the middle", World.table, UPSERT_MIDDLE),
        _hole("Both closed by an upsert: before recording", World.table, BEFORE_RECORD),
        _hole("Both closed by rows and record in one transaction", World.one_transaction, BEFORE_RECORD),
    )


def _run(world: World, sink: Callable[[], WriteAheadSink], *, schedule: str = "no-fault") -> Run:
    return play(source_to_sink(SOURCE).plan(), sink, read=world.read, schedule=schedule)


def _waiting(run: Run, checkpoint_id: int, subtask: str) -> list[str]:
    """Parts in a snapshot."""
    record = next(record for record in run.stage.decided if record.checkpoint_id == checkpoint_id)
    return [name for name, _ in json.loads(record.states[subtask]["sink"])["pending"]]


def _normal() -> Scene:
    world = World()
    run = _run(world, world.log)
    early = run.stage.visible_when_deciding
    last = run.stage.decided[-1].checkpoint_id
    parts = [name for name in world.sent if name.startswith("sink-0-")]
    held = {one: _waiting(run, one, "sink[0]") for one in (1, last)}
    return Scene(
        title="Rows wait in the state, are sent after completion, and are then forgotten",
        ran="source x2 -> write-ahead sink x2 into a log",
        steps=run.steps(
            "complete", "told", points=["publish.after", "record.after"], until=run.of("complete")[1].at_ms
        ),
        facts=(
            fact(f"visible when checkpoint 1 was decided: {rows_named(early[1])}", early[1]),
            fact(f"parts of sink[0] in the state of checkpoint 1: {held[1]}, of checkpoint {last}: {held[last]}", held),
        ),
        outcome=f"sink[0] sent {', '.join(parts)}; the store remembers {len(world.store.recorded)} parts",
        checks=(
            check("nothing is visible early", [], early[1]),
            check("parts are sent in the order of their checkpoints", sorted(parts), parts),
            check("what was sent is not kept in later snapshots", False, held[1][0] in held[last]),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
        ),
    )


def _blocked() -> Scene:
    """The oldest part is refused: newer ones wait behind it."""
    world = World()
    run = _run(world, world.stubborn)
    told = run.of("told", actor="sink[0]")
    sends = run.points("publish.after", actor="sink[0]")
    parts = [name for name in world.sent if name.startswith("sink-0-")]
    return Scene(
        title="A part that cannot be sent yet blocks newer ones",
        ran=f"the same job; the target refuses the first part of sink[0] {Stubborn.refusals} times",
        steps=run.steps("told", points=["publish.after", "record.after", "settle.before"], actors=("sink[0]",)),
        facts=(fact(f"sink[0] tried {len(sends)} times, first at {sends[0].at_ms:g} ms", len(sends)),),
        outcome=f"told of {[each.detail for each in told]}; sent in the end: {', '.join(parts)}",
        checks=(
            check("it is tried again", True, len(sends) > len(parts)),
            check("the order is kept all the same", sorted(parts), parts),
            check(
                "nobody restarts, nothing is lost or repeated",
                (1, [], []),
                (run.generations, *once_each(SOURCE, run.visible)),
            ),
        ),
    )


def _dropped() -> Scene:
    """A crash right after recording: the restored state still holds rows that the committer has."""
    world = World()
    run = _run(world, world.log, schedule="sink[0].record.after#1=kill-job")
    restored = _waiting(run, 1, "sink[0]")
    again = [each for each in run.points("publish.after", actor="sink[0]") if each.generation == 2]
    return Scene(
        title="What the committer has is dropped on restore",
        ran="the same job, sink[0].record.after#1=kill-job",
        steps=run.steps("complete", "generation", "restored", points=["publish.after", "record.after"], until=60),
        facts=(fact(f"restored to sink[0]: {', '.join(restored)}", restored),),
        outcome=f"the committer knows {restored[0]}; it is sent {world.sent.count(restored[0])} time in all",
        checks=(
            check("the part is restored", ["sink-0-1"], restored),
            check("and not sent again", 1, world.sent.count(restored[0])),
            check("later ones are", True, bool(again)),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
        ),
    )


def _hole(title: str, sink: Callable[[World], WriteAheadSink], schedule: str) -> Scene:
    world = World()
    run = _run(world, lambda: sink(world), schedule=schedule)
    seen = run.stage.visible_when_struck[0]
    mine = {(row[0], row[1]) for each in run.of("writes", actor="sink[0]") for row in each.detail}
    sent = sorted(set(seen) & mine)
    lost, extra = once_each(SOURCE, run.visible)
    open_hole = sink is World.log
    return Scene(
        title=title,
        ran=f"the same job, {schedule}",
        steps=run.steps(
            "complete",
            "generation",
            "restored",
            points=["append.after", "upsert.after", "publish.after"],
            actors=("coordinator", "sink[0]"),
            since=run.of("fault")[0].at_ms - 4,
            until=run.of("fault")[0].at_ms + 12,
        ),
        facts=(fact(f"of sink[0] the target shows {rows_named(sent)} at the crash", sent),),
        outcome=f"{rows_named(extra)} {'is sent again: repeated in the output' if extra else 'is repeated'}; "
        f"{len(lost)} lost",
        checks=(
            check("something was sent before the crash", True, bool(sent)),
            check("exactly that is repeated" if open_hole else "nothing is repeated", sent if open_hole else [], extra),
            check("nothing is lost", [], lost),
        ),
    )
