"""The jobs that certify sinks: small enough to crash everywhere, rich enough to show what a sink forgets.

Two sources, two sinks, a keyed exchange between them, three checkpoints, unequal latencies, repeated keys. A key
belongs to one split, so that the last row of a key does not depend on how the splits interleave.

standard   checkpoints overlap: rows of the next one are written, or even acknowledged, before one is complete
sparse     idle gaps: each checkpoint is complete and notified long before the next row, one sink gets no rows in an
           epoch, and another epoch has none for the other. What a sink keeps *per checkpoint* shows here
late       as standard; who was stopped wakes up when newer attempts have completed one or two checkpoints
unnoticed  as standard; who was stopped is missed so late that the others have completed what it had voted for
fewer      as standard; what is restored has one sink subtask, which is given the states of two
more       as standard; what is restored has three, of which one is given none
elastic    as standard; with each checkpoint that is restored two sinks become one, or one becomes two
recut      as standard; after each restart batches are cut in another way, and everybody's speed is another
clocks     as standard; attempts see clocks that differ, tick once a second, and go back with each restart
second     as standard; two sinks share a target: one is sent the rows of one split, another those of the other
uneven     as standard; one source ends long before the other, so that checkpoints go on with a part of the job idle
unaligned  as standard; barriers overtake rows, which reach the sinks behind them, or again after a restart
outage     as standard; a day and an hour pass before each restart
reused     as standard; who takes over from an attempt that failed runs in its process, where modules remember it
odd        as standard; values with quotes, line ends, commas, other alphabets, with nothing in them, or far too long;
           keys that differ in case or in one character only, which no file system minds
bulk       as standard, with a thousand rows a checkpoint for each sink: buffers that are emptied when they are full
long       many small checkpoints: what a sink counts, keeps or sorts has two digits in the end
timed      as standard; checkpoints begin by the clock, with a pause between them; of two in a row, one must not fail
unsettled  as standard, with idle gaps; sinks are asked to settle what is in doubt so late that the next checkpoint is
           complete by then
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from sinkproof.chaos.schedule import STANDARD, ScheduleError
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, SubtaskOutput, Plan, Vertex, source_to_sink
from sinkproof.reference_engine.dataflow.key_groups import key_group, owner_of_group
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.reference_engine.shells.job import Job
from sinkproof.reference_engine.shells.virtual_timing import Timing, wrong_clock
from sinkproof.sink_adapters.protocol import Batch, Row

KEYS_PER_SPLIT: Final = 5
BATCHES_PER_CHECKPOINT: Final = 2
BATCH_ROWS: Final = 2
FAILURES_TOLERATED: Final = 10  # a declined checkpoint is a fault that is injected, not a reason to restart the job
LATE_MS: Final = 40  # a new generation completes its first checkpoint within 39 of the death it makes up for
OVERSLEPT_MS: Final = 110  # and one more every 8 in the job with many
MISSED_LATE_MS: Final = 16  # a checkpoint that all have voted for is complete, and told, within 10
# The slowest channel takes 20 ms longer than the fastest, three times what a source needs for two batches.
OVERTAKEN_STRETCH: Final = 5
TICK_MS: Final = 14
TIMED_PACE_MS: Final = 16  # six checkpoints in all
UNHURRIED_PACE_MS: Final = 60  # the slowest checkpoint takes 20 from trigger to the last notification


def _keys_of(split: int, sink: int) -> list[str]:
    """Keys of this split that are sent to this sink; a few dozen candidates are enough for five."""
    every = [f"k{number}" for number in range(split, 80, 2)]
    return [key for key in every if owner_of_group(key_group(key), SINKS) == sink][:KEYS_PER_SPLIT]


SINKS: Final = 2
EVENTS_APART_MS: Final = 7 * 3600 * 1000  # of one split: a checkpoint's rows fall into several hours, and into two days
KEYS: Final = [[_keys_of(split, sink) for sink in range(SINKS)] for split in range(2)]


def make_row(split: int, offset: int) -> Row:
    """Keys repeat, and go to either sink in an uneven rhythm: one row here, three there."""
    sink = (0, 1, 1, 0, split)[offset % 5]
    return Row(split, offset, KEYS[split][sink][offset // 5 % 2], f"v{split}.{offset}", offset * EVENTS_APART_MS)


def make_sparse_row(split: int, offset: int) -> Row:
    """Rows of the second epoch go to sink 0 only, those of the third to sink 1 only."""
    epoch = offset // (BATCHES_PER_CHECKPOINT * BATCH_ROWS)
    sink = epoch - 1 if epoch in (1, 2) else offset % 2
    return Row(split, offset, KEYS[split][sink][offset % 3], f"v{split}.{offset}", offset * EVENTS_APART_MS)


ODD_VALUES: Final = (
    *("", " ", "a,b;c", "it's", 'say "so"', "two\nlines", "\r\n", "tab\tand\\backslash"),
    *("%s {0} $x", "null", "Grüße, 東京, \N{CRAB}", "x" * 5000),
)


ODD_PAIRS: Final = 6  # of each split
ALIKE: Final = (("a b", "a_b"), ("ab", "AB"), ("a.b", "a.b "))  # one of these in each checkpoint


def _alike(texts: tuple[str, str], split: int) -> list[str]:
    """Two keys of this split that go to one sink."""
    numbered = ([f"{number}{text}" for text in texts] for number in range(split, 80, 2))
    return next(keys for keys in numbered if len({owner_of_group(key_group(key), SINKS) for key in keys}) == 1)


ODD_KEYS: Final = [[key for texts in ALIKE for key in _alike(texts, split)] for split in range(2)]


def make_odd_row(split: int, offset: int) -> Row:
    """Pairs of rows differ in nothing but their offsets: what happens twice is two events, and has two identities."""
    pair = offset // 2
    value = ODD_VALUES[(pair + split * ODD_PAIRS) % len(ODD_VALUES)]
    return make_row(split, 2 * pair)._replace(offset=offset, key=ODD_KEYS[split][pair], value=value)


LONG_ROWS: Final = 24  # of each split, one a batch: twelve checkpoints
BULK_ROWS: Final = 600  # a batch, of which each split has two in each of three checkpoints


class UnevenInput(GeneratedInput):
    """The second split ends within the second checkpoint."""

    def length(self, split: int) -> int:
        return self.rows_per_split if split == 0 else BATCHES_PER_CHECKPOINT * BATCH_ROWS + 1

    def batch(self, split: int, offset: int) -> Batch:
        return Batch(super().batch(split, offset).rows[: self.length(split) - offset])


def certifying_job(
    source: GeneratedInput, *, timing: Timing = Timing(), sinks_later: int = SINKS, there_and_back: bool = False
) -> Job:
    """Checkpoints are cut by offset, so that what a crash leaves does not depend on when the job was restarted."""
    return Job(
        plan=source_to_sink(source).plan(),
        later=source_to_sink(source, sinks=sinks_later).plan() if sinks_later != SINKS else None,
        there_and_back=there_and_back,
        configuration=CheckpointConfiguration(
            checkpoint_interval=None,
            checkpoint_every_batches=BATCHES_PER_CHECKPOINT,
            max_concurrent_checkpoints=3,
            tolerable_checkpoint_failure_number=FAILURES_TOLERATED,
        ),
        timing=timing,
    )


INPUTS = {
    STANDARD: GeneratedInput(make_row, splits=2, rows_per_split=12, batch_rows=BATCH_ROWS),
    "sparse": GeneratedInput(make_sparse_row, splits=2, rows_per_split=12, batch_rows=BATCH_ROWS),
}
AS_STANDARD: Final = (
    "late",
    "unnoticed",
    "fewer",
    "more",
    "elastic",
    "recut",
    "clocks",
    "second",
    "timed",
    "unaligned",
    "outage",
    "unsettled",
    "reused",
)
INPUTS |= dict.fromkeys(AS_STANDARD, INPUTS[STANDARD])
INPUTS["odd"] = GeneratedInput(make_odd_row, splits=2, rows_per_split=12, batch_rows=BATCH_ROWS)
INPUTS["long"] = GeneratedInput(make_row, splits=2, rows_per_split=LONG_ROWS, batch_rows=1)
INPUTS["overslept"] = INPUTS["long"]
INPUTS["bulk"] = GeneratedInput(make_row, splits=2, rows_per_split=6 * BULK_ROWS, batch_rows=BULK_ROWS)
INPUTS["uneven"] = UnevenInput(make_row, splits=2, rows_per_split=12, batch_rows=BATCH_ROWS)
JOBS: Final = {
    STANDARD: certifying_job(INPUTS[STANDARD]),
    "sparse": certifying_job(INPUTS["sparse"], timing=Timing(pace=UNHURRIED_PACE_MS)),
}


FEWER_JOB: Final = "fewer"
RESCALED_JOBS: Final = {
    FEWER_JOB: certifying_job(INPUTS[FEWER_JOB], sinks_later=1),
    "more": certifying_job(INPUTS["more"], sinks_later=3),
}
ELASTIC_JOB: Final = "elastic"


# -- jobs that only a simulated engine runs --------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSplit(SubtaskOutput):
    """Only the rows of one split go here."""

    split: int

    def route(self, batch: Batch) -> list[tuple[int, Batch]]:
        rows = [row for row in batch if row.split == self.split]
        return SubtaskOutput.route(self, Batch(rows)) if rows else []


def _unaligned(job: Job) -> Job:
    """One checkpoint at a time, as Flink demands; channels so unequal that barriers overtake half of the rows."""
    configuration = replace(job.configuration, unaligned_checkpoints=True, max_concurrent_checkpoints=1)
    return replace(job, configuration=configuration, timing=Timing(stretch=OVERTAKEN_STRETCH))


def _timed(job: Job) -> Job:
    configuration = CheckpointConfiguration(
        checkpoint_interval=TICK_MS,
        min_pause_between_checkpoints=TICK_MS,
        tolerable_checkpoint_failure_number=1,
    )
    return replace(job, configuration=configuration, timing=Timing(pace=TIMED_PACE_MS))


def _two_sinks(source: GeneratedInput) -> Plan:
    """Each edge carries one split: the ledger stays what it is, and both sinks get rows of every checkpoint."""
    first = Vertex(name="sink", parallelism=SINKS, sink=True)
    second = Vertex(name=SECOND_SINK, parallelism=1, sink=True)
    edges = tuple(Edge("source", vertex.name, Exchange.KEYED) for vertex in (first, second))
    plan = JobGraph((Vertex(name="source", parallelism=2, source=source), first, second), edges).plan()
    return Plan(tuple(replace(each, outputs=_split(each.outputs), emissions={}) for each in plan.subtasks))


def _split(outputs: tuple[SubtaskOutput, ...]) -> tuple[SubtaskOutput, ...]:
    return tuple(OneSplit(targets=each.targets, keyed=each.keyed, split=split) for split, each in enumerate(outputs))


SECOND_SINK: Final = "second"
SECOND_JOB: Final = "second"
TIMED_JOB: Final = "timed"
UNSETTLED_JOB: Final = "unsettled"
REUSED_JOB: Final = "reused"
OUTAGE_SECONDS: Final = 25 * 3600.0  # janitors and time limits go by a quarter of an hour, an hour, a day
SETTLED_LATE: Final = 100  # times 5 ms: two checkpoints are 250 apart; a sink may be in doubt for 1,000
RECUT: Final = GeneratedInput(make_row, splits=2, rows_per_split=12, batch_rows=BATCH_ROWS + 1)
VIRTUAL_JOBS: Final = {
    "recut": replace(certifying_job(INPUTS["recut"]), again=source_to_sink(RECUT).plan()),
    "clocks": replace(certifying_job(INPUTS["clocks"]), clock=wrong_clock),
    SECOND_JOB: replace(certifying_job(INPUTS["second"]), plan=_two_sinks(INPUTS["second"])),
    "uneven": certifying_job(INPUTS["uneven"]),
    "unaligned": _unaligned(certifying_job(INPUTS["unaligned"])),
    TIMED_JOB: _timed(certifying_job(INPUTS[TIMED_JOB])),
    "outage": replace(certifying_job(INPUTS["outage"]), outage_seconds=OUTAGE_SECONDS),
    UNSETTLED_JOB: certifying_job(INPUTS["unsettled"], timing=Timing(pace=UNHURRIED_PACE_MS, settle=SETTLED_LATE)),
    REUSED_JOB: replace(certifying_job(INPUTS[REUSED_JOB]), processes_reused=True),
}

LATE_JOB: Final = "late"
UNNOTICED_JOB: Final = "unnoticed"
OVERSLEPT_JOB: Final = "overslept"
PLAIN_JOBS: Final = {  # tried without faults, and with a few deaths
    "odd": certifying_job(INPUTS["odd"]),
    "bulk": certifying_job(INPUTS["bulk"]),
    "long": certifying_job(INPUTS["long"]),
}
SENTENCES: Final = {  # of what is told apart in a finding
    "sparse": "idle gaps, and epochs in which a sink gets no rows",
    "late": "who was stopped wakes up when newer attempts have completed a checkpoint or two",
    "unnoticed": "who was stopped is missed when the others have completed what it had voted for",
    "overslept": "who was stopped wakes up when the others have completed ten checkpoints",
    "fewer": "restored with one sink subtask instead of two",
    "more": "restored with three sink subtasks instead of two",
    "elastic": "restored with one sink subtask instead of two, and then with two again",
    "recut": "batches are cut in another way after a restart",
    "clocks": "clocks differ, and go back with each restart",
    "second": "two sinks of one job share the target",
    "uneven": "one source ends long before the other",
    "unaligned": "barriers overtake rows",
    "timed": "checkpoints begin by the clock, with a pause between them",
    "outage": "a day and an hour pass before each restart",
    "unsettled": "sinks are asked to settle late",
    "reused": "an attempt that failed is followed in its own process",
    "odd": "values are empty, long, or hold quotes, commas, line ends; keys differ in case or in one character",
    "bulk": "a thousand rows for each sink in each checkpoint",
    "long": "twelve checkpoints",
}
EVERY_JOB: Final = {
    **JOBS,
    **RESCALED_JOBS,
    ELASTIC_JOB: certifying_job(INPUTS[ELASTIC_JOB], sinks_later=1, there_and_back=True),
    LATE_JOB: certifying_job(INPUTS["late"], timing=Timing(suspended=LATE_MS)),
    UNNOTICED_JOB: certifying_job(INPUTS[UNNOTICED_JOB], timing=Timing(suspended=LATE_MS, detect=MISSED_LATE_MS)),
    OVERSLEPT_JOB: certifying_job(INPUTS["overslept"], timing=Timing(suspended=OVERSLEPT_MS)),
    **VIRTUAL_JOBS,
    **PLAIN_JOBS,
}


def named_job(name: str) -> Job:
    if name.startswith(MADE):
        return made_job(name)[0]
    if name not in EVERY_JOB:
        raise ScheduleError(f"there is no job {name!r}; known: {', '.join(EVERY_JOB)}")
    return EVERY_JOB[name]


# -- jobs of other shapes ---------------------------------------------------------------------------

MADE: Final = "made-"
SHAPE: Final = {"sources": (1, 4), "sinks": (1, 4), "rows": (1, 40), "batch": (1, 5), "every": (1, 6)}


def shape_name(**shape: int) -> str:
    """`made-2-3-12-2-2`: sources, sinks, rows of each split, rows of a batch, batches of a checkpoint."""
    return MADE + "-".join(str(shape[part]) for part in SHAPE)


@cache
def made_job(name: str) -> tuple[Job, GeneratedInput]:
    """The job of this name, and what its sources hold. Raises ScheduleError."""
    words = name.removeprefix(MADE).split("-")
    shape = {part: int(word) for part, word in zip(SHAPE, words, strict=False) if word.isdecimal()}
    bounds = ", ".join(f"{part} {least} to {most}" for part, (least, most) in SHAPE.items())
    if len(words) != len(SHAPE) or any(
        not least <= shape.get(part, 0) <= most for part, (least, most) in SHAPE.items()
    ):
        raise ScheduleError(f"cannot make a job of {name!r}. It is named like made-2-3-12-2-2: {bounds}")
    source = GeneratedInput(
        lambda split, offset: Row(split, offset, f"k{split}.{offset % 5}", f"v{split}.{offset}", offset * 1000),
        splits=shape["sources"],
        rows_per_split=shape["rows"],
        batch_rows=shape["batch"],
    )
    configuration = replace(JOBS[STANDARD].configuration, checkpoint_every_batches=shape["every"])
    plan = source_to_sink(source, sources=shape["sources"], sinks=shape["sinks"]).plan()
    return Job(plan=plan, configuration=configuration), source


def input_of(name: str) -> GeneratedInput:
    return made_job(name)[1] if name.startswith(MADE) else INPUTS[name]
