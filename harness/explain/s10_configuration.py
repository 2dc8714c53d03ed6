"""S10: each checkpoint option with two or more settings, and what the setting changes in a run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Final

from sinkproof.execution.recorded_job import RecordedRun, letters
from sinkproof.explain.demonstration import Scene
from sinkproof.explain.s05_unaligned import refusal_of_a_custom_exchange
from sinkproof.explain.small_jobs import COUNTING, listing, refusal, requested_at, run_job, scratch_folder, slow_upload
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import (
    CheckpointConfiguration,
    CheckpointingMode,
    Cleanup,
    ConfigurationError,
)
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.open_storage import open_storage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import in_flight
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink

LESSON: Final = (
    "options are promises about behaviour: each is measured here by what changes when it is set; an impossible "
    "combination is refused with the reason, a doubtful one is resolved with a warning."
)
PLAN: Final = source_to_sink(letters("aebgaebgaebgaebg|gabegabegabegabe")).plan()
EVERY: Final[dict[str, Any]] = {"checkpoint_interval": 8, "max_concurrent_checkpoints": 1}
SLOW_UPLOAD_MS: Final = 30


def scenes() -> tuple[Scene, ...]:
    return (_timing(), _failures(), _modes(), _storage(), _refused())


class OptionScene(Scene):
    """Its facts are settings with their effects."""

    def settings(self, option: str, observed: Mapping[Any, Any], effect: Callable[[Any], str]) -> None:
        """`observed`: value of the option -> what was observed with it; `effect` says that in words."""
        for value, found in observed.items():
            self.fact(f"{option}={value}: {effect(found)}", found)

    def compared(self) -> Scene:
        values = {str(fact.value) for fact in self.facts}
        return self.finish(f"{len(self.facts)} settings, {len(values)} different outcomes")


def _run(*, slow: bool = False, **options: Any) -> RecordedRun:
    """`slow`: snapshots of sink[1] take SLOW_UPLOAD_MS to persist."""
    if slow:
        options["before"] = slow_upload("sink[1]", SLOW_UPLOAD_MS)
    return run_job(plan=PLAN, **{**EVERY, **options})


# -- when, and how many at a time -----------------------------------------------------------------


def _timing() -> Scene:
    scene = OptionScene("When checkpoints are triggered, and how many may be pending")
    scene.ran = "source x2 -> two-phase sink x2, checkpoint_interval=8, max_concurrent_checkpoints=1 unless stated"
    gaps = {n: _gaps(_run(checkpoint_interval=n, max_concurrent_checkpoints=9)) for n in (8, 20)}
    scene.settings("checkpoint_interval", gaps, lambda found: f"triggers {sorted(set(found))} ms apart")
    scene.check("the interval is kept", [[8], [20]], [sorted(set(found)) for found in gaps.values()])
    most = {n: _most_pending(_run(slow=True, max_concurrent_checkpoints=n)) for n in (1, 3)}
    scene.settings("max_concurrent_checkpoints", most, lambda pending: f"at most {pending} pending at once")
    scene.check("the most pending at once is the configured number", [1, 3], list(most.values()))
    pauses = {n: _least_pause(_run(checkpoint_interval=20, min_pause_between_checkpoints=n)) for n in (0, 15)}
    scene.settings(
        "min_pause_between_checkpoints", pauses, lambda pause: f"at least {pause:g} ms from the end of one to the next"
    )
    scene.check("the pause is kept, and is shorter if not set", (True, True), (pauses[15] >= 15, pauses[0] < 15))
    return scene.compared()


def _gaps(run: RecordedRun) -> list[int]:
    """Between triggers by time; the end of the input triggers the last one."""
    return [int(later - earlier) for earlier, later in pairwise([each.at_ms for each in run.of("trigger")][:-1])]


def _most_pending(run: RecordedRun) -> int:
    steps = (1 if each.kind == "trigger" else -1 for each in run.of("trigger", "complete", "aborted"))
    return max(accumulate(steps))


def _least_pause(run: RecordedRun) -> float:
    ends = {each.detail: each.at_ms for each in run.of("complete")}
    by_time = [each for each in run.of("trigger") if 1 < each.detail < max(ends)]
    return min((each.at_ms - ends[each.detail - 1] for each in by_time), default=0.0)


# -- what is tolerated ----------------------------------------------------------------------------


def _failures() -> Scene:
    scene = OptionScene("Which failures are tolerated")
    scene.ran = f"the same; for the timeout, persisting takes {SLOW_UPLOAD_MS} ms in one sink"
    timed = {n: _run(slow=True, checkpoint_timeout=n, tolerable_checkpoint_failure_number=2) for n in (25, 600)}
    aborted = {n: len(run.of("aborted")) for n, run in timed.items()}
    scene.settings("checkpoint_timeout", aborted, lambda count: f"{count} checkpoints aborted")
    scene.check("too short a timeout aborts, a longer one does not", (True, 0), (aborted[25] > 0, aborted[600]))
    declines = "sink[0].acknowledge.before#2=decline sink[0].acknowledge.before#3=decline"
    runs = {n: _run(schedule=declines, tolerable_checkpoint_failure_number=n) for n in (0, 1, 2)}
    restarts = {f"{n}, two declined in a row": run.generations - 1 for n, run in runs.items()}
    scene.settings("tolerable_checkpoint_failure_number", restarts, lambda count: f"the job restarts {count} times")
    scene.check("one failure more than is tolerated restarts the job", [2, 1, 0], list(restarts.values()))
    return scene.compared()


# -- modes ----------------------------------------------------------------------------------------

UNALIGNED: Final[dict[str, Any]] = {"unaligned_checkpoints": True}
MODES: Final[dict[str, dict[str, Any]]] = {
    "exactly_once": {},
    "at_least_once": {"checkpointing_mode": CheckpointingMode.AT_LEAST_ONCE},
    "unaligned_checkpoints": UNALIGNED,
    "unaligned_checkpoints, aligned_checkpoint_timeout=50": {**UNALIGNED, "aligned_checkpoint_timeout": 50},
    "unaligned_checkpoints, checkpoint_id_of_ignored_in_flight_data=1": {
        **UNALIGNED,
        "checkpoint_id_of_ignored_in_flight_data": 1,
    },
}


def _modes() -> Scene:
    """The same latencies and the same crash in each mode: rows repeated, in flight, lost."""
    scene = OptionScene("Modes")
    scene.ran = "2 sources -> count -> two-phase sink, checkpoint_interval=7, seed=2 checkpoint.notify#1=kill-job"
    found = []
    for name, options in MODES.items():
        options = {**EVERY, "checkpoint_interval": 7, **options}
        run = run_job(plan=COUNTING, schedule="seed=2 checkpoint.notify#1=kill-job", **options)
        lost, _ = run.lost_and_repeated
        repeated, flying = len(run.repeated), len(in_flight(run.seen.decided[0]))
        found.append([repeated, flying, len(lost)])
        scene.fact(f"{name}: {repeated} rows repeated, {flying} in flight in checkpoint 1, {len(lost)} lost", found[-1])
    aligned, at_least, (again, flying, gone), in_time, ignored = found
    scene.check("aligned: no row repeated, in flight or lost", (0, 0, 0), aligned)
    scene.check("at least once: rows repeated, none lost", (True, 0), (at_least[0] > 0, at_least[2]))
    scene.check("unaligned: rows in flight, none repeated or lost", (0, True, 0), (again, flying > 0, gone))
    scene.check("with a timeout that is long enough: as aligned", (0, 0, 0), in_time)
    scene.check("ignored: the rows in flight are lost", ignored[1], ignored[2])
    return scene.compared()


# -- what is retained -----------------------------------------------------------------------------


def _storage() -> Scene:
    scene = OptionScene("What is retained")
    scene.ran = (
        "the job cancelled at 60 ms, its checkpoints in a folder; the job run to its end, then a new coordinator"
    )
    cleanups = {cleanup.value: _after_cancellation(cleanup) for cleanup in Cleanup}
    scene.settings(
        "externalized_checkpoint_cleanup", cleanups, lambda left: f"after cancellation: {', '.join(left) or 'nothing'}"
    )
    scene.check("retained, or deleted", [True, False], [bool(left) for left in cleanups.values()])
    storages = {name: _restored_after_total_loss(name) for name in ("memory", "a folder")}
    scene.settings(
        "checkpoint_storage",
        storages,
        lambda found: f"a new coordinator finds {f'checkpoint {found}' if found else 'no checkpoint'}",
    )
    scene.check("memory is lost, a folder is not", [False, True], [bool(found) for found in storages.values()])
    return scene.compared()


def _after_cancellation(cleanup: Cleanup) -> list[str]:
    with scratch_folder() as folder:
        storage = FolderCheckpointStorage(folder, say=lambda text: None)
        _run(storage=storage, before=requested_at(60, "cancel"), externalized_checkpoint_cleanup=cleanup)
        return [f"chk-{one}" for one in storage.complete()] if listing(folder, pattern="chk-*") else []


def _restored_after_total_loss(name: str) -> int:
    """The checkpoint that a coordinator finds with nothing but the configured storage; 0: none."""
    with scratch_folder() as folder:
        configuration = CheckpointConfiguration(checkpoint_storage="memory" if name == "memory" else str(folder))
        _run(storage=open_storage(configuration))
        found = open_storage(configuration).latest()
        return found.checkpoint_id if found else 0


# -- what is refused ------------------------------------------------------------------------------

IMPOSSIBLE: Final[tuple[dict[str, Any], ...]] = (
    {"checkpoint_interval": 0},
    {"checkpoint_interval": 10, "checkpoint_every_batches": 2},
    {"unaligned_checkpoints": True, "max_concurrent_checkpoints": 2},
    {"checkpoint_timeout": 0},
)
DOUBTFUL: Final[tuple[tuple[dict[str, Any], tuple[int, bool, int]], ...]] = (  # and (concurrent, unaligned, interval)
    ({"min_pause_between_checkpoints": 5, "max_concurrent_checkpoints": 3}, (1, False, 10)),
    ({"unaligned_checkpoints": True, "checkpointing_mode": CheckpointingMode.AT_LEAST_ONCE}, (1, False, 10)),
    ({"checkpoint_interval": 5, "min_pause_between_checkpoints": 50}, (1, False, 50)),
)


def _refused() -> Scene:
    scene = OptionScene("What is refused, and what is warned about")
    scene.ran = "configurations constructed, no job run"
    refusals = [refusal(ConfigurationError, partial(CheckpointConfiguration, **options)) for options in IMPOSSIBLE]
    for options, why in zip(IMPOSSIBLE, refusals, strict=True):
        scene.fact(f"{_named(options)}: {f'refused: {why}' if why else 'accepted'}", why)
    custom = {
        f"{forced}, behind a custom exchange": refusal_of_a_custom_exchange(forced=forced) for forced in (False, True)
    }
    scene.settings("force_unaligned_checkpoints", custom, lambda why: why or "accepted")
    resolved = [_resolved(options) for options, _ in DOUBTFUL]
    for (options, _), (why, values) in zip(DOUBTFUL, resolved, strict=True):
        scene.fact(f"{_named(options)}: warned: {why}", [why, *values])
    scene.check("the impossible is refused with the reason", [True] * len(IMPOSSIBLE), list(map(bool, refusals)))
    scene.check("unaligned behind a custom exchange only if forced", [True, False], list(map(bool, custom.values())))
    scene.check("the doubtful is warned about", [True] * len(DOUBTFUL), [bool(why) for why, _ in resolved])
    scene.check(
        "and resolved as Flink does (concurrent, unaligned, interval)",
        [right for _, right in DOUBTFUL],
        [values for _, values in resolved],
    )
    return scene.compared()


def _named(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={getattr(value, 'value', value)}" for name, value in options.items())


def _resolved(options: dict[str, Any]) -> tuple[str, tuple[int, bool, int | None]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = CheckpointConfiguration(**options)
    return "; ".join(str(each.message) for each in caught), (made.concurrent, made.unaligned, made.interval)
