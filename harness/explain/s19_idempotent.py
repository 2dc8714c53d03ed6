"""S19: an upsert under a key that a replay produces again, and under one that it does not."""

from __future__ import annotations

from random import Random
from typing import Final

from sinkproof.execution.recorded_job import once_each
from sinkproof.explain.demonstration import Scene, rows_named, times
from sinkproof.explain.small_jobs import LETTERS, ROW_COUNT, MemoryTarget, run_job
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.sink_adapters.memory.memory_clients import MemoryTable
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Context, Row
from sinkproof.sink_adapters.strategies.idempotent import IdempotentSink, row_identity

LESSON: Final = (
    "an upsert tolerates repetition, not disagreement: it is right in the end if every replay produces the same keys, "
    "and meanwhile readers see rows early and repeated. If one part of the key is random, each attempt leaves rows of "
    "its own."
)
SCHEDULE: Final = "sink[0].write.after#5=kill-job"


class RandomKeySink(IdempotentSink):
    """As after an operator that makes a part of the key random: other keys in every attempt."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(MemoryTable(store), key=self._random_key)
        self.random = Random(0)

    def open(self, context: Context) -> None:
        super().open(context)
        self.random = context.random

    def _random_key(self, row: Row) -> str:
        return f"{row_identity(row)}-{self.random.randrange(1 << 32):08x}"


def scenes() -> tuple[Scene, ...]:
    return (
        _scene(MemoryTarget(strategy="idempotent"), "Keys that a replay produces again: right in the end", right=True),
        _scene(MemoryTarget(make=RandomKeySink), "Keys that are random in each attempt: wrong", right=False),
    )


def _scene(target: MemoryTarget, title: str, *, right: bool) -> Scene:
    run = run_job(target=target, schedule=SCHEDULE)
    replayed = sorted(set(run.rows_written(generation=1)) & set(run.rows_written(generation=2)))
    lost, repeated = run.lost_and_repeated
    _, changed_again = once_each(LETTERS, target.store.read_changes())
    early = run.seen.visible_when_deciding[1]
    keys = sorted(key for key, row in dict(target.store.changelog).items() if row[:2] == replayed[0])
    scene = Scene(title)
    scene.ran = f"source x2 -> idempotent sink x2 into a table, {SCHEDULE}"
    scene.steps = timeline(run, "writes", *RECOVERY, around_crash=(8, 16))
    scene.fact(f"written before and again after the crash: {rows_named(replayed)}", replayed)
    scene.fact(f"visible before checkpoint 1 was complete: {rows_named(early)}", early)
    scene.fact(f"rows that the table's change log has twice: {rows_named(changed_again)}", changed_again)
    scene.fact(f"keys of row {rows_named(replayed[:1])} in the table: {', '.join(keys)}", keys)
    scene.check("rows are replayed", True, bool(replayed))
    scene.check("readers see rows early", True, bool(early))
    scene.check("a reader of the changes sees the replayed rows again", replayed, changed_again)
    scene.check("no row is lost", [], lost)
    scene.check(
        "no row is there twice" if right else "exactly the replayed ones are there twice",
        [] if right else replayed,
        repeated,
    )
    return scene.finish(
        f"{len(run.visible)} rows in the table, expected {ROW_COUNT}; {len(lost)} lost"
        + (f"; {rows_named(repeated)} are there {times(max(map(run.visible.count, repeated)))}" if repeated else "")
    )
