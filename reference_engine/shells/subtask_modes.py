"""Chooses the kind of subtask that a configuration needs, and refuses job graphs that it cannot be used with."""

from __future__ import annotations

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import (
    CheckpointConfiguration,
    CheckpointingMode,
    ConfigurationError,
)
from sinkproof.reference_engine.dataflow.buffered_input import BufferedSubtask
from sinkproof.reference_engine.dataflow.flow_control import Buffers
from sinkproof.reference_engine.dataflow.job_graph import Plan, SubtaskPlan
from sinkproof.reference_engine.dataflow.subtask import Subtask
from sinkproof.reference_engine.dataflow.unaligned_barriers import UnalignedSubtask


def subtask_for(
    plan: SubtaskPlan, configuration: CheckpointConfiguration, *, buffers: Buffers | None = None
) -> Subtask:
    """`buffers`: bounded ones between subtasks; None: every batch is sent at once."""
    every, timeout_ms = configuration.checkpoint_every_batches, configuration.aligned_checkpoint_timeout
    aligned = configuration.checkpointing_mode is CheckpointingMode.EXACTLY_ONCE
    if buffers is not None:
        return BufferedSubtask(plan, buffers, timeout_ms=timeout_ms, aligned=aligned, barrier_every=every)
    if configuration.unaligned:
        return UnalignedSubtask(plan, timeout_ms=timeout_ms, barrier_every=every)
    return Subtask(plan, aligned=aligned, barrier_every=every)


def refuse_unsuitable(plan: Plan, configuration: CheckpointConfiguration) -> None:
    """Rows in flight behind a custom partitioner cannot be rerouted when the parallelism changes."""
    if not configuration.unaligned or configuration.force_unaligned_checkpoints:
        return
    for subtask in plan.subtasks:
        if any(output.partitioner is not None for output in subtask.outputs):
            raise ConfigurationError(
                f"unaligned_checkpoints and the custom exchange behind {subtask.vertex} exclude each other: rows that "
                "are on their way there could not be restored with another parallelism. Set "
                "force_unaligned_checkpoints if it will never change, or use a keyed exchange"
            )
