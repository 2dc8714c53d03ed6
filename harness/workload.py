"""The jobs that certify sinks: small enough to crash everywhere, rich enough to show what a sink forgets.

Two sources, two sinks, a keyed exchange between them, three checkpoints, unequal latencies, repeated keys. A key
belongs
to one split, so that the last row of a key does not depend on how the splits interleave.

standard   checkpoints overlap: rows of the next one are written, or even acknowledged, before one is complete
sparse     idle gaps: each checkpoint is complete and notified long before the next row, one sink gets no rows in an
           epoch, and another epoch has none for the other. What a sink keeps *per checkpoint* shows here
late       as standard; who was stopped wakes up when newer attempts have completed one or two checkpoints
fewer      as standard; what is restored has one sink subtask, which is given the states of two
more       as standard; what is restored has three, of which one is given none
"""

from __future__ import annotations

from typing import Final

from sinkproof.chaos.schedule import STANDARD, ScheduleError
from sinkproof.reference_engine.configuration import CheckpointConfiguration
from sinkproof.reference_engine.job_graph import source_to_sink
from sinkproof.reference_engine.operators import key_group, owner_of_group
from sinkproof.reference_engine.shells.job import Job
from sinkproof.reference_engine.shells.timing import Timing
from sinkproof.reference_engine.sources import GeneratedInput
from sinkproof.sink_adapters.protocol import Row

KEYS_PER_SPLIT: Final = 5
BATCHES_PER_CHECKPOINT: Final = 2
BATCH_ROWS: Final = 2
FAILURES_TOLERATED: Final = 10  # a declined checkpoint is a fault that is injected, not a reason to restart the job
LATE_MS: Final = (
    40  # a new generation completes its first checkpoint 39 after the death that it makes up for, or before
)
UNHURRIED_PACE_MS: Final = 60  # the slowest checkpoint takes 20 from trigger to the last notification


def _keys_of(split: int, sink: int) -> list[str]:
    """Keys of this split that are sent to this sink; a few dozen candidates are enough for five."""
    every = [f"k{number}" for number in range(split, 80, 2)]
    return [key for key in every if owner_of_group(key_group(key), SINKS) == sink][:KEYS_PER_SPLIT]


SINKS: Final = 2
KEYS: Final = [[_keys_of(split, sink) for sink in range(SINKS)] for split in range(2)]


def make_row(split: int, offset: int) -> Row:
    """Keys repeat, and go to either sink in an uneven rhythm: one row here, three there."""
    sink = (0, 1, 1, 0, split)[offset % 5]
    return Row(split, offset, KEYS[split][sink][offset // 5 % 2], f"v{split}.{offset}", offset * 1000)


def make_sparse_row(split: int, offset: int) -> Row:
    """Rows of the second epoch go to sink 0 only, those of the third to sink 1 only."""
    epoch = offset // (BATCHES_PER_CHECKPOINT * BATCH_ROWS)
    sink = epoch - 1 if epoch in (1, 2) else offset % 2
    return Row(split, offset, KEYS[split][sink][offset % 3], f"v{split}.{offset}", offset * 1000)


def certifying_job(source: GeneratedInput, *, timing: Timing = Timing(), sinks_later: int = 2) -> Job:
    """Checkpoints are cut by offset, so that what a crash leaves does not depend on when the job was restarted."""
    return Job(
        plan=source_to_sink(source).plan(),
        later=source_to_sink(source, sinks=sinks_later).plan() if sinks_later != 2 else None,
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
INPUTS |= dict.fromkeys(("late", "fewer", "more"), INPUTS[STANDARD])
JOBS: Final = {
    STANDARD: certifying_job(INPUTS[STANDARD]),
    "sparse": certifying_job(INPUTS["sparse"], timing=Timing(pace=UNHURRIED_PACE_MS)),
}


RESCALED_JOBS: Final = {
    "fewer": certifying_job(INPUTS["fewer"], sinks_later=1),
    "more": certifying_job(INPUTS["more"], sinks_later=3),
}


LATE_JOB: Final = "late"
EVERY_JOB: Final = {**JOBS, **RESCALED_JOBS, LATE_JOB: certifying_job(INPUTS["late"], timing=Timing(asleep=LATE_MS))}


def named_job(name: str) -> Job:
    if name not in EVERY_JOB:
        raise ScheduleError(f"there is no job {name!r}; known: {', '.join(EVERY_JOB)}")
    return EVERY_JOB[name]
