"""S24: a write-ahead and an idempotent sink into a small simulation of a Cassandra table, and one into counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from sinkproof.execution.recorded_job import RecordedRun, record_job
from sinkproof.explain.demonstration import Scene, counts_named, rows_named
from sinkproof.explain.models.simulated_wide_rows import WideRows
from sinkproof.explain.small_jobs import LETTERS, LETTERS_TO_SINK, ROW_COUNT, differing_counts, true_counts
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.sink_adapters.protocol import Row, Sink
from sinkproof.sink_adapters.strategies.idempotent import IdempotentSink
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart
from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink

LESSON: Final = (
    "there is no transaction over two keys, so repetition cannot be avoided, only made harmless: every row is written "
    "under a key that each attempt produces again, with the same timestamp. A counter, which only adds, is not made "
    "harmless so."
)
SIMULATED: Final = "a small simulation of a Cassandra table (last write wins, no transactions)"
BEFORE_RECORD: Final = "sink[0].record.before#1=kill"


class RowsByIdentity:
    """Writes rows under their identity, with their event time as timestamp."""

    def __init__(self, table: WideRows) -> None:
        self.table = table

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> None:
        self.upsert([(f"{row.split}-{row.offset}", row) for row in rows])

    def upsert(self, entries: Sequence[tuple[str, Row]]) -> None:
        for key, row in entries:
            self.table.upsert(key, row, timestamp=row.event_time_ms)


class RowsAndCounters(RowsByIdentity):
    """Also adds one to the counter of each row's key."""

    def upsert(self, entries: Sequence[tuple[str, Row]]) -> None:
        super().upsert(entries)
        for _, row in entries:
            self.table.add(row.key, 1)


def scenes() -> tuple[Scene, ...]:
    return (_write_ahead(), _idempotent(), _write_ahead_into_counters())


def _run(make: Callable[[WideRows], Sink], schedule: str) -> tuple[RecordedRun, WideRows, int]:
    """The run, the table, and how many rows were written again."""
    table = WideRows()
    run = record_job(
        LETTERS_TO_SINK, lambda: make(table), read=table.read, probe=table.statements.copy, schedule=schedule
    )
    return run, table, table.statements["INSERT row"] - ROW_COUNT


def _write_ahead() -> Scene:
    run, table, written_again = _run(lambda table: WriteAheadSink(RowsByIdentity(table), table), BEFORE_RECORD)
    before: Counter[str] = run.seen.probed_at_fault[0]
    early = run.seen.visible_when_deciding[1]
    points, actors = ("publish.after", "record.after"), ("coordinator", "sink[0]")
    scene = Scene("Write-ahead, with a committer in a table of its own")
    scene.ran = f"source x2 -> write-ahead sink x2 into {SIMULATED}; {run.schedule}"
    scene.steps = timeline(run, *RECOVERY, points=points, actors=actors, since=28, until=50)
    scene.fact(
        f"at the crash {before['INSERT row']} rows were written and {before['INSERT sent']} parts recorded",
        dict(before),
    )
    scene.fact(f"statements in the end: {counts_named(table.statements)}", dict(table.statements))
    scene.check("no row is visible before checkpoint 1 is complete", [], early)
    scene.check("rows were written twice", True, written_again > 0)
    scene.check_each_row_once(run)
    scene.check("every part is recorded once", len(table.sent), table.statements["INSERT sent"])
    return scene.finish(
        f"{written_again} rows were written again and changed nothing: {len(run.visible)} rows, each once"
    )


def _idempotent() -> Scene:
    run, table, written_again = _run(
        lambda table: IdempotentSink(RowsByIdentity(table)), "sink[0].write.after#5=kill-job"
    )
    early = run.seen.visible_when_deciding[1]
    scene = Scene("Idempotent: every row at once, under its own key")
    scene.ran = f"the same rows into an idempotent sink; {run.schedule}"
    scene.fact(f"visible before checkpoint 1 was complete: {rows_named(early)}", early)
    scene.fact(f"statements: {counts_named(table.statements)}", dict(table.statements))
    scene.check("rows were written twice", True, written_again > 0)
    scene.check("readers see rows early", True, bool(early))
    scene.check_each_row_once(run)
    return scene.finish(
        f"{written_again} rows were written again; in the end {len(run.visible)} rows, each once, and visible early"
    )


def _write_ahead_into_counters() -> Scene:
    """The same crash; the target adds up."""
    run, table, written_again = _run(lambda table: WriteAheadSink(RowsAndCounters(table), table), BEFORE_RECORD)
    counts, right = dict(table.counters), true_counts(LETTERS)
    wrong = differing_counts(counts, right)
    scene = Scene("The same into counters: a wrong result")
    scene.ran = f"the same write-ahead sink, into counters by key; {run.schedule}"
    scene.fact(f"counters: {counts_named(counts)}; in the input: {counts_named(right)}", counts)
    scene.check(
        "counters are too great by the rows sent again", written_again, sum(counts.values()) - sum(right.values())
    )
    scene.check("some are wrong", True, bool(wrong))
    scene.check("the rows beside them are right", ([], []), run.lost_and_repeated)
    return scene.finish(f"the part that was sent twice was counted twice: {'; '.join(wrong)}")
