"""Unaligned checkpoints: the barrier overtakes rows, and what it has overtaken is neither lost nor repeated."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import (
    CheckpointConfiguration,
    ConfigurationError,
)
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import RestoreError, holds_rows, in_flight
from sinkproof.reference_engine.dataflow.in_flight_rows import decode_waiting, encode_waiting, waiting_in
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Plan, SubtaskPlan, Vertex
from sinkproof.reference_engine.dataflow.operators import KeyedCount, Map
from sinkproof.reference_engine.dataflow.unaligned_barriers import UnalignedSubtask
from sinkproof.reference_engine.shells.job import Job
from sinkproof.sink_adapters.protocol import Batch, Row

UNALIGNED: dict[str, Any] = {"checkpoint_interval": 7, "unaligned_checkpoints": True}
MODES = [
    pytest.param(UNALIGNED, id="unaligned"),
    pytest.param({**UNALIGNED, "aligned_checkpoint_timeout": 2}, id="after a timeout"),
]


def counting(engine: Any, *, sources: int = 2, counts: int = 2, sinks: int = 2) -> Plan:
    """source -keyed-> count -keyed-> sink. Each row has a key of its own: a value of 2 was counted twice."""
    source = engine.input(key=lambda split, offset: f"row {split} {offset}", splits=3)
    vertices = (
        Vertex(name="source", parallelism=sources, source=source),
        Vertex(name="count", parallelism=counts, operator=KeyedCount),
        Vertex(name="sink", parallelism=sinks, sink=True),
    )
    return JobGraph(vertices, (Edge("source", "count", Exchange.KEYED), Edge("count", "sink", Exchange.KEYED))).plan()


def all_rows(engine: Any) -> Counter[tuple[int, int]]:
    return engine.rows_of(engine.input(splits=3))  # type: ignore[no-any-return]


def middle(engine: Any, *, timeout_ms: int = 0) -> UnalignedSubtask:
    """Its channels are 1 and 2."""
    plan: SubtaskPlan = next(subtask for subtask in counting(engine).subtasks if subtask.vertex == "count")
    return UnalignedSubtask(plan, timeout_ms=timeout_ms)


def batch(channel: int, *, offset: int = 0) -> Batch:
    return Batch([Row(channel, offset, "k", "v")])


def kinds(effects: Any) -> list[str]:
    return [effect[2] if effect[0] == "send" else effect[0] for effect in effects]


# -- one subtask --------------------------------------------------------------------------------


@pytest.mark.row("S05")
def test_the_first_barrier_is_sent_on_at_once_and_rows_of_other_channels_are_processed_and_recorded(
    engine: Any,
) -> None:
    subtask = middle(engine)
    assert ["urgent", "urgent"] == kinds(subtask.on("urgent", 1, 7)), "captured and sent on; nothing to persist yet"
    assert ["rows"] == kinds(subtask.on("rows", 1, batch(1))), "behind its barrier: processed, not recorded"
    assert ["rows"] == kinds(subtask.on("rows", 2, batch(2))), "before its barrier: processed, and recorded"
    [(kind, checkpoint_id, states)] = subtask.on("urgent", 2, 7)
    assert ("upload", 7) == (kind, checkpoint_id)
    assert {} == states["count"], "captured before either row"
    assert [("source[1]", [(2, 0)])] == [
        (name, [(row.split, row.offset) for row in rows]) for name, rows in waiting_in(states)
    ]
    assert (("acknowledge", 7, "reference"),) == subtask.on("persisted", 7, "reference")


@pytest.mark.row("S05")
def test_nothing_on_the_way_leaves_no_trace_in_the_snapshot(engine: Any) -> None:
    subtask = middle(engine)
    subtask.on("urgent", 1, 7)
    [(_, _, states)] = subtask.on("urgent", 2, 7)
    assert {"count"} == set(states)


@pytest.mark.row("S05")
def test_an_alignment_that_takes_too_long_turns_unaligned(engine: Any) -> None:
    subtask = middle(engine, timeout_ms=5)
    assert (("alarm", 105, "turn_unaligned", 7),) == subtask.on("timed_barrier", 1, (7, 100)), "100: when triggered"
    subtask.on("rows", 1, batch(1))
    turned = subtask.on("turn_unaligned", 7, None)
    assert ["urgent", "urgent", "drain"] == kinds(turned)
    assert [("rows", 1, batch(1).rows)] == [(kind, channel, rows.rows) for kind, channel, rows in turned[-1][1]]
    subtask.on("rows", 2, batch(2))
    [(_, _, states)] = subtask.on("timed_barrier", 2, (7, 100))
    assert ["source[1]"] == [name for name, _ in waiting_in(states)]


@pytest.mark.row("S05")
def test_an_alignment_that_is_over_in_time_stays_aligned(engine: Any) -> None:
    subtask = middle(engine, timeout_ms=5)
    subtask.on("timed_barrier", 1, (7, 100))
    assert ["timed_barrier", "timed_barrier", "upload"] == kinds(subtask.on("timed_barrier", 2, (7, 100)))
    assert () == subtask.on("turn_unaligned", 7, None), "too late to matter"


@pytest.mark.row("S05")
def test_a_subtask_that_turns_unaligned_turns_those_downstream(engine: Any) -> None:
    subtask = middle(engine, timeout_ms=5)
    subtask.on("timed_barrier", 1, (7, 100))
    assert ["urgent", "urgent", "upload"] == kinds(subtask.on("urgent", 2, 7))


@pytest.mark.row("S05")
def test_a_plain_barrier_stays_aligned(engine: Any) -> None:
    subtask = middle(engine)
    assert () == subtask.on("barrier", 1, 7)
    assert () == subtask.on("rows", 1, batch(1)), "held"
    assert ["barrier", "barrier", "upload", "drain"] == kinds(subtask.on("barrier", 2, 7))


@pytest.mark.row("S05")
@pytest.mark.row("S07")
@pytest.mark.parametrize("kind", ["urgent", "barrier"])
def test_a_newer_barrier_gives_a_recording_up(engine: Any, kind: str) -> None:
    subtask = middle(engine)
    subtask.on("urgent", 1, 7)
    subtask.on("rows", 2, batch(2))
    subtask.on(kind, 2, 8)  # so barrier 7 will never come on channel 2
    subtask.on("rows", 1, batch(1, offset=1))
    effects = subtask.on(kind, 1, 8)
    uploads = [effect for effect in effects if effect[0] == "upload"]
    assert [8] == [checkpoint_id for _, checkpoint_id, _ in uploads]
    assert [name for name, _ in waiting_in(uploads[0][2])] == (["source[0]"] if kind == "urgent" else [])


@pytest.mark.row("S05")
@pytest.mark.row("S07")
def test_an_aborted_checkpoint_is_recorded_no_more(engine: Any) -> None:
    subtask = middle(engine)
    subtask.on("urgent", 1, 7)
    subtask.on("aborted", 7, None)
    assert () == subtask.on("urgent", 2, 7)
    assert subtask.recording is None


# -- a whole job --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.row("S05")
@pytest.mark.row("S10")
@pytest.mark.parametrize("options", MODES)
def test_exactly_once_under_every_single_crash(engine: Any, options: Any) -> None:
    restored_rows = 0
    schedules = engine.every_single_crash(engine.run(plan=counting(engine), **options))
    for schedule in schedules:
        run = engine.run(plan=counting(engine), schedule=schedule, **options)
        assert all_rows(engine) == run.counts, schedule
        assert {"1"} == {row.value for row in run.witness.visible_at_end}, schedule
        restored = {checkpoint_id for _, (_, checkpoint_id, _) in run.target.calls_of("open")}
        restored_rows += sum(
            len(in_flight(record)) for record in run.witness.decided if record.checkpoint_id in restored
        )
    assert len(schedules) > 250
    assert restored_rows > 100, "or nothing of this was tried"


@pytest.mark.row("S05")
def test_checkpoints_take_less_time_than_aligned_ones(engine: Any) -> None:
    """A slow channel holds an aligned one up; an unaligned one only waits for its last barrier."""

    def captured_at(**options: Any) -> list[int]:
        times: list[int] = []

        def note_point(simulation: Any, point: str) -> None:
            if point == "snapshot.before":
                times.append(simulation.now)

        before = lambda simulation: setattr(simulation, "on_point", note_point)  # noqa: E731
        engine.run(plan=counting(engine), before=before, **options)
        return times

    assert captured_at(**UNALIGNED)[0] < captured_at(checkpoint_interval=7)[0]


@pytest.mark.row("S05")
@pytest.mark.row("S12")
def test_the_final_checkpoint_is_aligned(engine: Any) -> None:
    run = engine.run(plan=counting(engine), **UNALIGNED)
    assert run.witness.decided[-1].final
    assert not holds_rows(run.witness.decided[-1])
    assert any(holds_rows(record) for record in run.witness.decided)


def stopped_with_rows_in_flight(engine: Any, plan: Plan, **options: Any) -> tuple[Any, Any]:
    """(storage, target) after a job that died with rows in flight in its last complete checkpoint."""
    for number in range(1, 9):
        storage, target = MemoryCheckpointStorage(), engine.Target()
        engine.run(
            plan=plan,
            schedule=f"sink[1].notify_complete.before#{number}=kill",
            storage=storage,
            target=target,
            restart=engine.NoRestart,
            **{**UNALIGNED, **options},
        )
        if holds_rows(storage.record):
            return storage, target
    raise AssertionError("no checkpoint of this job holds rows in flight")


@pytest.mark.row("S05")
@pytest.mark.row("S10")
def test_ignoring_the_rows_in_flight_of_a_checkpoint_loses_exactly_those(engine: Any) -> None:
    storage, target = stopped_with_rows_in_flight(engine, counting(engine))
    lost = in_flight(storage.record)
    again = engine.run(
        plan=counting(engine),
        storage=storage,
        target=target,
        checkpoint_id_of_ignored_in_flight_data=storage.record.checkpoint_id,
        **UNALIGNED,
    )
    assert lost
    assert lost == set(all_rows(engine) - again.counts)
    assert set() == again.repeated


@pytest.mark.row("S05")
@pytest.mark.row("S10")
def test_ignoring_those_of_another_checkpoint_loses_nothing(engine: Any) -> None:
    storage, target = stopped_with_rows_in_flight(engine, counting(engine))
    ignored = storage.record.checkpoint_id + 1
    options = {**UNALIGNED, "checkpoint_id_of_ignored_in_flight_data": ignored}
    again = engine.run(plan=counting(engine), storage=storage, target=target, **options)
    assert all_rows(engine) == again.counts


@pytest.mark.row("S05")
@pytest.mark.row("S11")
@pytest.mark.parametrize("unaligned", [True, False])
@pytest.mark.parametrize(
    "after", [(1, 2, 2), (3, 2, 2), (2, 1, 2), (2, 3, 2), (2, 2, 1), (2, 2, 3), (1, 3, 1), (3, 1, 3)]
)
def test_rows_in_flight_find_their_subtask_when_the_parallelism_has_changed(
    engine: Any, after: tuple[int, int, int], unaligned: bool
) -> None:
    storage, target = stopped_with_rows_in_flight(engine, counting(engine))
    sources, counts, sinks = after
    plan = counting(engine, sources=sources, counts=counts, sinks=sinks)
    again = engine.run(
        plan=plan, storage=storage, target=target, checkpoint_interval=7, unaligned_checkpoints=unaligned
    )
    assert all_rows(engine) == again.counts
    assert {"1"} == {row.value for row in again.witness.visible_at_end}


# -- where the job graph rules them out ----------------------------------------------------------


def custom(engine: Any, *, sinks: int = 2) -> Plan:
    """Its exchange is the user's own."""
    vertices = (
        Vertex(name="source", parallelism=2, source=engine.input(splits=3)),
        Vertex(name="map", parallelism=2, operator=lambda: Map(lambda row: row)),
        Vertex(name="sink", parallelism=sinks, sink=True),
    )
    mine = Edge("map", "sink", Exchange.CUSTOM, lambda row, parallelism: (row.offset // 2) % parallelism)
    return JobGraph(vertices, (Edge("source", "map", Exchange.KEYED), mine)).plan()


@pytest.mark.row("S05")
@pytest.mark.row("S10")
def test_a_partitioner_of_ones_own_rules_them_out_unless_they_are_forced(engine: Any) -> None:
    options = CheckpointConfiguration(unaligned_checkpoints=True)
    with pytest.raises(ConfigurationError, match=r"custom exchange behind map .* Set force_unaligned_checkpoints"):
        Job(plan=custom(engine), configuration=options)
    run = engine.run(plan=custom(engine), force_unaligned_checkpoints=True, **UNALIGNED)
    assert all_rows(engine) == run.counts
    assert any(holds_rows(record) for record in run.witness.decided)


@pytest.mark.row("S05")
@pytest.mark.row("S11")
def test_rows_behind_a_custom_partitioner_are_restored_with_their_parallelism_or_not_at_all(
    engine: Any,
) -> None:
    forced = {"force_unaligned_checkpoints": True}
    storage, target = stopped_with_rows_in_flight(engine, custom(engine), **forced)
    assert any(waiting_in(storage.record.states[f"sink[{index}]"]) for index in (0, 1))
    with pytest.raises(RestoreError, match=r"parallelism 3 of sink: rows of map\[.\] were on their way"):
        engine.run(plan=custom(engine, sinks=3), storage=storage, target=target, **forced, **UNALIGNED)
    again = engine.run(plan=custom(engine), storage=storage, target=target, **forced, **UNALIGNED)
    assert all_rows(engine) == again.counts


@pytest.mark.row("S05")
def test_rows_in_columns_come_back_as_columns() -> None:
    columns = Batch.from_arrow(Batch([Row(1, at, f"k{at}", "v", at) for at in range(3)]).to_arrow())
    [(name, back)] = decode_waiting(encode_waiting([("source[1]", columns)]))
    assert ("source[1]", True, columns.rows) == (name, back.columnar, back.rows)
    [(_, rows)] = decode_waiting(encode_waiting([("source[1]", batch(1))]))
    assert (False, batch(1).rows) == (rows.columnar, rows.rows)
