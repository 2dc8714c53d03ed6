"""S19: an upsert under a key that replays make again, and under one that they do not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from sinkproof.execution.recorded_job import Identity, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, fact, rows_named, times
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.sink_adapters.memory.memory_clients import MemoryTable
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Context, Row
from sinkproof.sink_adapters.strategies.idempotent import IdempotentSink, row_identity

LESSON: Final = (
    "an upsert forgives repetition, not disagreement: it is right in the end if every replay makes the same keys, and "
    "meanwhile readers see rows early, and again. One key drawn anew, and each attempt leaves rows of its own."
)
SOURCE: Final = letters("aebgaebg|gabegabe")
SCHEDULE: Final = "sink[0].write.after#5=kill-job"


class Table:
    """A table with one row for each key, and what somebody met who follows its changes."""

    def __init__(self) -> None:
        self.store = MemoryStore()

    def deterministic(self) -> IdempotentSink:
        return IdempotentSink(MemoryTable(self.store))

    def drawing(self) -> IdempotentSink:
        return DrawingSink(MemoryTable(self.store))

    def read(self) -> list[Identity]:
        return self.store.read()


class DrawingSink(IdempotentSink):
    """An operator before it draws a random part of the key: every attempt draws anew."""

    def __init__(self, target: MemoryTable) -> None:
        super().__init__(target, key=self._drawn)
        self.random = Random(0)

    def open(self, context: Context) -> None:
        super().open(context)
        self.random = context.random

    def _drawn(self, row: Row) -> str:
        return f"{row_identity(row)}-{self.random.randrange(1 << 32):08x}"


def scenes() -> tuple[Scene, ...]:
    table, other = Table(), Table()
    return (
        _scene(table, table.deterministic, "Keys that a replay makes again: right in the end"),
        _scene(other, other.drawing, "Keys drawn by each attempt: wrong"),
    )


def _scene(table: Table, sink: Callable[[], IdempotentSink], title: str) -> Scene:
    run = play(source_to_sink(SOURCE).plan(), sink, read=table.read, schedule=SCHEDULE)
    right = sink == table.deterministic
    first, again = set(run.rows_written(generation=1)), run.rows_written(generation=2)
    replayed = sorted(first & set(again))
    lost, extra = once_each(SOURCE, run.visible)
    met = table.store.read_changes()
    _, met_again = once_each(SOURCE, met)
    decided = run.stage.visible_when_deciding[1]
    keys = sorted(key for key, row in dict(table.store.changelog).items() if row[:2] == replayed[0])
    return Scene(
        title=title,
        ran=f"source x2 -> idempotent sink x2 into a table, {SCHEDULE}",
        steps=run.steps(
            "writes",
            "complete",
            "generation",
            "restored",
            since=run.of("fault")[0].at_ms - 8,
            until=run.of("fault")[0].at_ms + 16,
        ),
        facts=(
            fact(f"written before and again after the crash: {rows_named(replayed)}", replayed),
            fact(f"visible before checkpoint 1 was complete: {rows_named(decided)}", decided),
            fact(f"who follows the changes met again: {rows_named(met_again)}", met_again),
            fact(f"keys of row {rows_named(replayed[:1])} in the table: {', '.join(keys)}", keys),
        ),
        outcome=f"{len(run.visible)} rows in the table where there should be {SOURCE.splits * SOURCE.length(0)}, "
        f"{len(lost)} lost"
        + (f": {rows_named(extra)} are there {times(max(map(run.visible.count, extra)))}" if extra else ""),
        checks=(
            check("rows are replayed", True, bool(replayed)),
            check("readers see rows early", True, bool(decided)),
            check("who follows the changes meets the replayed rows again", replayed, met_again),
            check("no row is lost", [], lost),
            check(
                "none is there twice" if right else "exactly the replayed ones are there twice",
                [] if right else replayed,
                extra,
            ),
        ),
    )
