"""S11: the delays of each restart strategy, restores with more subtasks, fewer, and from a named checkpoint; and what
becomes of an attempt, and of a coordinator, on a host that is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from sinkproof.execution.recorded_job import RecordedRun
from sinkproof.explain.demonstration import Scene, counts_named, rows_named
from sinkproof.explain.small_jobs import LETTERS, MemoryTarget, counting, run_job
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.restart_strategy import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)
from sinkproof.sink_adapters.memory.memory_clients import MemoryTransactions
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Context
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

LESSON: Final = (
    "a strategy only decides when to restart and when to give up; the restored checkpoint is always the latest "
    "complete one, and with any parallelism each part of it has exactly one owner."
)
FAILURES: Final = 6  # calls of `open` that fail before the target is available
Strategy = Callable[[], RestartStrategy]
STRATEGIES: Final[tuple[tuple[str, Strategy, list[float], bool], ...]] = (  # name, strategy, its delays, it recovers
    ("none", NoRestart, [], False),
    ("fixed delay: 4 attempts, 5 ms", lambda: FixedDelay(attempts=4, delay=5), [5.0] * 4, False),
    ("fixed delay: 9 attempts, 5 ms", lambda: FixedDelay(attempts=9, delay=5), [5.0] * 6, True),
    ("failure rate: 3 within 10 s, 5 ms", lambda: FailureRate(failures=3, interval=10_000, delay=5), [5.0] * 3, False),
    ("failure rate: 3 within 10 ms, 5 ms", lambda: FailureRate(failures=3, interval=10, delay=5), [5.0] * 6, True),
    ("exponential: from 1 ms to 8 ms", lambda: ExponentialDelay(initial=1, limit=8), [1.0, 2, 4, 8, 8, 8], True),
)


def scenes() -> tuple[Scene, ...]:
    return (_strategies(), _rescaled(2, 1), _rescaled(1, 3), _named(), _cut_off_attempt(), _cut_off_coordinator())


# -- strategies -----------------------------------------------------------------------------------


class RecordedStrategy:
    """Records the delays that a strategy returns."""

    def __init__(self, inner: RestartStrategy, delays: list[float | None]) -> None:
        self.inner, self.delays = inner, delays

    def next_delay(self, now: float) -> float | None:
        delay = self.inner.next_delay(now)
        self.delays.append(delay)
        return delay


class UnavailableAtFirst(TwoPhaseCommitSink):
    """Its target is down while `failures` are left, which all attempts share."""

    def __init__(self, store: MemoryStore, failures: list[OSError]) -> None:
        super().__init__(MemoryTransactions(store))
        self.failures = failures

    def open(self, context: Context) -> Iterable[int]:
        if context.subtask == 0 and self.failures:
            raise self.failures.pop()
        return super().open(context)


def _strategies() -> Scene:
    tried = {name: _tried(make) for name, make, _, _ in STRATEGIES}
    recovered = {name: run.simulation.finished for name, (run, _) in tried.items()}
    delays = {name: [delay for delay in returned if delay is not None] for name, (_, returned) in tried.items()}
    scene = Scene(f"A target that is down {FAILURES} times")
    scene.ran = "the same job under each strategy; sink[0] cannot be opened at first"
    for name, (run, returned) in tried.items():
        scene.fact(
            f"{name}: delays {', '.join(f'{delay:g}' for delay in delays[name]) or 'none'} (ms), "
            + (f"recovers in generation {run.generations}" if recovered[name] else "gives up"),
            [returned, recovered[name]],
        )
    for name, _, wanted, recovers in STRATEGIES:
        scene.check(f"{name}: its delays, and whether it gives up", [wanted, recovers], [delays[name], recovered[name]])
    scene.check(
        "no row is lost or repeated under a strategy that recovers",
        [],
        [name for name, _, _, recovers in STRATEGIES if recovers and any(tried[name][0].lost_and_repeated)],
    )
    return scene.finish(f"{sum(recovered.values())} of {len(tried)} recover, and deliver every row once")


def _tried(make: Strategy) -> tuple[RecordedRun, list[float | None]]:
    delays: list[float | None] = []
    failures = [OSError("the target is down") for _ in range(FAILURES)]
    target = MemoryTarget(make=lambda store: UnavailableAtFirst(store, failures))
    return run_job(target=target, restart=lambda: RecordedStrategy(make(), delays)), delays


# -- another parallelism, another checkpoint ------------------------------------------------------


def _rescaled(before: int, after: int) -> Scene:
    """A checkpoint is complete, no sink has been notified; the restore has another parallelism."""
    run = run_job(
        plan=counting(LETTERS, counts=before).plan(),
        later=counting(LETTERS, counts=after).plan(),
        schedule="checkpoint.notify#1=kill-job",
    )
    opened = run.of("restored", generation=2)
    visible = run.seen.visible_at_fault[0]
    commits = sorted({each.actor for each in run.points("commit.after", generation=2)})
    lost, repeated = run.lost_and_repeated
    since, until = run.crash_ms - 5, opened[-1].at_ms
    scene = Scene(f"Restored with {after} instead of {before} counting and writing subtasks")
    scene.ran = f"2 sources -> count -> two-phase sink, {run.schedule}, then sink parallelism {after}"
    scene.steps = timeline(run, *RECOVERY, points=["commit.after"], since=since, until=until)
    scene.fact(f"visible at the crash: {rows_named(visible)}; the restore must commit the complete checkpoint", visible)
    scene.fact(
        f"restored: {', '.join(each.actor for each in opened)}; commits are made by {', '.join(commits)}", commits
    )
    scene.check("no row was visible at the crash", [], visible)
    scene.check("the new subtasks", [f"sink[{at}]" for at in range(after)], sorted({each.actor for each in opened}))
    scene.check_each_row_once(run)
    scene.check("every count was restored by the owner of its key", run.right_counts, run.counts)
    return scene.finish(
        f"counts {counts_named(run.counts)}; {len(run.visible)} rows visible, {len(lost)} lost, {len(repeated)} "
        "too often"
    )


def _named() -> Scene:
    """A named retained checkpoint, not the latest: the rows behind it are read again."""
    target = MemoryTarget()
    first = run_job(target=target)
    chosen = first.seen.decided[1]
    storage = MemoryCheckpointStorage(generation=first.simulation.generation, record=chosen)
    run = run_job(target=target, storage=storage)
    offsets = run.simulation.covered(chosen)
    remaining = [(split, at) for split in range(2) for at in range(offsets[split], LETTERS.length(split))]
    read = sorted(set(run.rows_written()))
    last = first.seen.decided[-1].checkpoint_id
    lost, repeated = run.lost_and_repeated
    scene = Scene("Restored from a named checkpoint, not the latest")
    scene.ran = f"a job that ended with checkpoint {last}, started again from {chosen.checkpoint_id} on the same target"
    scene.fact(f"offsets in checkpoint {chosen.checkpoint_id}: {offsets}", offsets)
    scene.check("exactly the rows behind its offsets are read", remaining, read)
    scene.check("they are repeated, because this target appends", ([], remaining), (lost, repeated))
    return scene.finish(
        f"it reads {rows_named(read)}, which were delivered before: a rewind repeats {len(repeated)} rows and "
        f"loses {len(lost)}"
    )


# -- hosts that are cut off -----------------------------------------------------------------------


def _cut_off_attempt() -> Scene:
    """The attempt cannot know that it was replaced: what it does to the target late must be refused there."""
    run = run_job(schedule="sink[0].commit.before#1=stop")
    opened = run.of("restored", generation=2)
    commits = [each for each in run.points("commit.before", generation=1) if each.at_ms > opened[0].at_ms]
    lost, repeated = run.lost_and_repeated
    scene = Scene("A subtask on a host that is cut off from the coordinator, but not from the target")
    scene.ran = f"the same job, {run.schedule}: no word of it arrives, and it goes on when its successor runs"
    scene.steps = timeline(run, *RECOVERY, points=["commit.before", "commit.after"], since=run.crash_ms - 5)
    scene.fact(
        f"its successor restores {opened[0].at_ms - run.crash_ms:g} ms after its last sign; both attempts exist then",
        [each.actor for each in opened],
    )
    scene.check("its successor has another generation", [2], sorted({each.generation for each in opened}))
    scene.check("the late attempt began no commit that its successor had not settled", [], commits)
    scene.check_each_row_once(run)
    return scene.finish(f"{len(run.visible)} rows visible, {len(lost)} lost, {len(repeated)} too often")


def _cut_off_coordinator() -> Scene:
    """Another one may start anywhere, as soon as it has claimed the next generation in the same storage."""
    run = run_job(schedule="checkpoint.persist.before#2=depose")
    generations = run.generations
    lost, repeated = run.lost_and_repeated
    scene = Scene("A coordinator that was taken for dead, and decides late")
    scene.ran = f"the same job, {run.schedule}: a second coordinator is elected, then the first one resumes"
    scene.steps = timeline(run, *RECOVERY, since=run.crash_ms - 5)
    scene.fact(f"generations claimed: {generations}; a claim is durable before anything is restored", generations)
    scene.check("the second one claimed the next generation", True, generations >= 2)
    scene.check_each_row_once(run)
    return scene.finish(
        f"the late decision counts for nothing: {len(run.visible)} rows visible, {len(lost)} lost, "
        f"{len(repeated)} too often"
    )
