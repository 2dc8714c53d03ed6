"""What coordinators were told and what they did about it, kept for whoever judges them."""

from __future__ import annotations

from typing import Any, NamedTuple

from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord, Effect
from sinkproof.reference_engine.dataflow.job_graph import Plan


class Step(NamedTuple):
    """At a time (in ms), one event, and what the coordinator wants done about it."""

    now: float
    event: tuple[str, Any, Any]
    effects: list[Effect]


class Term(NamedTuple):
    """One coordinator's time in office. `checkpoint_id_last`: the greatest that was triggered before."""

    plan: Plan
    record: CheckpointRecord | None  # what it starts from
    checkpoint_id_last: int
    steps: list[Step]
