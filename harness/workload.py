"""The jobs that certify sinks: small enough to crash everywhere, rich enough to show what a sink forgets.

Two sources, two sinks, a keyed exchange between them, three checkpoints that overlap, unequal latencies, repeated keys.
A key belongs to one split, so that the last row of a key does not depend on how the splits interleave.
"""

from __future__ import annotations

from typing import Final

from sinkproof.reference_engine.configuration import CheckpointConfiguration
from sinkproof.reference_engine.job_graph import source_to_sink
from sinkproof.reference_engine.shells.simulated import Job
from sinkproof.reference_engine.sources import GeneratedInput
from sinkproof.sink_adapters.protocol import Row

KEYS_PER_SPLIT: Final = 5
FAILURES_TOLERATED: Final = 10  # a declined checkpoint is a fault that is injected, not a reason to restart the job


def make_row(split: int, offset: int) -> Row:
    return Row(split, offset, f"k{split}{offset * 3 % KEYS_PER_SPLIT}", f"v{split}.{offset}", offset * 1000)


STANDARD_INPUT: Final = GeneratedInput(make_row, splits=2, rows_per_split=12, batch_rows=2)


def standard_job(*, source: GeneratedInput = STANDARD_INPUT, sources: int = 2, sinks: int = 2) -> Job:
    """Checkpoints are cut by offset, so that what a crash leaves does not depend on when the job was restarted."""
    return Job(
        plan=source_to_sink(source, sources=sources, sinks=sinks).plan(),
        configuration=CheckpointConfiguration(
            checkpoint_interval=None,
            checkpoint_every_batches=2,
            max_concurrent_checkpoints=3,
            tolerable_checkpoint_failure_number=FAILURES_TOLERATED,
        ),
    )


STANDARD_JOB: Final = standard_job()
