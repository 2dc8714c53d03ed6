"""S27: one exactly-once job, one crash, two sinks."""

from __future__ import annotations

from typing import Final

from sinkproof.execution.recorded_job import Run, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, counts_named, fact, rows_named, times
from sinkproof.explain.small_jobs import Straight, Transactional, counting_plan, greatest_values, true_counts

LESSON: Final = (
    "the engine restores its own state exactly; rows that have left it are no state of its own. Only a sink that takes "
    "part in the checkpoint makes the two ends agree."
)
SOURCE: Final = letters("aabaab|babaab")
SCHEDULE: Final = "sink[0].write.after#7=kill-job"


def scenes() -> tuple[Scene, ...]:
    return (
        _with(Straight(), "A plain sink: the output is repeated"),
        _with(Transactional(), "A two-phase sink: it is not"),
    )


def _with(target: Straight | Transactional, title: str) -> Scene:
    run = play(counting_plan(SOURCE), target.sink, read=target.read, schedule=SCHEDULE)
    plain = isinstance(target, Straight)
    crash = run.of("fault")[0].at_ms
    written = run.rows_written(generation=1)
    restored = run.simulation.covered(
        next(
            (record for record in reversed(run.stage.decided) if record.checkpoint_id in _complete_at(run, crash)), None
        )
    )
    uncovered = sorted(row for row in written if row[1] >= restored.get(row[0], 0))
    lost, extra = once_each(SOURCE, run.visible)
    counts = greatest_values(target.rows)
    most = max(run.visible.count(row) for row in set(run.visible))
    return Scene(
        title=title,
        ran=f"2 sources -> keyed count -> {'plain' if plain else 'two-phase'} sink, exactly_once, {SCHEDULE}",
        steps=run.steps("writes", "complete", "generation", "restored", since=crash - 10, until=crash + 16),
        facts=(
            fact(f"written by the crash: {rows_named(written)}", written),
            fact(
                f"the restored checkpoint covers {restored or 'nothing'}; written beyond it: {rows_named(uncovered)}",
                uncovered,
            ),
            fact(f"state in the end: {counts_named(counts)}", counts),
        ),
        outcome=f"the state is exact; in the output {rows_named(extra)} {'are' if extra else 'is'} repeated "
        f"({len(run.visible)} rows where there should be {len(set(run.visible))}, the worst {times(most)})",
        checks=(
            check("the state is exact", true_counts(SOURCE), counts),
            check("rows were written beyond the checkpoint", True, bool(uncovered)),
            check("no row is lost", [], lost),
            check("exactly those are repeated" if plain else "none is repeated", uncovered if plain else [], extra),
        ),
    )


def _complete_at(run: Run, at_ms: float) -> list[int]:
    return [each.detail for each in run.of("complete") if each.at_ms <= at_ms]
