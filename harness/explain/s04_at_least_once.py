"""S04: the same job, the same crash, with barriers aligned and with barriers only tracked."""

from __future__ import annotations

from typing import Final

from sinkproof.execution.recorded_job import Identity, Run, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, counts_named, fact, row_name, rows_named, times
from sinkproof.explain.small_jobs import Transactional, counting_plan, greatest_values, true_counts
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointingMode

LESSON: Final = (
    "tracking the barriers lets rows into the snapshot that the sources' offsets do not cover, and a restore reads "
    "exactly those again. Texts that say that unaligned checkpoints lose exactly-once mean this mode; unaligned "
    "checkpoints proper (S05) keep such rows in the snapshot, and are exactly once."
)
SOURCE: Final = letters("aabaab|babaab")
SEEDS: Final = range(1, 20)  # other latencies: with some, no row overtakes anything


def scenes() -> tuple[Scene, ...]:
    seed = next(seed for seed in SEEDS if _run(CheckpointingMode.AT_LEAST_ONCE, seed)[0].repeated)
    return (_scene(CheckpointingMode.AT_LEAST_ONCE, seed), _scene(CheckpointingMode.EXACTLY_ONCE, seed))


def _run(mode: CheckpointingMode, seed: int) -> tuple[Run, Transactional]:
    """Checkpoint 1 is complete; then everybody dies, and a new generation starts from it."""
    target = Transactional()
    run = play(
        counting_plan(SOURCE),
        target.sink,
        read=target.read,
        schedule=f"seed={seed} checkpoint.notify#1=kill-job",
        checkpoint_interval=7,
        checkpointing_mode=mode,
    )
    return run, target


def behind_an_early_barrier(run: Run) -> list[Identity]:
    """Rows that the snapshots of checkpoint 1 hold, although the offsets in it do not cover them."""
    offsets = run.simulation.covered(run.stage.decided[0])
    return sorted(row for row in run.rows_written(before_snapshot=1) if row[1] >= offsets[row[0]])


def _scene(mode: CheckpointingMode, seed: int) -> Scene:
    run, target = _run(mode, seed)
    early, right, seen = behind_an_early_barrier(run), true_counts(SOURCE), greatest_values(target.rows)
    lost, _ = once_each(SOURCE, run.visible)
    aligned = mode is CheckpointingMode.EXACTLY_ONCE
    wrong = [f"count {key}={seen[key]}, expected {right[key]}" for key in right if seen[key] != right[key]]
    twice = [f"row {row_name(row)} is processed {times(run.visible.count(row))}" for row in run.repeated]
    return Scene(
        title="Aligned (exactly_once): the right result" if aligned else "Tracked (at_least_once): a wrong result",
        ran=f"2 sources -> keyed count -> two-phase sink, checkpointing_mode={mode.value}, {run.schedule}",
        steps=run.steps("barrier", "writes", "snapshot", "drains", actors=("sink", "coordinator"), until=_crash(run)),
        facts=(
            fact(
                f"offsets in checkpoint 1: {run.simulation.covered(run.stage.decided[0])}; rows that its snapshot "
                f"holds beyond them: {rows_named(early)}",
                early,
            ),
            fact(f"counts delivered: {counts_named(seen)}; in the input: {counts_named(right)}", seen),
        ),
        outcome="; ".join([*twice, *wrong]) or f"every row is processed once: {counts_named(seen)}",
        checks=(
            check("exactly the rows behind an early barrier are repeated", early, run.repeated),
            check("some rows are repeated" if not aligned else "none is", aligned, not twice),
            check("no row is lost", [], lost),
            check("the counts are right" if aligned else "some counts are wrong", aligned, not wrong),
        ),
    )


def _crash(run: Run) -> float:
    return run.of("fault")[0].at_ms
