"""Which rows there are, a sentence for each, and the module that shows it."""

from __future__ import annotations

import importlib
import traceback
from dataclasses import dataclass
from typing import Final

from sinkproof.explain.demonstration import Demonstration, Scene, check
from sinkproof.sink_adapters.protocol import Fenced, TransactionLost


@dataclass(frozen=True, slots=True)
class About:
    module: str  # of this package; it offers `scenes()` and LESSON
    sentence: str


ROWS: Final[dict[str, About]] = {
    "S01": About("s01_naive_snapshot", "Why a naive snapshot is wrong, and one at a master's clock tick, too"),
    "S02": About("s02_epochs", "Barriers with growing ids divide every stream into epochs"),
    "S03": About("s03_alignment", "Alignment: rows behind an early barrier wait until the snapshot is taken"),
    "S04": About("s04_at_least_once", "Barriers tracked, not aligned: a restore repeats the rows behind an early one"),
    "S05": About("s05_unaligned", "Unaligned: the barrier overtakes rows, which become part of the snapshot"),
    "S06": About("s06_asynchronous", "Snapshots are asynchronous; complete means all acknowledged and durably decided"),
    "S07": About("s07_cancelled", "A cancelled snapshot releases its buffers, its files and its channels"),
    "S08": About("s08_state", "What a checkpoint holds, where it is kept, and what a damaged one leads to"),
    "S09": About("s09_votes", "Completion is two-phase commit: votes, a decision, commits"),
    "S10": About("s10_configuration", "Every option of checkpoints, by its effect"),
    "S11": About("s11_restarts", "Restart strategies, and restoring with another parallelism"),
    "S12": About("s12_the_end", "The last rows are committed by a final checkpoint"),
    "S13": About("s13_counting", "Offset 2 and count 2 in one snapshot; after a crash the third row is next"),
    "S14": About("s14_handing_over", "Three ways to hand rows over: a call, another subtask, the network"),
    "S15": About("s15_backpressure", "Bounded buffers and credits carry a slow sink's pace back to the source"),
    "S16": About("s16_windows", "Event-time windows with watermarks: state inside, exactly once outside"),
    "S17": About("s17_source_offsets", "Offsets live in the checkpoint; the broker's copy is for monitoring only"),
    "S18": About("s18_pending", "Acknowledged but incomplete is pending: invisible, then committed or aborted"),
    "S19": About("s19_idempotent", "Idempotent: right while replays make the same keys, wrong as soon as not"),
    "S20": About(
        "s20_write_ahead", "Write-ahead: order kept, sent after completion; its two holes, and what closes them"
    ),
    "S21": About("s21_two_phase", "Two-phase commit: user context, several pending, timeouts and the loss they cause"),
    "S22": About("s22_files", "Files: in progress, pending, committed by an atomic rename; recovery by handle"),
    "S23": About("s23_kafka_transactions", "Kafka: transactions resumed elsewhere, lingering ones, the reuse defect"),
    "S24": About("s24_cassandra", "Cassandra: write-ahead with a committer of its own, and an idempotent sink"),
    "S25": About("s25_masked", "The general solution: rows masked in the target, revealed by one atomic marker"),
    "S26": About("s26_comparison", "The comparison of the ways to deliver, measured on every pair"),
    "S27": About("s27_end_to_end", "Exactly once inside the engine is not exactly once end to end"),
}

# What a demonstration meets in an engine that is broken: something that must happen did not, or a sink gave up by hand.
BROKEN: Final = (LookupError, StopIteration, ValueError, FileNotFoundError, TransactionLost, Fenced)


def demonstrate(row: str) -> Demonstration:
    """Runs it, now. `row`: a key of ROWS."""
    about = ROWS[row]
    module = importlib.import_module(f"sinkproof.explain.{about.module}")
    try:
        scenes: tuple[Scene, ...] = module.scenes()
    except BROKEN as error:
        scenes = (_untold(error),)
    return Demonstration(row=row, sentence=about.sentence, scenes=scenes, lesson=module.LESSON)


def _untold(error: Exception) -> Scene:
    where = traceback.extract_tb(error.__traceback__)
    here = next(frame for frame in reversed(where) if "explain" in frame.filename)
    what = f"what line {here.lineno} of {here.name}() looks for has happened: {here.line}"
    return Scene(
        title="The runs cannot be told",
        ran="up to the line below",
        outcome="the engine did not do what the row promises",
        checks=(check(what, "something", f"{type(error).__name__}: {error}"),),
    )
