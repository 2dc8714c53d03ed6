"""Jobs that are made from their names: so many sources and sinks, rows, batches, checkpoints; or rows in a batch."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from sinkproof.chaos.schedule import ScheduleError
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.reference_engine.shells.job import Job
from sinkproof.sink_adapters.protocol import Row
from sinkproof.workload.job_plans import BY_OFFSET

MADE: Final = "made-"
EXACTLY: Final = MADE + "exactly-"
EXACT_MOST: Final = 10_000  # rows of a batch; of so many the job has one, else two
TWICE_MOST: Final = 4_096
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


@cache
def made_job(name: str) -> tuple[Job, GeneratedInput]:
    """The job of this name, and what its sources hold. Raises ScheduleError."""
    if rows := exact_rows(name):
        source = GeneratedInput(
            _make_row, splits=1, rows_per_split=rows if rows > TWICE_MOST else 2 * rows, batch_rows=rows
        )
        configuration = replace(BY_OFFSET, checkpoint_every_batches=1)
        return Job(plan=source_to_sink(source, sources=1, sinks=1).plan(), configuration=configuration), source
    words = name.removeprefix(MADE).split("-")
    shape = {part: int(word) for part, word in zip(SHAPE, words, strict=False) if word.isdecimal()}
    bounds = ", ".join(f"{part} {least} to {most}" for part, (least, most) in SHAPE.items())
    if len(words) != len(SHAPE) or any(
        not least <= shape.get(part, 0) <= most for part, (least, most) in SHAPE.items()
    ):
        also = f"or like {exact_name(1000)}: {EXACT_MOST} at most"
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


def _make_row(split: int, offset: int) -> Row:
    return Row(split, offset, f"k{split}.{offset % 5}", f"v{split}.{offset}", offset * 1000)
