"""S04: the same job and the same crash, with barriers aligned and with barriers only tracked."""

from __future__ import annotations

from typing import Final

from sinkproof.explain.demonstration import Scene, counts_named, row_name, rows_named, times
from sinkproof.explain.small_jobs import COUNTING, DeliveredRun, run_job
from sinkproof.explain.timeline import timeline
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointingMode

LESSON: Final = (
    "tracking the barriers lets rows into the snapshot that the sources' offsets do not cover, and a restore reads "
    "exactly those again. Texts that say that unaligned checkpoints lose exactly-once mean this mode; unaligned "
    "checkpoints proper (S05) keep such rows in the snapshot, and are exactly once."
)
SEEDS: Final = range(1, 20)  # other latencies: with some, no row overtakes a barrier


def scenes() -> tuple[Scene, ...]:
    seed = next(seed for seed in SEEDS if _run(CheckpointingMode.AT_LEAST_ONCE, seed).repeated)
    return (_scene(CheckpointingMode.AT_LEAST_ONCE, seed), _scene(CheckpointingMode.EXACTLY_ONCE, seed))


def _run(mode: CheckpointingMode, seed: int) -> DeliveredRun:
    """Checkpoint 1 is complete; then the whole job is killed, and a new generation starts from it."""
    schedule = f"seed={seed} checkpoint.notify#1=kill-job"
    return run_job(plan=COUNTING, schedule=schedule, checkpoint_interval=7, checkpointing_mode=mode)


def _scene(mode: CheckpointingMode, seed: int) -> Scene:
    run = _run(mode, seed)
    offsets, found = run.offsets(1), run.counts
    early = sorted(row for row in run.rows_written(before_snapshot=1) if row[1] >= offsets[row[0]])
    lost, _ = run.lost_and_repeated
    aligned = mode is CheckpointingMode.EXACTLY_ONCE
    twice = [f"row {row_name(row)} is processed {times(run.visible.count(row))}" for row in run.repeated]
    scene = Scene("Aligned (exactly_once): the right result" if aligned else "Tracked (at_least_once): a wrong result")
    scene.ran = f"2 sources -> keyed count -> two-phase sink, checkpointing_mode={mode.value}, {run.schedule}"
    scene.steps = timeline(
        run, "barrier", "writes", "snapshot", "drains", actors=("sink", "coordinator"), until=run.crash_ms
    )
    scene.fact(
        f"offsets in checkpoint 1: {offsets}; rows in its snapshot beyond these offsets: {rows_named(early)}", early
    )
    scene.fact(f"counts delivered: {counts_named(found)}; in the input: {counts_named(run.right_counts)}", found)
    scene.check("exactly the rows behind an early barrier are repeated", early, run.repeated)
    scene.check("no row is repeated" if aligned else "some rows are repeated", aligned, not twice)
    scene.check("no row is lost", [], lost)
    scene.check("the counts are right" if aligned else "some counts are wrong", aligned, not run.wrong_counts)
    return scene.finish("; ".join([*twice, *run.wrong_counts]) or f"every row is processed once: {counts_named(found)}")
