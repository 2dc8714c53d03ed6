"""Jobs that are made from their names: so many sources and sinks, rows, batches, checkpoints; or rows in a batch, or
splits, or sink subtasks; or offsets so far apart; or twelve checkpoints of so many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from sinkproof.chaos.schedule import ScheduleError
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.reference_engine.dataflow.key_groups import KEY_GROUPS
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.reference_engine.shells.job import Job
from sinkproof.sink_adapters.protocol import Row
from sinkproof.workload.job_plans import BY_OFFSET
from sinkproof.workload.rows import BATCH_ROWS, BATCHES_PER_CHECKPOINT, ROWS_PER_SPLIT, LateBeginnings

MADE: Final = "made-"
EXACTLY: Final = MADE + "exactly-"
EXACT_MOST: Final = 10_000  # rows of a batch; of so many the job has one, else two
TWICE_MOST: Final = 4_096
TWELVE_TIMES_MOST: Final = 12_000
SUBTASKS: Final = MADE + "subtasks-"
SPLITS: Final = MADE + "splits-"
MOST: Final = {SUBTASKS: KEY_GROUPS, SPLITS: 1_000}
APART: Final = MADE + "apart-"
APART_MOST: Final = 1 << 62
HALF: Final = ROWS_PER_SPLIT // 2
TWELVE_TIMES: Final = MADE + "twelve-times-"
TIMES: Final = 12
CHUNK_MOST: Final = TWELVE_TIMES_MOST // TIMES
SOURCES, CHECKPOINTS = 2, 3
CLOSING_MS: Final = 30
SHAPE: Final = {"sources": (1, 4), "sinks": (1, 4), "rows": (1, 40), "batch": (1, 5), "every": (1, 6)}


def shape_name(**shape: int) -> str:
    """`made-2-3-12-2-2`: sources, sinks, rows of each split, rows of a batch, batches of a checkpoint."""
    return MADE + "-".join(str(shape[part]) for part in SHAPE)


def exact_name(rows: int) -> str:
    """One sink, which gets so many rows in each batch, and in each checkpoint."""
    return f"{EXACTLY}{rows}"


def exact_rows(name: str) -> int:
    """How many rows each batch of this job has; 0: it is none of these."""
    number = name.removeprefix(EXACTLY)
    return int(number) if name != number and number.isdecimal() and int(number) <= EXACT_MOST else 0


def subtasks_name(subtasks: int) -> str:
    """So many sink subtasks."""
    return f"{SUBTASKS}{subtasks}"


def splits_name(splits: int) -> str:
    """So many splits; two sources read them."""
    return f"{SPLITS}{splits}"


class FarApart(LateBeginnings):
    """Offsets of the first split begin there, those of the second at 0; and in the second one is a gap of as many."""

    def __init__(self, apart: int) -> None:
        super().__init__(self._make, (apart, 0), rows_per_split=ROWS_PER_SPLIT, batch_rows=BATCH_ROWS)
        self.apart = apart

    def offsets(self, split: int) -> Sequence[int]:
        if split == 0:
            return range(self.apart, self.apart + ROWS_PER_SPLIT)
        return [*range(HALF), *range(self.apart, self.apart + HALF)]

    def length(self, split: int) -> int:
        return self.offsets(split)[-1] + 1

    def after(self, split: int, offset: int) -> int:
        end = super().after(split, offset)
        return self.apart if (split, end) == (1, HALF) else end

    def _make(self, split: int, offset: int) -> Row:
        row = _make_row(split, self.offsets(split).index(offset))
        return row._replace(offset=offset, value=f"v{split}.{offset}")


def apart_name(offsets: int) -> str:
    """Of rows in two splits, and in one."""
    return f"{APART}{offsets}"


def twelve_chunks_name(size: int) -> str:
    """One sink, which gets twelve chunks of this size before each of twelve checkpoints, in one batch."""
    return f"{TWELVE_TIMES}{TIMES * size}"


@cache
def made_job(name: str) -> tuple[Job, GeneratedInput]:
    """The job of this name, and what its sources hold. Raises ScheduleError."""
    if rows := exact_rows(name):
        return _of_one_sink(rows, checkpoints=1 if rows > TWICE_MOST else 2)
    often = name.removeprefix(TWELVE_TIMES)
    if often != name and often.isdecimal() and 1 <= int(often) <= TWELVE_TIMES_MOST:
        return _of_one_sink(int(often), checkpoints=TIMES)
    apart = name.removeprefix(APART)
    if apart != name and apart.isdecimal() and ROWS_PER_SPLIT <= int(apart) <= APART_MOST:
        spread = FarApart(int(apart))
        return Job(plan=source_to_sink(spread).plan(), configuration=BY_OFFSET), spread
    for kind, most in MOST.items():
        number = name.removeprefix(kind)
        if number != name and number.isdecimal() and 1 <= int(number) <= most:
            return _of_many(int(number)) if kind == SUBTASKS else _of_many(2, splits=int(number))
    words = name.removeprefix(MADE).split("-")
    shape = {part: int(word) for part, word in zip(SHAPE, words, strict=False) if word.isdecimal()}
    bounds = ", ".join(f"{part} {least} to {most}" for part, (least, most) in SHAPE.items())
    if len(words) != len(SHAPE) or any(
        not least <= shape.get(part, 0) <= most for part, (least, most) in SHAPE.items()
    ):
        largest = {EXACTLY: EXACT_MOST, TWELVE_TIMES: TWELVE_TIMES_MOST, APART: APART_MOST, **MOST}
        others = ", ".join(f"{kind}{most}" for kind, most in largest.items())
        also = f"or like {others}, which are the largest"
        raise ScheduleError(f"cannot make a job of {name!r}. It is named like made-2-3-12-2-2: {bounds}; {also}")
    source = GeneratedInput(
        _make_row,
        splits=shape["sources"],
        rows_per_split=shape["rows"],
        batch_rows=shape["batch"],
    )
    configuration = replace(BY_OFFSET, checkpoint_every_batches=shape["every"])
    plan = source_to_sink(source, sources=shape["sources"], sinks=shape["sinks"]).plan()
    return Job(plan=plan, configuration=configuration), source


def _of_one_sink(rows: int, *, checkpoints: int) -> tuple[Job, GeneratedInput]:
    """A batch of so many rows before each checkpoint."""
    source = GeneratedInput(_make_row, splits=1, rows_per_split=checkpoints * rows, batch_rows=rows)
    configuration = replace(BY_OFFSET, checkpoint_every_batches=1)
    return Job(plan=source_to_sink(source, sources=1, sinks=1).plan(), configuration=configuration), source


def _of_many(sinks: int, *, splits: int = SOURCES) -> tuple[Job, GeneratedInput]:
    """Before each of three checkpoints a split has rows: of two splits two batches, with a row or so for each sink."""
    batches = BATCHES_PER_CHECKPOINT if splits == SOURCES else 1
    source = GeneratedInput(
        _make_row_of_many, splits=splits, rows_per_split=CHECKPOINTS * batches * sinks, batch_rows=sinks
    )
    configuration = replace(
        BY_OFFSET,
        checkpoint_every_batches=batches * -(-splits // SOURCES),
        closing_patience=CLOSING_MS * sinks,  # they are notified one after the other
    )
    return Job(plan=source_to_sink(source, sinks=sinks).plan(), configuration=configuration), source


def _make_row_of_many(split: int, offset: int) -> Row:
    return _make_row(split, offset)._replace(key=f"k{split}.{offset}")


def _make_row(split: int, offset: int) -> Row:
    return Row(split, offset, f"k{split}.{offset % 5}", f"v{split}.{offset}", offset * 1000)
