"""Chooses the kind of subtask that a configuration needs."""

from __future__ import annotations

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration, CheckpointingMode
from sinkproof.reference_engine.dataflow.buffered_input import BufferedSubtask
from sinkproof.reference_engine.dataflow.flow_control import Buffers
from sinkproof.reference_engine.dataflow.job_graph import SubtaskPlan
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
