"""Which subtask is assigned which part of a checkpoint: nothing lost, nothing twice, for any two parallelisms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.restart_strategy import NoRestart
from sinkproof.reference_engine.checkpointing.restore_and_rescale import (
    NOTHING,
    RestoreError,
    assign,
    covered,
    in_flight,
    refuse_another_graph,
    restore,
)
from sinkproof.reference_engine.dataflow.in_flight_rows import encode_waiting
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Plan, Vertex
from sinkproof.reference_engine.dataflow.key_groups import KEY_GROUPS, owner_of_group
from sinkproof.reference_engine.dataflow.operators import KeyedCount
from sinkproof.reference_engine.dataflow.replayable_sources import encode_offsets
from sinkproof.reference_engine.dataflow.subtask import Subtask
from sinkproof.sink_adapters.protocol import Batch, Row

SPLITS = 5


def counting(engine: Any, *, sources: int, counts: int, sinks: int, chaining: bool = True) -> Plan:
    """source -keyed-> count -keyed-> sink, each with its own parallelism."""
    return JobGraph(
        (
            Vertex(name="source", parallelism=sources, source=engine.input(splits=SPLITS)),
            Vertex(name="count", parallelism=counts, operator=KeyedCount),
            Vertex(name="sink", parallelism=sinks, sink=True),
        ),
        (Edge("source", "count", Exchange.KEYED), Edge("count", "sink", Exchange.KEYED)),
    ).plan(chaining=chaining)


def record_of(plan: Plan, offsets: dict[int, int], groups: set[int], *, final: bool = False) -> CheckpointRecord:
    """A checkpoint as the subtasks of this plan would have made it."""
    states: dict[str, Any] = {}
    for subtask in plan.subtasks:
        if subtask.source is not None:
            own = tuple((split, offsets[split]) for split in subtask.splits)
            states[subtask.name] = {"source": encode_offsets(own)}
        elif subtask.sink:
            states[subtask.name] = {"sink": f"pending of {subtask.name}".encode()}
        else:
            own_groups = [
                group for group in sorted(groups) if owner_of_group(group, subtask.parallelism) == subtask.index
            ]
            states[subtask.name] = {
                "count": {group: json.dumps({f"key {group}": group}).encode() for group in own_groups}
            }
    return CheckpointRecord(9, final, states, {subtask.vertex: subtask.parallelism for subtask in plan.subtasks})


parallelism = st.integers(1, 5)
plans = st.fixed_dictionaries({"sources": parallelism, "counts": parallelism, "sinks": parallelism})


@pytest.mark.row("S11")
@given(
    before=plans,
    after=plans,
    offsets=st.fixed_dictionaries({split: st.integers(0, 12) for split in range(SPLITS)}),
    groups=st.sets(st.integers(0, KEY_GROUPS - 1)),
)
def test_every_part_finds_exactly_one_owner(engine: Any, before: Any, after: Any, offsets: Any, groups: Any) -> None:
    record = record_of(counting(engine, **before), offsets, groups)
    plan = counting(engine, **after)
    got = {subtask.name: assign(subtask, record) for subtask in plan.subtasks}

    assert sorted(offsets.items()) == sorted(pair for one in got.values() for pair in one.offsets)
    old_sinks = [(old, f"pending of sink[{old}]".encode()) for old in range(before["sinks"])]
    assert old_sinks == sorted(pair for one in got.values() for pair in one.sinks)
    given_out = [group for one in got.values() for group, _ in one.operators.get("count", ())]
    assert sorted(groups) == sorted(given_out)
    for subtask in plan.subtasks:
        mine = [group for group, _ in got[subtask.name].operators.get("count", ())]
        assert [subtask.index] * len(mine) == [owner_of_group(group, subtask.parallelism) for group in mine]
        assert {split for split, _ in got[subtask.name].offsets} <= set(subtask.splits)
    assert offsets == covered(record)


@pytest.mark.row("S11")
@pytest.mark.row("S18")
def test_every_sink_receives_the_list_of_all_old_subtasks(engine: Any) -> None:
    record = record_of(counting(engine, sources=1, counts=1, sinks=3), dict.fromkeys(range(SPLITS), 0), set())
    sinks = [subtask for subtask in counting(engine, sources=1, counts=1, sinks=2).subtasks if subtask.sink]
    assert [(0, 1, 2), (0, 1, 2)] == [tuple(assign(sink, record).sinks_known) for sink in sinks]
    assert [[0, 2], [1]] == [[old for old, _ in assign(sink, record).sinks] for sink in sinks]
    assert [3, 3] == [assign(sink, record).parallelism for sink in sinks]


@pytest.mark.row("S11")
def test_without_a_checkpoint_every_subtask_starts_from_nothing(engine: Any) -> None:
    assert [NOTHING] * 3 == [assign(one, None) for one in counting(engine, sources=1, counts=1, sinks=1).subtasks]
    assert {} == covered(None)


@pytest.mark.row("S11")
def test_operators_and_source_stand_where_the_checkpoint_left_them(engine: Any) -> None:
    plan = counting(engine, sources=1, counts=1, sinks=1)
    record = record_of(plan, {split: 2 * split for split in range(SPLITS)}, {3})
    source, count, _ = (Subtask(one) for one in plan.subtasks)
    for subtask in (source, count):
        restore(subtask, assign(subtask.plan, record))
    assert source.reader is not None
    assert (0, 0) == source.reader.next()
    assert (1, 2) == source.reader.next()
    assert {3: b'{"key 3":3}'} == count.operators[0][1].capture()


@pytest.mark.row("S12")
def test_after_the_final_checkpoint_a_source_reads_no_more_even_if_it_was_stopped_early(engine: Any) -> None:
    plan = counting(engine, sources=1, counts=1, sinks=1)
    source = Subtask(plan.subtasks[0])
    restore(source, assign(source.plan, record_of(plan, dict.fromkeys(range(SPLITS), 4), set(), final=True)))
    assert () == source.on("emit", None, None)


@pytest.mark.row("S11")
def test_a_checkpoint_of_other_vertices_or_another_chaining_is_refused(engine: Any) -> None:
    def graph(name: str) -> JobGraph:
        vertices = (Vertex(name="source", source=engine.input()), Vertex(name=name, sink=True))
        return JobGraph(vertices, (Edge("source", name),))

    chained, apart, renamed = graph("sink").plan(), graph("sink").plan(chaining=False), graph("archive").plan()
    record = CheckpointRecord(3, False, {"sink[0]": {"source": b"[]", "sink": b""}}, {"sink": 1})
    for plan, wanted in ((apart, r"sink \(sink\), source \(source\)"), (renamed, r"archive \(sink \+ source\)")):
        with pytest.raises(
            RestoreError, match=rf"checkpoint 3 .* holds sink \(sink \+ source\); the job wants {wanted}"
        ):
            refuse_another_graph(plan, record)
    assert refuse_another_graph(chained, record) is None


@pytest.mark.row("S11")
def test_the_shell_starts_nothing_from_a_checkpoint_that_does_not_fit(engine: Any) -> None:
    storage, target = MemoryCheckpointStorage(), engine.Target()
    engine.run(storage=storage)
    with pytest.raises(RestoreError, match="checkpoint 3 does not fit this job"):
        engine.run(plan=counting(engine, sources=2, counts=1, sinks=2), storage=storage, target=target)
    assert [] == target.calls


@pytest.mark.row("S11")
@pytest.mark.row("S18")
@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_pending_transactions_outlive_a_change_of_parallelism(engine: Any, after: int) -> None:
    source, storage, target = engine.input(splits=3), MemoryCheckpointStorage(), engine.Target()
    died = engine.run(
        plan=engine.plan(source=source, sources=3, sinks=3),
        schedule="sink[1].notify_complete.before#2=kill",  # checkpoint 2 is complete; part of it is pre-committed only
        storage=storage,
        target=target,
        restart=NoRestart,
    )
    assert ("it died", 2) == (died.simulation.failure, storage.record.checkpoint_id)
    pending = {
        (row.split, row.offset) for name in target.staged if name.endswith("/1/2") for row in target.staged[name]
    }
    assert pending
    assert not pending & set(died.counts)

    again = engine.run(plan=engine.plan(source=source, sources=2, sinks=after), storage=storage, target=target)
    assert again.simulation.finished
    assert engine.rows_of(source) == again.counts
    assert {} == target.staged


def key_of(split: int, offset: int) -> str:
    return f"k{(split + offset) % 7}"


@pytest.mark.row("S11")
@pytest.mark.row("S18")
@pytest.mark.parametrize(
    "after", [(1, 2, 3), (5, 2, 3), (3, 1, 3), (3, 4, 3), (3, 2, 1), (3, 2, 5), (5, 5, 5), (1, 1, 1)]
)
def test_any_vertex_may_have_more_or_fewer_subtasks_after_a_restore(engine: Any, after: tuple[int, int, int]) -> None:
    """Pending transactions, counts by key and offsets: each key's count goes on where it was, and no row is missing."""
    source, storage, target = engine.input(splits=SPLITS, key=key_of), MemoryCheckpointStorage(), engine.Target()

    def plan(sources: int, counts: int, sinks: int) -> Plan:
        vertices = (
            Vertex(name="source", parallelism=sources, source=source),
            Vertex(name="count", parallelism=counts, operator=KeyedCount),
            Vertex(name="sink", parallelism=sinks, sink=True),
        )
        edges = (Edge("source", "count", Exchange.KEYED), Edge("count", "sink", Exchange.KEYED))
        return JobGraph(vertices, edges).plan()

    engine.run(
        plan=plan(3, 2, 3),
        schedule="sink[1].notify_complete.before#2=kill",
        storage=storage,
        target=target,
        restart=NoRestart,
        checkpoint_interval=9,
    )
    assert any(target.staged.values()), "something is pre-committed only"
    again = engine.run(plan=plan(*after), storage=storage, target=target, checkpoint_interval=9)
    assert engine.rows_of(source) == again.counts
    counted: dict[str, list[int]] = {}
    for row in again.witness.visible_at_end:
        counted.setdefault(row.key, []).append(int(row.value))
    assert all(sorted(values) == list(range(1, len(values) + 1)) for values in counted.values())


@pytest.mark.row("S11")
def test_a_job_starts_from_a_named_retained_checkpoint(engine: Any, tmp_path: Path) -> None:
    """An older one than the last: what it does not cover is read again, and nothing else."""
    kept = FolderCheckpointStorage(tmp_path / "old", retained=3)
    engine.run(storage=kept)
    assert [1, 2, 3] == kept.complete()
    named, begun = kept.load(2), FolderCheckpointStorage(tmp_path / "new")
    begun.claim_generation()
    begun.adopt(named)
    again = engine.run(storage=begun)
    offsets = covered(named)
    assert {2} == {argument[1] for _, argument in again.target.calls_of("open")}
    written = {(row.split, row.offset) for _, rows in again.target.calls_of("write") for row in rows}
    assert {row for row in engine.rows_of(engine.input()) if row[1] >= offsets[row[0]]} == written
    assert [1, 2, 3] == kept.complete(), "the old job's are its own"


@pytest.mark.row("S11")
def test_rows_that_were_restored_once_are_restored_again_though_their_sender_is_gone(engine: Any) -> None:
    """Twice in a row: from three sources to one, and again before the first rows in flight are all processed."""
    plan = counting(engine, sources=1, counts=1, sinks=1).subtasks[1]
    waiting = encode_waiting([("source[2]", Batch([Row(2, 0, "k", "v")])), ("source[0]", Batch([Row(0, 4, "k", "v")]))])
    states = {"source[0]": {"source": b"[]"}, "count[0]": {"count": {}, "in_flight": waiting}, "sink[0]": {"sink": b""}}
    record = CheckpointRecord(5, False, states, {"source": 1, "count": 1, "sink": 1})
    rows = [(row.split, row.offset) for _, batch in assign(plan, record).waiting for row in batch]
    assert [(2, 0), (0, 4)] == rows
    assert {(2, 0), (0, 4)} == in_flight(record)
