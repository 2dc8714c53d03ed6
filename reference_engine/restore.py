"""Who gets which part of a checkpoint, also when the parallelism has changed: nothing is dropped, nothing
given twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sinkproof.reference_engine.coordinator import CheckpointRecord
from sinkproof.reference_engine.job_graph import Plan, SubtaskPlan
from sinkproof.reference_engine.operators import owner_of_group
from sinkproof.reference_engine.sources import decode_offsets
from sinkproof.reference_engine.subtask import Subtask


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What one new subtask starts from."""

    checkpoint_id: int | None = None
    final: bool = False  # the input has ended: there is only something left to settle
    parallelism: int = 0
    offsets: Sequence[tuple[int, int]] = ()
    sinks: Sequence[tuple[int, bytes]] = ()  # (old subtask, bytes)
    sinks_known: Sequence[int] = ()
    operators: Mapping[str, Sequence[tuple[int, bytes]]] = field(default_factory=dict)


NOTHING = Restored()


class RestoreError(ValueError):
    """A checkpoint of another job graph: parts of it would have no owner, or owners would start from nothing."""


def refuse_another_graph(plan: Plan, record: CheckpointRecord) -> None:
    """Parallelism may differ; what each subtask consists of (that is, vertices and chaining) may not."""
    wanted = {subtask.vertex: subtask.parts for subtask in plan.subtasks}
    held = {vertex: frozenset(record.states[f"{vertex}[0]"]) for vertex in record.parallelism}
    if wanted != held:
        raise RestoreError(
            f"checkpoint {record.checkpoint_id} does not fit this job. It holds {_listed(held)}; the job wants "
            f"{_listed(wanted)}. Restore it with the vertices and the chaining that it was taken with"
        )


def _listed(parts: Mapping[str, frozenset[str]]) -> str:
    return ", ".join(f"{vertex} ({' + '.join(sorted(of)) or 'no state'})" for vertex, of in sorted(parts.items()))


def assign(subtask: SubtaskPlan, record: CheckpointRecord | None) -> Restored:
    """Sink states go to old index modulo new parallelism, offsets with their split, keyed state with its key group."""
    if record is None:
        return NOTHING
    old_parallelism = record.parallelism.get(subtask.vertex, 0)
    old_states = [(old, record.states[f"{subtask.vertex}[{old}]"]) for old in range(old_parallelism)]
    return Restored(
        checkpoint_id=record.checkpoint_id,
        final=record.final,
        parallelism=old_parallelism,
        offsets=_offsets(subtask, old_states),
        sinks=tuple(
            (old, states["sink"])
            for old, states in old_states
            if "sink" in states and old % subtask.parallelism == subtask.index
        ),
        sinks_known=tuple(old for old, states in old_states if "sink" in states),
        operators={name: _groups(name, subtask, old_states) for name, _ in subtask.operators},
    )


def _offsets(subtask: SubtaskPlan, old_states: list[tuple[int, Any]]) -> list[tuple[int, int]]:
    every = [pair for _, states in old_states if "source" in states for pair in decode_offsets(states["source"])]
    return [(split, offset) for split, offset in every if split in subtask.splits]


def _groups(name: str, subtask: SubtaskPlan, old_states: list[tuple[int, Any]]) -> list[tuple[int, bytes]]:
    every = [pair for _, states in old_states for pair in states.get(name, {}).items()]
    return [
        (group, state) for group, state in every if owner_of_group(int(group), subtask.parallelism) == subtask.index
    ]


def restore(subtask: Subtask, restored: Restored) -> None:
    """Puts operators and source where the checkpoint left them; the sink is told through its context."""
    if subtask.reader is not None:
        subtask.reader.restore(restored.offsets)
        subtask.finished = restored.final
    for name, operator in subtask.operators:
        operator.restore(restored.operators.get(name, ()))


def covered(record: CheckpointRecord | None) -> dict[int, int]:
    """Split -> how many of its rows the checkpoint covers, whatever the parallelism it was taken with."""
    sources = [states["source"] for states in record.states.values() if "source" in states] if record else []
    return dict(pair for source in sources for pair in decode_offsets(source))
