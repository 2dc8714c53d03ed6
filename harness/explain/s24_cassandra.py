"""S24: on a small simulation of a Cassandra table (simulated_wide_rows.py): two sinks that are right, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from sinkproof.execution.recorded_job import Run, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, counts_named, fact, rows_named
from sinkproof.explain.models.simulated_wide_rows import WideRows
from sinkproof.explain.small_jobs import true_counts
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.sink_adapters.protocol import Context, Row, Sink
from sinkproof.sink_adapters.strategies.idempotent import IdempotentSink
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart
from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink

LESSON: Final = (
    "there is no transaction over two keys, so repetition cannot be avoided, only made harmless: every row is written "
    "under a key that each attempt makes again, with the same timestamp. What only adds up, like a counter, does not "
    "forgive it."
)
SOURCE: Final = letters("aebgaebg|gabegabe")
SIMULATED: Final = "a small simulation of a Cassandra table (last write wins, no transactions)"
BEFORE_RECORD: Final = "sink[0].record.before#1=kill"


class Rows:
    """Target of both sinks: rows by identity, with their event time as timestamp."""

    def __init__(self, table: WideRows) -> None:
        self.table = table

    def attach(self, context: Context) -> None:
        self.reach = context.reach

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> None:
        self.upsert([(f"{row.split}-{row.offset}", row) for row in rows])

    def upsert(self, entries: Sequence[tuple[str, Row]]) -> None:
        for key, row in entries:
            self.table.upsert(key, row, timestamp=row.event_time_ms)


class Counters(Rows):
    """Adds one to the counter of each row's key, instead of writing the row under its own."""

    def upsert(self, entries: Sequence[tuple[str, Row]]) -> None:
        super().upsert(entries)
        for _, row in entries:
            self.table.add(row.key, 1)


class Sent:
    """The committer: a table of its own, one key for each part."""

    def __init__(self, table: WideRows) -> None:
        self.table = table

    def is_committed(self, part: CheckpointPart) -> bool:
        return self.table.is_sent(part)

    def record(self, part: CheckpointPart) -> None:
        self.table.mark_sent(part)


def scenes() -> tuple[Scene, ...]:
    return (
        _write_ahead(),
        _idempotent(),
        _write_ahead_into_counters(),
    )


def _run(table: WideRows, sink: Callable[[], Sink], schedule: str) -> Run:
    return play(source_to_sink(SOURCE).plan(), sink, read=table.read, look=table.statements.copy, schedule=schedule)


def _write_ahead() -> Scene:
    table = WideRows()
    run = _run(table, lambda: WriteAheadSink(Rows(table), Sent(table)), BEFORE_RECORD)
    before: Counter[str] = run.stage.looked_when_struck[0]
    repeated = table.statements["INSERT row"] - SOURCE.splits * SOURCE.length(0)
    early = run.stage.visible_when_deciding[1]
    return Scene(
        title="Write-ahead, with a committer in a table of its own",
        ran=f"source x2 -> write-ahead sink x2 into {SIMULATED}; {run.schedule}",
        steps=run.steps(
            "complete",
            "generation",
            "restored",
            points=["publish.after", "record.after"],
            actors=("coordinator", "sink[0]"),
            since=28,
            until=50,
        ),
        facts=(
            fact(
                f"at the crash {before['INSERT row']} rows were written and {before['INSERT sent']} parts recorded",
                dict(before),
            ),
            fact(f"statements in the end: {counts_named(table.statements)}", dict(table.statements)),
        ),
        outcome=f"{repeated} rows were written again and changed nothing: {len(run.visible)} rows, each once",
        checks=(
            check("nothing is visible before checkpoint 1 is complete", [], early),
            check("rows were written twice", True, repeated > 0),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
            check("every part is recorded once", len(table.sent), table.statements["INSERT sent"]),
        ),
    )


def _idempotent() -> Scene:
    table = WideRows()
    run = _run(table, lambda: IdempotentSink(Rows(table)), "sink[0].write.after#5=kill-job")
    repeated = table.statements["INSERT row"] - SOURCE.splits * SOURCE.length(0)
    early = run.stage.visible_when_deciding[1]
    return Scene(
        title="Idempotent: every row at once, under its own key",
        ran=f"the same rows into an idempotent sink; {run.schedule}",
        facts=(
            fact(f"visible before checkpoint 1 was complete: {rows_named(early)}", early),
            fact(f"statements: {counts_named(table.statements)}", dict(table.statements)),
        ),
        outcome=f"{repeated} rows were written again; in the end {len(run.visible)} rows, each once, and visible early",
        checks=(
            check("rows were written twice", True, repeated > 0),
            check("readers see rows early", True, bool(early)),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
        ),
    )


def _write_ahead_into_counters() -> Scene:
    """The same crash; the target adds up."""
    table = WideRows()
    run = _run(table, lambda: WriteAheadSink(Counters(table), Sent(table)), BEFORE_RECORD)
    counts, right = dict(table.counters), true_counts(SOURCE)
    wrong = [f"{key}={counts[key]}, expected {right[key]}" for key in right if counts[key] != right[key]]
    repeated = sum(counts.values()) - sum(right.values())
    return Scene(
        title="The same into counters: a wrong result",
        ran=f"the same write-ahead sink, into counters by key; {run.schedule}",
        facts=(fact(f"counters: {counts_named(counts)}; in the input: {counts_named(right)}", counts),),
        outcome=f"the part that was sent twice was counted twice: {'; '.join(wrong)}",
        checks=(
            check(
                "counters are too great by what was sent again",
                table.statements["INSERT row"] - SOURCE.splits * SOURCE.length(0),
                repeated,
            ),
            check("some are wrong", True, bool(wrong)),
            check("the rows beside them are right", ([], []), once_each(SOURCE, run.visible)),
        ),
    )
