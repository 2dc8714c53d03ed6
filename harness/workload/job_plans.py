"""What certifying jobs have in common, and the graphs of those with other sinks, or edges, than the standard job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration
from sinkproof.reference_engine.dataflow.job_graph import (
    Edge,
    Exchange,
    JobGraph,
    Plan,
    SubtaskOutput,
    Vertex,
    source_to_sink,
)
from sinkproof.sink_adapters.protocol import Batch
from sinkproof.workload.rows import BATCHES_PER_CHECKPOINT, SINKS, STANDARD_INPUT

FAILURES_TOLERATED: Final = 10  # a declined checkpoint is a fault that is injected, not a reason to restart the job
INTERVAL_MS: Final = 14
SECOND_SINK: Final = "sink-2"  # its id, in the job with two: it begins with that of the first, as names may do

BY_OFFSET: Final = CheckpointConfiguration(
    checkpoint_interval=None,
    checkpoint_every_batches=BATCHES_PER_CHECKPOINT,
    max_concurrent_checkpoints=3,
    tolerable_checkpoint_failure_number=FAILURES_TOLERATED,
)
# One checkpoint at a time, as Flink demands.
UNALIGNED: Final = replace(BY_OFFSET, unaligned_checkpoints=True, max_concurrent_checkpoints=1)
# Each is 1 in a field of ten, twelve, ... twenty bits, or of three, four, ... six digits.
AFTER_GAPS: Final = (1, 1_001, 1_025, 4_097, 10_001, 16_385, 32_769, 65_537, 100_001, 1_000_001, 1_048_577)
SKIPPING_IDS: Final = replace(BY_OFFSET, checkpoint_ids_after_gaps=AFTER_GAPS)
PERIODIC: Final = CheckpointConfiguration(
    checkpoint_interval=INTERVAL_MS,
    min_pause_between_checkpoints=INTERVAL_MS,
    tolerable_checkpoint_failure_number=1,
)


def with_sinks(sinks: int) -> Plan:
    return source_to_sink(STANDARD_INPUT, sinks=sinks).plan()


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSplit(SubtaskOutput):
    """Only the rows of one split go here."""

    split: int

    def route(self, batch: Batch) -> list[tuple[int, Batch]]:
        rows = [row for row in batch if row.split == self.split]
        return SubtaskOutput.route(self, Batch(rows)) if rows else []


@dataclass(frozen=True, slots=True, kw_only=True)
class AlsoEmpty(SubtaskOutput):
    """A sink that no row of a batch is for gets an empty batch."""

    def route(self, batch: Batch) -> list[tuple[int, Batch]]:
        parts = dict(SubtaskOutput.route(self, batch))
        return [(target, parts.get(target, Batch([]))) for target in self.targets]


def also_empty_batches() -> Plan:
    plan = source_to_sink(STANDARD_INPUT).plan()
    outputs = [tuple(AlsoEmpty(targets=output.targets) for output in each.outputs) for each in plan.subtasks]
    return Plan(tuple(replace(each, outputs=of, emissions={}) for each, of in zip(plan.subtasks, outputs, strict=True)))


def two_sinks() -> Plan:
    """Each edge has the rows of one split: both sinks get some in each checkpoint, and the ledger is the usual one."""
    first = Vertex(name="sink", parallelism=SINKS, sink=True)
    second = Vertex(name=SECOND_SINK, parallelism=1, sink=True)
    edges = tuple(Edge("source", vertex.name, Exchange.KEYED) for vertex in (first, second))
    plan = JobGraph((Vertex(name="source", parallelism=2, source=STANDARD_INPUT), first, second), edges).plan()
    return Plan(tuple(replace(each, outputs=_split(each.outputs), emissions={}) for each in plan.subtasks))


def _split(outputs: tuple[SubtaskOutput, ...]) -> tuple[SubtaskOutput, ...]:
    return tuple(OneSplit(targets=each.targets, split=split) for split, each in enumerate(outputs))
