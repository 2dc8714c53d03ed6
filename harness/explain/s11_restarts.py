"""S11: how long each strategy waits and when it gives up; and a restore with more, and with fewer, subtasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from sinkproof.execution.recorded_job import Run, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, counts_named, fact, rows_named
from sinkproof.explain.small_jobs import Transactional, counting_plan, greatest_values, true_counts
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.restart_strategy import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.sink_adapters.memory.memory_clients import MemoryTransactions
from sinkproof.sink_adapters.protocol import Context
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

LESSON: Final = (
    "a strategy only decides when to try again and when to stop; what is restored is always the latest complete "
    "checkpoint, and whoever the subtasks are now, each part of it has exactly one owner."
)
SOURCE: Final = letters("aebgaebg|gabegabe")
FAILURES: Final = 6  # so often the target cannot be opened; then it can
Strategy = Callable[[], RestartStrategy]
STRATEGIES: Final[tuple[tuple[str, Strategy, list[float], bool], ...]] = (  # name, it, delays asked for, it recovers
    ("none", NoRestart, [], False),
    ("fixed delay: 4 attempts, 5 ms", lambda: FixedDelay(attempts=4, delay=5), [5.0] * 4, False),
    ("fixed delay: 9 attempts, 5 ms", lambda: FixedDelay(attempts=9, delay=5), [5.0] * 6, True),
    ("failure rate: 3 within 10 s, 5 ms", lambda: FailureRate(failures=3, interval=10_000, delay=5), [5.0] * 3, False),
    ("failure rate: 3 within 10 ms, 5 ms", lambda: FailureRate(failures=3, interval=10, delay=5), [5.0] * 6, True),
    ("exponential: from 1 ms to 8 ms", lambda: ExponentialDelay(initial=1, limit=8), [1.0, 2, 4, 8, 8, 8], True),
)


def scenes() -> tuple[Scene, ...]:
    return (_strategies(), _rescaled(2, 1), _rescaled(1, 3), _named())


# -- strategies -----------------------------------------------------------------------------------


class Asked:
    """A strategy that notes what it answered."""

    def __init__(self, inner: RestartStrategy, delays: list[float | None]) -> None:
        self.inner, self.delays = inner, delays

    def next_delay(self, now: float) -> float | None:
        delay = self.inner.next_delay(now)
        self.delays.append(delay)
        return delay


class DownForAWhile(Transactional):
    """A target that cannot be opened the first few times."""

    def __init__(self) -> None:
        super().__init__()
        self.left = FAILURES

    def sink(self) -> TwoPhaseCommitSink:
        return Opening(self)


class Opening(TwoPhaseCommitSink):
    def __init__(self, world: DownForAWhile) -> None:
        super().__init__(MemoryTransactions(world.store))
        self.world = world

    def open(self, context: Context) -> Iterable[int]:
        if context.subtask == 0 and self.world.left > 0:
            self.world.left -= 1
            raise OSError("the target is down")
        return super().open(context)


def _strategies() -> Scene:
    tried = [(name, wanted, recovers, *_tried(make)) for name, make, wanted, recovers in STRATEGIES]
    return Scene(
        title=f"A target that is down {FAILURES} times",
        ran="the same job under each strategy; sink[0] cannot be opened at first",
        facts=tuple(
            fact(
                f"{name}: waits {', '.join(f'{delay:g}' for delay in delays if delay is not None) or 'never'} (ms), "
                + (f"recovers in generation {run.generations}" if run.simulation.finished else "gives up"),
                [delays, run.simulation.finished],
            )
            for name, _, _, run, delays in tried
        ),
        outcome=f"{sum(run.simulation.finished for _, _, _, run, _ in tried)} of {len(tried)} recover; all of those "
        "deliver every row once",
        checks=(
            *(
                check(
                    f"{name}: its delays, and whether it gives up",
                    [wanted, recovers],
                    [[delay for delay in delays if delay is not None], run.simulation.finished],
                )
                for name, wanted, recovers, run, delays in tried
            ),
            check(
                "who recovers loses and repeats nothing",
                [],
                [name for name, _, recovers, run, _ in tried if recovers and any(once_each(SOURCE, run.visible))],
            ),
        ),
    )


def _tried(make: Strategy) -> tuple[Run, list[float | None]]:
    target = DownForAWhile()
    delays: list[float | None] = []
    run = play(source_to_sink(SOURCE).plan(), target.sink, read=target.read, restart=lambda: Asked(make(), delays))
    return run, delays


# -- another parallelism --------------------------------------------------------------------------


def _rescaled(before: int, after: int) -> Scene:
    """Checkpoint 2 is complete, nobody has been told; what is restored has another parallelism."""
    target = Transactional()
    run = play(
        counting_plan(SOURCE, counts=before),
        target.sink,
        read=target.read,
        later=counting_plan(SOURCE, counts=after),
        schedule="checkpoint.notify#1=kill-job",
    )
    opened = [each for each in run.of("restored") if each.generation == 2]
    pending = run.stage.visible_when_struck[0]
    commits = sorted({each.actor for each in run.points("commit.after") if each.generation == 2})
    lost, extra = once_each(SOURCE, run.visible)
    counts = greatest_values(target.rows)
    return Scene(
        title=f"Restored with {after} instead of {before} counting and writing subtasks",
        ran=f"2 sources -> count -> two-phase sink, {run.schedule}, then sink parallelism {after}",
        steps=run.steps(
            *("complete", "generation", "restored"),
            points=["commit.after"],
            since=run.of("fault")[0].at_ms - 5,
            until=opened[-1].at_ms,
        ),
        facts=(
            fact(f"visible at the crash: {rows_named(pending)}; complete, so that it must come", pending),
            fact(
                f"restored: {', '.join(each.actor for each in opened)}; commits are made by {', '.join(commits)}",
                commits,
            ),
        ),
        outcome=f"counts {counts_named(counts)}; {len(run.visible)} rows visible, {len(lost)} lost, {len(extra)} too "
        "often",
        checks=(
            check("nothing was visible at the crash", [], pending),
            check(
                "the new subtasks",
                [f"sink[{index}]" for index in range(after)],
                sorted({each.actor for each in opened}),
            ),
            check("nothing is lost or repeated", ([], []), (lost, extra)),
            check("every count went to the owner of its key", true_counts(SOURCE), counts),
        ),
    )


def _named() -> Scene:
    """Somebody names a retained checkpoint, not the latest: what came later is read again."""
    target = Transactional()
    first = play(source_to_sink(SOURCE).plan(), target.sink, read=target.read)
    chosen = first.stage.decided[1]
    storage = MemoryCheckpointStorage(generation=first.simulation.generation, record=chosen)
    run = play(source_to_sink(SOURCE).plan(), target.sink, read=target.read, storage=storage)
    offsets = run.simulation.covered(chosen)
    remaining = [(split, at) for split in range(2) for at in range(offsets[split], SOURCE.length(split))]
    read = sorted(set(run.rows_written()))
    last = first.stage.decided[-1].checkpoint_id
    lost, extra = once_each(SOURCE, run.visible)
    return Scene(
        title="Restored from a named checkpoint, not the latest",
        ran=f"a job that ended with checkpoint {last}, begun again from {chosen.checkpoint_id} on the same target",
        facts=(fact(f"offsets in checkpoint {chosen.checkpoint_id}: {offsets}", offsets),),
        outcome=f"it reads {rows_named(read)}, which were delivered before: a rewind repeats {len(extra)} rows and "
        f"loses {len(lost)}",
        checks=(
            check("exactly what lies behind its offsets is read", remaining, read),
            check("and repeated, because this target appends", ([], remaining), (lost, extra)),
        ),
    )
