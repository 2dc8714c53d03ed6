"""S10: each checkpoint option with two or more settings, and what the setting changes in a run."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any, Final

from sinkproof.execution.recorded_job import RecordedRun, letters
from sinkproof.explain.checkpoint_folders import listing, scratch_folder
from sinkproof.explain.demonstration import Check, Scene, check, fact
from sinkproof.explain.s05_unaligned import refusal_of_a_custom_exchange
from sinkproof.explain.small_jobs import COUNTING, requested_at, run_job, slow_upload
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
Compared = tuple[str, str, Any]  # a setting, its effect in words, the value


def scenes() -> tuple[Scene, ...]:
    return (_timing(), _failures(), _modes(), _storage(), _refused())


def _run(*, slow: bool = False, **options: Any) -> RecordedRun:
    """`slow`: snapshots of sink[1] take SLOW_UPLOAD_MS to persist."""
    if slow:
        options["before"] = slow_upload("sink[1]", SLOW_UPLOAD_MS)
    return run_job(PLAN, **{**EVERY, **options})


def _scene(title: str, ran: str, *, compared: list[Compared], checks: list[Check]) -> Scene:
    return Scene(
        title=title,
        ran=ran,
        facts=tuple(fact(f"{setting}: {words}", value) for setting, words, value in compared),
        outcome=f"{len(compared)} settings, {len({str(value) for _, _, value in compared})} different outcomes",
        checks=tuple(checks),
    )


# -- when, and how many at a time -----------------------------------------------------------------


def _timing() -> Scene:
    gaps = {n: _gaps(_run(checkpoint_interval=n, max_concurrent_checkpoints=9)) for n in (8, 20)}
    most = {n: _most_pending(_run(slow=True, max_concurrent_checkpoints=n)) for n in (1, 3)}
    pauses = {n: _least_pause(_run(checkpoint_interval=20, min_pause_between_checkpoints=n)) for n in (0, 15)}
    compared = [
        *((f"checkpoint_interval={n}", f"triggers {sorted(set(g))} ms apart", g) for n, g in gaps.items()),
        *((f"max_concurrent_checkpoints={n}", f"at most {m} pending at once", m) for n, m in most.items()),
        *(
            (f"min_pause_between_checkpoints={n}", f"at least {p:g} ms from the end of one to the next", p)
            for n, p in pauses.items()
        ),
    ]
    return _scene(
        "When checkpoints are triggered, and how many may be pending",
        "source x2 -> two-phase sink x2, checkpoint_interval=8, max_concurrent_checkpoints=1 unless stated otherwise",
        compared=compared,
        checks=[
            check("the interval is kept", [[8], [20]], [sorted(set(g)) for g in gaps.values()]),
            check("the most pending at once is the configured number", [1, 3], list(most.values())),
            check("the pause is kept, and is shorter when not set", (True, True), (pauses[15] >= 15, pauses[0] < 15)),
        ],
    )


def _gaps(run: RecordedRun) -> list[int]:
    """Between triggers by time; the end of the input triggers the last one."""
    return [int(later - earlier) for earlier, later in pairwise([each.at_ms for each in run.of("trigger")][:-1])]


def _most_pending(run: RecordedRun) -> int:
    pending, most = 0, 0
    for each in run.of("trigger", "complete", "aborted"):
        pending += 1 if each.kind == "trigger" else -1
        most = max(most, pending)
    return most


def _least_pause(run: RecordedRun) -> float:
    ends = {each.detail: each.at_ms for each in run.of("complete")}
    final = max(ends)
    return min(
        (each.at_ms - ends[each.detail - 1] for each in run.of("trigger") if 1 < each.detail < final), default=0.0
    )


# -- what is tolerated ----------------------------------------------------------------------------


def _failures() -> Scene:
    aborted = {
        n: len(_run(slow=True, checkpoint_timeout=n, tolerable_checkpoint_failure_number=2).of("aborted"))
        for n in (25, 600)
    }
    declines = "sink[0].acknowledge.before#2=decline sink[0].acknowledge.before#3=decline"
    restarts = {n: _run(schedule=declines, tolerable_checkpoint_failure_number=n).generations - 1 for n in (0, 1, 2)}
    compared = [
        *((f"checkpoint_timeout={n}", f"{count} checkpoints aborted", count) for n, count in aborted.items()),
        *(
            (f"tolerable_checkpoint_failure_number={n}, two declined in a row", f"the job restarts {m} times", m)
            for n, m in restarts.items()
        ),
    ]
    return _scene(
        "Which failures are tolerated",
        f"the same; for the timeout, persisting takes {SLOW_UPLOAD_MS} ms in one sink",
        compared=compared,
        checks=[
            check("too short a timeout aborts, a longer one does not", (True, 0), (aborted[25] > 0, aborted[600])),
            check("one failure more than is tolerated restarts the job", [2, 1, 0], list(restarts.values())),
        ],
    )


# -- modes ----------------------------------------------------------------------------------------


def _modes() -> Scene:
    """The same latencies and the same crash in each mode: rows repeated, in flight, lost."""
    modes: dict[str, dict[str, Any]] = {
        "exactly_once": {},
        "at_least_once": {"checkpointing_mode": CheckpointingMode.AT_LEAST_ONCE},
        "unaligned_checkpoints": {"unaligned_checkpoints": True},
        "unaligned_checkpoints, aligned_checkpoint_timeout=50": {
            "unaligned_checkpoints": True,
            "aligned_checkpoint_timeout": 50,
        },
        "unaligned_checkpoints, checkpoint_id_of_ignored_in_flight_data=1": {
            "unaligned_checkpoints": True,
            "checkpoint_id_of_ignored_in_flight_data": 1,
        },
    }
    found = {name: _repeated_in_flight_lost(options) for name, options in modes.items()}
    compared = [
        (name, f"{repeated} rows repeated, {flying} in flight in checkpoint 1, {lost} lost", [repeated, flying, lost])
        for name, (repeated, flying, lost) in found.items()
    ]
    aligned, at_least, unaligned, in_time, ignored = found.values()
    return _scene(
        "Modes",
        "2 sources -> count -> two-phase sink, checkpoint_interval=7, seed=2 checkpoint.notify#1=kill-job",
        compared=compared,
        checks=[
            check("aligned: no row repeated, in flight or lost", (0, 0, 0), aligned),
            check("at least once: rows repeated, none lost", (True, 0), (at_least[0] > 0, at_least[2])),
            check(
                "unaligned: rows in flight, none repeated or lost",
                (0, True, 0),
                (unaligned[0], unaligned[1] > 0, unaligned[2]),
            ),
            check("with a timeout that is long enough: as aligned", (0, 0, 0), in_time),
            check("ignored: the rows in flight are lost", ignored[1], ignored[2]),
        ],
    )


def _repeated_in_flight_lost(options: dict[str, Any]) -> tuple[int, int, int]:
    run = run_job(
        COUNTING, schedule="seed=2 checkpoint.notify#1=kill-job", **{**EVERY, "checkpoint_interval": 7, **options}
    )
    lost, _ = run.lost_and_repeated
    return len(run.repeated), len(in_flight(run.seen.decided[0])), len(lost)


# -- what is retained -----------------------------------------------------------------------------


def _storage() -> Scene:
    cleanups = {cleanup: _after_cancellation(cleanup) for cleanup in Cleanup}
    storages = {name: _restored_after_total_loss(name) for name in ("memory", "a folder")}
    compared: list[Compared] = [
        *(
            (
                f"externalized_checkpoint_cleanup={one.value}",
                f"after cancellation: {', '.join(left) or 'nothing'}",
                left,
            )
            for one, left in cleanups.items()
        ),
        *(
            (f"checkpoint_storage={name}", f"a new coordinator finds checkpoint {found or 'none'}", found)
            for name, found in storages.items()
        ),
    ]
    return _scene(
        "What is retained",
        "the job cancelled at 60 ms, its checkpoints in a folder; the job run to its end, then a new coordinator",
        compared=compared,
        checks=[
            check("retained, or deleted", [True, False], [bool(left) for left in cleanups.values()]),
            check("memory is lost, a folder is not", [False, True], [bool(found) for found in storages.values()]),
        ],
    )


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


def _refused() -> Scene:
    impossible: list[dict[str, Any]] = [
        {"checkpoint_interval": 0},
        {"checkpoint_interval": 10, "checkpoint_every_batches": 2},
        {"unaligned_checkpoints": True, "max_concurrent_checkpoints": 2},
        {"checkpoint_timeout": 0},
    ]
    doubtful: list[dict[str, Any]] = [
        {"min_pause_between_checkpoints": 5, "max_concurrent_checkpoints": 3},
        {"unaligned_checkpoints": True, "checkpointing_mode": CheckpointingMode.AT_LEAST_ONCE},
        {"checkpoint_interval": 5, "min_pause_between_checkpoints": 50},
    ]
    refusals = {_named(options): _refusal(options) for options in impossible}
    custom = {forced: refusal_of_a_custom_exchange(forced=forced) for forced in (False, True)}
    resolved = {_named(options): _resolved(options) for options in doubtful}
    return _scene(
        "What is refused, and what is warned about",
        "configurations constructed, no job run",
        compared=[
            *((name, f"refused: {why}" if why else "accepted", why) for name, why in refusals.items()),
            *(
                (f"force_unaligned_checkpoints={forced}, behind a custom exchange", why or "accepted", why)
                for forced, why in custom.items()
            ),
            *((name, f"warned: {why}", [why, *values]) for name, (why, values) in resolved.items()),
        ],
        checks=[
            check(
                "the impossible is refused with the reason", [True] * len(refusals), list(map(bool, refusals.values()))
            ),
            check("unaligned behind a custom exchange only if forced", [True, False], list(map(bool, custom.values()))),
            check("the doubtful is warned about", [True] * len(resolved), [bool(why) for why, _ in resolved.values()]),
            check(
                "and resolved as Flink does (concurrent, unaligned, interval)",
                [(1, False, 10), (1, False, 10), (1, False, 50)],
                [values for _, values in resolved.values()],
            ),
        ],
    )


def _named(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={getattr(value, 'value', value)}" for name, value in options.items())


def _refusal(options: dict[str, Any]) -> str:
    try:
        CheckpointConfiguration(**options)
    except ConfigurationError as error:
        return str(error)
    return ""


def _resolved(options: dict[str, Any]) -> tuple[str, tuple[int, bool, int | None]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = CheckpointConfiguration(**options)
    return "; ".join(str(each.message) for each in caught), (made.concurrent, made.unaligned, made.interval)
