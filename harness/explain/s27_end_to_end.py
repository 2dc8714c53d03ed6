"""S27: one exactly-once job and one crash, with a plain and with a two-phase sink."""

from __future__ import annotations

from typing import Final

from sinkproof.explain.demonstration import Scene, counts_named, rows_named, times
from sinkproof.explain.small_jobs import COUNTING, MemoryTarget, run_job
from sinkproof.explain.timeline import RECOVERY, timeline

LESSON: Final = (
    "the engine restores its own state exactly; rows that have left it are not part of that state. Only a sink that "
    "takes part in the checkpoint makes state and output agree."
)
SCHEDULE: Final = "sink[0].write.after#7=kill-job"


def scenes() -> tuple[Scene, ...]:
    return (_with("plain", "A plain sink: the output is repeated"), _with("two-phase", "A two-phase sink: it is not"))


def _with(strategy: str, title: str) -> Scene:
    run = run_job(plan=COUNTING, target=MemoryTarget(strategy=strategy), schedule=SCHEDULE)
    plain = strategy == "plain"
    written, complete = run.rows_written(generation=1), run.complete_at_crash
    restored = run.offsets(complete[-1]) if complete else {}
    uncovered = sorted(row for row in written if row[1] >= restored.get(row[0], 0))
    lost, repeated = run.lost_and_repeated
    rows = set(run.visible)
    most = max(run.visible.count(row) for row in rows)
    scene = Scene(title)
    scene.ran = f"2 sources -> keyed count -> {strategy} sink, exactly_once, {SCHEDULE}"
    scene.steps = timeline(run, "writes", *RECOVERY, around_crash=(10, 16))
    scene.fact(f"written before the crash: {rows_named(written)}", written)
    scene.fact(
        f"the restored checkpoint covers {restored or 'nothing'}; written beyond it: {rows_named(uncovered)}", uncovered
    )
    scene.fact(f"state in the end: {counts_named(run.counts)}", run.counts)
    scene.check("the state is exact", run.right_counts, run.counts)
    scene.check("rows were written beyond the checkpoint", True, bool(uncovered))
    scene.check("no row is lost", [], lost)
    scene.check("exactly those are repeated" if plain else "no row is repeated", uncovered if plain else [], repeated)
    return scene.finish(
        f"the state is exact; in the output {rows_named(repeated)} {'are' if repeated else 'is'} repeated "
        f"({len(run.visible)} rows, expected {len(rows)}; each row at most {times(most)})"
    )
