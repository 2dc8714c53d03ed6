"""A coordinator's log: each event that it received and the effects that it returned, for checks after a run.

The simulated shell appends to it; `harness/judging/coordinator_rules.py` reads it. From outside of the coordinator it
shows whether the rules at the head of coordinator.py were kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord, Effect
from sinkproof.reference_engine.dataflow.job_graph import Plan


class CoordinatorStep(NamedTuple):
    """One call of `Coordinator.on`."""

    now: float  # ms
    event: tuple[str, Any, Any]
    effects: list[Effect]


class CoordinatorTerm(NamedTuple):
    """All steps of one coordinator, from its election until it dies, is replaced or finishes the job."""

    plan: Plan
    record: CheckpointRecord | None  # the checkpoint that its generation was restored from
    checkpoint_id_last: int  # the greatest id that was triggered before its election
    steps: list[CoordinatorStep]
