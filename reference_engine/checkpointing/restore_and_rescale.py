"""Assigns each part of a checkpoint to exactly one new subtask, also when the parallelism has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.dataflow.in_flight_rows import ON_THE_WAY, Waiting, waiting_in, waiting_out
from sinkproof.reference_engine.dataflow.job_graph import Feed, Plan, Reroute, SubtaskPlan
from sinkproof.reference_engine.dataflow.key_groups import key_group, owner_of_group
from sinkproof.reference_engine.dataflow.replayable_sources import decode_offsets
from sinkproof.reference_engine.dataflow.subtask import Subtask
from sinkproof.sink_adapters.protocol import Batch, Row


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
    event_time: Sequence[bytes] = ()  # of every source that there was
    waiting: Sequence[Waiting] = ()  # (sender, rows) that were on their way here


NOTHING = Restored()


class RestoreError(ValueError):
    """A checkpoint of another job graph: parts of it would have no owner, or owners would start from nothing."""


def refuse_another_graph(plan: Plan, record: CheckpointRecord) -> None:
    """Parallelism may differ; what each subtask consists of (that is, vertices and chaining) may not."""
    wanted = plan.parts
    held = {vertex: frozenset(record.states[f"{vertex}[0]"]) - ON_THE_WAY for vertex in record.parallelism}
    if wanted != held:
        raise RestoreError(
            f"checkpoint {record.checkpoint_id} does not fit this job. It holds {_listed(held)}; the job wants "
            f"{_listed(wanted)}. Restore it with the vertices and the chaining that it was taken with"
        )


def _listed(parts: Mapping[str, frozenset[str]]) -> str:
    return ", ".join(f"{vertex} ({' + '.join(sorted(of)) or 'no state'})" for vertex, of in sorted(parts.items()))


def assign(subtask: SubtaskPlan, record: CheckpointRecord | None, *, ignored: int | None = None) -> Restored:
    """Sink states go to old index modulo new parallelism, offsets with their split, keyed state with its key group,
    rows in flight to where they were going. `ignored`: this checkpoint's rows in flight are dropped, that is, lost.
    """
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
        event_time=[states["event_time"] for _, states in old_states if "event_time" in states],
        waiting=() if record.checkpoint_id == ignored else _waiting(subtask, record),
    )


def _offsets(subtask: SubtaskPlan, old_states: list[tuple[int, Any]]) -> list[tuple[int, int]]:
    every = [pair for _, states in old_states if "source" in states for pair in decode_offsets(states["source"])]
    return [(split, offset) for split, offset in every if split in subtask.splits]


def _groups(name: str, subtask: SubtaskPlan, old_states: list[tuple[int, Any]]) -> list[tuple[int, bytes]]:
    every = [pair for _, states in old_states for pair in states.get(name, {}).items()]
    return [
        (group, state) for group, state in every if owner_of_group(int(group), subtask.parallelism) == subtask.index
    ]


def _waiting(subtask: SubtaskPlan, record: CheckpointRecord) -> list[Waiting]:
    """In the order in which they would have come: what has reached a receiver, then what its sender still had."""
    if not holds_rows(record):
        return []
    found: list[Waiting] = []
    for feed in {feed.vertex: feed for feed in subtask.feeds}.values():
        for old in range(record.parallelism[subtask.vertex]):
            rows = _waiting_for(f"{subtask.vertex}[{old}]", feed, record)
            if record.parallelism[subtask.vertex] != subtask.parallelism:
                rows = _rerouted(rows, feed, subtask)
            elif old != subtask.index:
                continue
            found += rows
    return found


def _waiting_for(receiver: str, feed: Feed, record: CheckpointRecord) -> list[Waiting]:
    senders = [f"{feed.vertex}[{index}]" for index in range(record.parallelism[feed.vertex])]
    # By vertex: rows that were restored themselves may name a sender that is gone since the job has fewer of them.
    arrived = [
        waiting for waiting in waiting_in(record.states[receiver]) if waiting[0].rpartition("[")[0] == feed.vertex
    ]
    queued = [
        (sender, batch) for sender in senders for name, batch in waiting_out(record.states[sender]) if name == receiver
    ]
    return arrived + queued


def _rerouted(waiting: list[Waiting], feed: Feed, subtask: SubtaskPlan) -> list[Waiting]:
    if waiting and feed.reroute is Reroute.BY_PARTITIONER:
        raise RestoreError(
            f"checkpoint cannot be restored with parallelism {subtask.parallelism} of {subtask.vertex}: rows of "
            f"{waiting[0][0]} were on their way, and only the job's partitioner can route them. Restore it with the "
            "parallelism that it was taken with, or stop the job with a checkpoint first: that one is aligned"
        )
    mine = ((name, [row for row in batch if _owner(row, feed, subtask) == subtask.index]) for name, batch in waiting)
    return [(name, Batch(rows)) for name, rows in mine if rows]


def _owner(row: Row, feed: Feed, subtask: SubtaskPlan) -> int:
    if feed.reroute is Reroute.BY_SPLIT:
        return row.split % subtask.parallelism
    return owner_of_group(key_group(row.key), subtask.parallelism)


def holds_rows(record: CheckpointRecord | None) -> bool:
    """Whether rows were on their way when the checkpoint was taken."""
    return record is not None and any(not ON_THE_WAY.isdisjoint(states) for states in record.states.values())


def in_flight(record: CheckpointRecord | None) -> frozenset[tuple[int, int]]:
    """(split, offset) of the rows that the offsets cover, and that no operator and no sink of the checkpoint has had:
    they are in the checkpoint itself, and become visible with a later one.
    """
    if record is None or not holds_rows(record):
        return frozenset()
    waiting = [one for states in record.states.values() for one in (*waiting_in(states), *waiting_out(states))]
    return frozenset((row.split, row.offset) for _, batch in waiting for row in batch)


def restore(subtask: Subtask, restored: Restored) -> None:
    """Restores operators and source; the sink receives its states through its context."""
    if subtask.reader is not None:
        subtask.reader.restore(restored.offsets)
        subtask.finished = restored.final
    if subtask.source_clock is not None:
        subtask.source_clock.restore(restored.event_time)
    for name, operator in subtask.operators:
        operator.restore(restored.operators.get(name, ()))
    subtask.replay = tuple(restored.waiting)


def covered(record: CheckpointRecord | None) -> dict[int, int]:
    """Split -> how many of its rows the checkpoint covers, independent of the parallelism it was taken with."""
    sources = [states["source"] for states in record.states.values() if "source" in states] if record else []
    return dict(pair for source in sources for pair in decode_offsets(source))
