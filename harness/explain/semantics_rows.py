"""Lists the rows of the semantics: a sentence for each, and the module that demonstrates it."""

from __future__ import annotations

import importlib
import traceback
from dataclasses import dataclass
from typing import Final

from sinkproof.explain.demonstration import Demonstration, Scene
from sinkproof.sink_adapters.protocol import Fenced, TransactionLost


@dataclass(frozen=True, slots=True)
class RowEntry:
    module: str  # of this package; it offers `scenes()` and LESSON
    sentence: str


_TABLE: Final = (
    ("S01", "s01_naive_snapshot", "Why a naive snapshot is wrong, and so is one at a clock tick of a master"),
    ("S02", "s02_epochs", "Barriers with growing ids divide every stream into epochs"),
    ("S03", "s03_alignment", "Alignment: rows behind an early barrier wait until the snapshot is taken"),
    ("S04", "s04_at_least_once", "At-least-once mode: barriers are tracked, not aligned, and a restore repeats rows"),
    ("S05", "s05_unaligned", "Unaligned: the barrier overtakes rows, which become part of the snapshot"),
    ("S06", "s06_asynchronous", "Snapshots are asynchronous; complete means all acknowledged and durably decided"),
    ("S07", "s07_cancelled", "A cancelled snapshot releases its buffers, its files and its channels"),
    ("S08", "s08_state", "What a checkpoint holds, where it is stored, and how a damaged one is handled"),
    ("S09", "s09_votes", "Completion is two-phase commit: votes, a decision, commits"),
    ("S10", "s10_configuration", "Every checkpoint option, shown by its effect"),
    ("S11", "s11_restarts", "Restart strategies, and restoring with another parallelism"),
    ("S12", "s12_final_checkpoint", "The last rows are committed by a final checkpoint"),
    (
        "S13",
        "s13_count_and_etl",
        "Offset 2 and count 2 in one snapshot; after a crash the source resumes at the third row",
    ),
    (
        "S14",
        "s14_chaining_and_channels",
        "Three ways to hand rows over: a call, a channel to another subtask, the network",
    ),
    ("S15", "s15_backpressure", "Bounded buffers and credits propagate backpressure from a slow sink to the source"),
    ("S16", "s16_windows", "Event-time windows with watermarks: state inside, exactly once outside"),
    ("S17", "s17_source_offsets", "Offsets live in the checkpoint; the broker's copy is for monitoring only"),
    ("S18", "s18_pending", "Acknowledged but incomplete is pending: invisible, then committed or aborted"),
    ("S19", "s19_idempotent", "Idempotent: right while replays produce the same keys, wrong as soon as they do not"),
    ("S20", "s20_write_ahead", "Write-ahead: sent in order after completion; its two holes, and what closes them"),
    ("S21", "s21_two_phase", "Two-phase commit: user context, several pending transactions, the loss by timeouts"),
    ("S22", "s22_files", "Files: in progress, pending, committed by an atomic rename; recovery by handle"),
    (
        "S23",
        "s23_kafka_transactions",
        "Kafka: transactions resumed by another process, lingering ones, the reuse defect",
    ),
    ("S24", "s24_cassandra", "Cassandra: write-ahead with its own committer, and an idempotent sink"),
    ("S25", "s25_masked", "The general solution: rows are masked in the target and revealed by one atomic marker"),
    ("S26", "s26_comparison", "The strategies compared, measured on every pair of strategy and target"),
    ("S27", "s27_end_to_end", "Exactly once inside the engine is not exactly once end to end"),
)
ROWS: Final = {row: RowEntry(module, sentence) for row, module, sentence in _TABLE}

# Raised when the engine is broken: an expected event is missing, or a sink that a demonstration drives itself gave up.
BROKEN: Final = (LookupError, StopIteration, ValueError, FileNotFoundError, TransactionLost, Fenced)


def demonstrate(row: str) -> Demonstration:
    """Runs the scenes of a row. `row`: a key of ROWS."""
    entry = ROWS[row]
    module = importlib.import_module(f"sinkproof.explain.{entry.module}")
    try:
        scenes: tuple[Scene, ...] = module.scenes()
    except BROKEN as error:
        scenes = (_missing_event(error),)
    return Demonstration(row=row, sentence=entry.sentence, scenes=scenes, lesson=module.LESSON)


def _missing_event(error: Exception) -> Scene:
    where = traceback.extract_tb(error.__traceback__)
    here = next(frame for frame in reversed(where) if "explain" in frame.filename)
    scene = Scene("An expected event is missing")
    scene.ran = "the scenes up to the line below"
    what = f"the event that line {here.lineno} of {here.name}() needs has occurred: {here.line}"
    scene.check(what, "something", f"{type(error).__name__}: {error}")
    return scene.with_outcome("the engine did not do what the row says")
