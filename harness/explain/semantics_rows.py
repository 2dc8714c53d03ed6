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


SENTENCES: Final = {  # module -> what it shows; its name begins with the row
    "s01_naive_snapshot": "Why a naive snapshot is wrong, and so is one at a clock tick of a master",
    "s02_epochs": "Barriers with growing ids divide every stream into epochs",
    "s03_alignment": "Alignment: rows behind an early barrier wait until the snapshot is taken",
    "s04_at_least_once": "At-least-once mode: barriers are tracked, not aligned, and a restore repeats rows",
    "s05_unaligned": "Unaligned: the barrier overtakes rows, which become part of the snapshot",
    "s06_asynchronous": "Snapshots are asynchronous; complete means all acknowledged and durably decided",
    "s07_cancelled": "A cancelled snapshot releases its buffers, its files and its channels",
    "s08_state": "What a checkpoint holds, where it is stored, and how a damaged one is handled",
    "s09_votes": "Completion is two-phase commit: votes, a decision, commits",
    "s10_configuration": "Every checkpoint option, shown by its effect",
    "s11_restarts": "Restart strategies, and restoring with another parallelism",
    "s12_final_checkpoint": "The last rows are committed by a final checkpoint",
    "s13_count_and_etl": "Offset 2 and count 2 in one snapshot; after a crash the source resumes at the third row",
    "s14_chaining_and_channels": "Three ways to hand rows over: a call, a channel to another subtask, the network",
    "s15_backpressure": "Bounded buffers and credits propagate backpressure from a slow sink to the source",
    "s16_windows": "Event-time windows with watermarks: state inside, exactly once outside",
    "s17_source_offsets": "Offsets live in the checkpoint; the broker's copy is for monitoring only",
    "s18_pending": "Acknowledged but incomplete is pending: invisible, then committed or aborted",
    "s19_idempotent": "Idempotent: right while replays produce the same keys, wrong as soon as they do not",
    "s20_write_ahead": "Write-ahead: sent in order after completion; its two holes, and what closes them",
    "s21_two_phase": "Two-phase commit: user context, several pending transactions, the loss by timeouts",
    "s22_files": "Files: in progress, pending, committed by an atomic rename; recovery by handle",
    "s23_kafka_transactions": "Kafka: transactions resumed by another process, lingering ones, the reuse defect",
    "s24_cassandra": "Cassandra: write-ahead with its own committer, and an idempotent sink",
    "s25_masked": "The general solution: rows are masked in the target and revealed by one atomic marker",
    "s26_comparison": "The strategies compared, measured on every pair of strategy and target",
    "s27_end_to_end": "Exactly once inside the engine is not exactly once end to end",
}
ROWS: Final = {module[:3].upper(): RowEntry(module, sentence) for module, sentence in SENTENCES.items()}

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
    return scene.finish("the engine did not do what the row says")
