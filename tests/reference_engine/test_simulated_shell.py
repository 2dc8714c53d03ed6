"""The whole engine under virtual time, around a small two-phase sink."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from threading import Thread
from typing import Any

import pytest

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointingMode
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Plan, Vertex
from sinkproof.reference_engine.dataflow.operators import KeyedCount, Map
from sinkproof.reference_engine.shells.attempt_context import AttemptContext
from sinkproof.sink_adapters.protocol import Context

EXACTLY_ONCE, AT_LEAST_ONCE = CheckpointingMode.EXACTLY_ONCE, CheckpointingMode.AT_LEAST_ONCE


@pytest.fixture
def all_rows(engine: Any) -> Counter[tuple[int, int]]:
    """Of the input that every job here reads, each once."""
    return engine.rows_of(engine.input())  # type: ignore[no-any-return]


@pytest.mark.row("S02")
def test_barriers_divide_every_stream_into_the_same_epochs(engine: Any) -> None:
    run = engine.run()
    for subtask in (0, 1):
        assert [1, 2, 3] == [argument for sink, argument in run.target.calls_of("snapshot") if sink == subtask]
    for record in run.witness.decided:
        covered = run.simulation.covered(record)
        assert rows_written_before(run, record.checkpoint_id) == {(s, at) for s in covered for at in range(covered[s])}


def rows_written_before(run: Any, checkpoint_id: int) -> set[tuple[int, int]]:
    """Rows that the sinks were given before their snapshots of this checkpoint."""
    rows, done = set(), set()
    for call, subtask, argument in run.target.calls:
        if call == "write" and subtask not in done:
            rows |= {(row.split, row.offset) for row in argument}
        elif call == "snapshot" and argument == checkpoint_id:
            done.add(subtask)
    return rows


@pytest.mark.row("S02")
@pytest.mark.parametrize("sources", [1, 2, 8])
def test_every_sink_is_open_before_its_first_row_however_many_sources_there_are(
    engine: Any, all_rows: Any, sources: int
) -> None:
    run = engine.run(plan=engine.plan(sources=sources))
    assert [] == [call for call, subtask, _ in run.target.calls if subtask == -1]
    assert all_rows == run.counts


def counting(engine: Any) -> Plan:
    """Two sources with one keyed count for both, chained to the sink. Each row has a key of its own: a row with the
    value 2 was counted twice.
    """
    source = engine.input(key=lambda split, offset: f"row {split} {offset}")
    vertices = (
        Vertex(name="source", parallelism=2, source=source),
        Vertex(name="count", operator=KeyedCount),
        Vertex(name="sink", sink=True),
    )
    return JobGraph(vertices, (Edge("source", "count", Exchange.KEYED), Edge("count", "sink"))).plan()


def restored_in_the_middle(engine: Any, mode: CheckpointingMode, *, seed: int) -> Any:
    """Checkpoint 1 is complete, then every actor dies: the second generation starts from it."""
    schedule = f"seed={seed} checkpoint.notify#1=kill-job"
    return engine.run(plan=counting(engine), schedule=schedule, checkpoint_interval=7, checkpointing_mode=mode)


def behind_an_early_barrier(run: Any) -> set[tuple[int, int]]:
    """Rows in the snapshots of checkpoint 1 that its sources' offsets do not cover."""
    offsets = run.simulation.covered(run.witness.decided[0])
    return {(split, at) for split, at in rows_written_before(run, 1) if at >= offsets[split]}


SEEDS = range(1, 9)


@pytest.mark.row("S04")
@pytest.mark.row("S10")
def test_at_least_once_repeats_exactly_the_rows_behind_an_early_barrier(engine: Any, all_rows: Any) -> None:
    runs = [restored_in_the_middle(engine, AT_LEAST_ONCE, seed=seed) for seed in SEEDS]
    for run in runs:
        assert behind_an_early_barrier(run) == run.repeated
        assert run.repeated == {(row.split, row.offset) for row in run.witness.visible_at_end if row.value == "2"}
        assert set(all_rows) == set(run.counts)
    assert any(run.repeated for run in runs), "with some latencies there is such a row"


@pytest.mark.row("S03")
@pytest.mark.row("S04")
@pytest.mark.row("S10")
def test_exactly_once_repeats_none(engine: Any, all_rows: Any) -> None:
    for run in [restored_in_the_middle(engine, EXACTLY_ONCE, seed=seed) for seed in SEEDS]:
        assert len(run.noted("generation")) == 2
        assert set() == behind_an_early_barrier(run)
        assert all_rows == run.counts
        assert {"1"} == {row.value for row in run.witness.visible_at_end}


class Recording(MemoryCheckpointStorage):
    """Writes down what is stored and decided, in one list with the votes."""

    def __init__(self, order: list[tuple[str, int, str]]) -> None:
        super().__init__()
        self.order = order

    def store(self, checkpoint_id: int, subtask: str, states: dict[str, Any]) -> Any:
        self.order.append(("store", checkpoint_id, subtask))
        return super().store(checkpoint_id, subtask, states)

    def decide(self, record: Any) -> None:
        self.order.append(("decide", record.checkpoint_id, ""))
        super().decide(record)


@pytest.mark.row("S06")
def test_a_snapshot_is_stored_then_voted_for_then_decided_then_notified(engine: Any) -> None:
    order: list[tuple[str, int, str]] = []

    class RecordingSink(engine.StagingSink):  # type: ignore[misc]
        def notify_complete(self, checkpoint_id: int) -> None:
            order.append(("notify", checkpoint_id, f"sink[{self.context.subtask}]"))
            super().notify_complete(checkpoint_id)

    run = engine.run(sink=RecordingSink, storage=Recording(order))
    voted = {(checkpoint_id, name): now for now, name, checkpoint_id in run.noted("acknowledged")}
    decided = {checkpoint_id: now for now, _, checkpoint_id in run.noted("complete")}
    assert [1, 2, 3] == list(decided)
    for checkpoint_id, at in decided.items():
        mine = [(what, name) for what, one, name in order if one == checkpoint_id]
        assert ["store"] * 4 + ["decide"] + ["notify"] * 2 == [what for what, _ in mine]
        votes = [voted[checkpoint_id, name] for what, name in mine if what == "store"]
        assert max(votes) < at


@pytest.mark.row("S06")
def test_rows_go_on_while_a_snapshot_is_being_persisted(engine: Any) -> None:
    """The upload of sink[1] takes 7 ms: it is given rows between its snapshot and its vote."""
    times: dict[str, list[int]] = {"snapshot.before": [], "write.before": [], "acknowledge.before": []}

    def note_point(simulation: Any, point: str) -> None:
        if simulation.names[simulation.actor[0]] == "sink[1]" and point in times:
            times[point].append(simulation.now)

    engine.run(before=lambda simulation: setattr(simulation, "on_point", note_point), checkpoint_interval=7)
    snapshot, vote = times["snapshot.before"][0], times["acknowledge.before"][0]
    assert vote - snapshot == 7
    assert [now for now in times["write.before"] if snapshot < now < vote]


@pytest.mark.row("S09")
@pytest.mark.parametrize("voter", ["source[0]", "source[1]", "sink[0]", "sink[1]"])
def test_one_declined_vote_aborts_for_all_and_the_next_checkpoint_brings_the_rows(
    engine: Any, all_rows: Any, voter: str
) -> None:
    run = engine.run(schedule=f"{voter}.acknowledge.before#2=decline", max_concurrent_checkpoints=3)
    assert [1, 3] == [record.checkpoint_id for record in run.witness.decided][:2], "and not the one before it"
    assert {(0, 2), (1, 2)} <= set(run.target.calls_of("notify_aborted"))
    assert set(run.witness.visible_at_decision[3]) <= rows_written_before(run, 1)
    assert (1, all_rows) == (len(run.noted("generation")), run.counts)


@pytest.mark.row("S09")
@pytest.mark.parametrize("point", ["commit.before", "commit.after"])
def test_a_commit_that_fails_after_the_decision_restarts_the_job_and_is_done_again(
    engine: Any, all_rows: Any, point: str
) -> None:
    run = engine.run(schedule=f"sink[0].{point}#2=error")
    assert [(700_001, None), (700_002, 2)] == sorted({argument[:2] for _, argument in run.target.calls_of("open")})
    assert all_rows == run.counts


@pytest.mark.row("S07")
def test_a_cancelled_job_closes_its_sinks_and_commits_nothing_more(engine: Any) -> None:
    run = engine.run(before=engine.request(40, "cancel"))
    assert run.simulation.finished
    assert [0, 1] == sorted(subtask for subtask, _ in run.target.calls_of("close"))
    assert {1} == {checkpoint_id for _, checkpoint_id in run.target.calls_of("notify_complete")}
    assert set(run.counts) == rows_written_before(run, 1)


# -- the end ------------------------------------------------------------------------------------


@pytest.mark.row("S12")
def test_the_last_rows_are_committed_by_a_final_checkpoint(engine: Any, all_rows: Any) -> None:
    run = engine.run(checkpoint_every_batches=5)  # of 6 that each source has: the last one is behind the last cut
    last = run.witness.decided[-1]
    assert (True, all_rows) == (last.final, run.counts)
    assert set(run.witness.visible_at_decision[last.checkpoint_id]) < set(all_rows)
    assert [0, 1] == sorted(subtask for subtask, _ in run.target.calls_of("end_of_input"))


@pytest.mark.row("S12")
@pytest.mark.parametrize("lost", ["#5", "#6"])  # two sinks are notified of three checkpoints
def test_if_its_notification_is_lost_recovery_settles_it(engine: Any, all_rows: Any, lost: str) -> None:
    run = engine.run(schedule=f"checkpoint.notify{lost}=lose")
    assert (True, all_rows) == (run.simulation.finished, run.counts)
    assert [700_001, 700_002] == sorted({argument[0] for _, argument in run.target.calls_of("open")})
    assert {3} == {argument[1] for _, argument in run.target.calls_of("open") if argument[0] == 700_002}


def chained(engine: Any) -> Plan:
    vertices = (
        Vertex(name="source", parallelism=2, source=engine.input()),
        Vertex(name="sink", parallelism=2, sink=True),
    )
    return JobGraph(vertices, (Edge("source", "sink"),)).plan()


@pytest.mark.row("S12")
@pytest.mark.parametrize("plan", [lambda engine: engine.plan(), chained])
@pytest.mark.parametrize("schedule", ["no-fault", "sink[0].notify_complete.before#{last}=kill"])
def test_stopping_with_a_checkpoint_commits_what_was_read_and_reads_no_more(
    engine: Any, plan: Callable[[Any], Plan], schedule: str
) -> None:
    stop = engine.request(24, "stop_with_checkpoint")
    last = len(engine.run(plan=plan(engine), before=stop).witness.decided)
    run = engine.run(plan=plan(engine), schedule=schedule.format(last=last), before=stop)
    final = run.witness.decided[-1]
    assert (True, True) == (run.simulation.finished, final.final)
    offsets = run.simulation.covered(final)
    assert 0 < sum(offsets.values()) < 24
    assert Counter((split, at) for split in offsets for at in range(offsets[split])) == run.counts
    assert set(run.counts) == {(row.split, row.offset) for _, rows in run.target.calls_of("write") for row in rows}


# -- three ways to hand rows over ---------------------------------------------------------------


def pipeline(engine: Any) -> JobGraph:
    """Keys belong to one split each: a count does not depend on how splits are interleaved."""
    source = engine.input(key=lambda split, offset: f"{split}-{offset % 3}")
    return JobGraph(
        (
            Vertex(name="source", parallelism=2, source=source),
            Vertex(name="map", parallelism=2, operator=lambda: Map(lambda row: row._replace(key=row.key + "!"))),
            Vertex(name="count", parallelism=2, operator=KeyedCount),
            Vertex(name="sink", parallelism=2, sink=True),
        ),
        (Edge("source", "map"), Edge("map", "count", Exchange.KEYED), Edge("count", "sink")),
    )


@pytest.mark.row("S14")
@pytest.mark.parametrize(
    "schedule", ["no-fault", "seed=5 sink[0].write.before#4=kill", "sink[1].snapshot.after#2=kill-job"]
)
def test_chained_or_exchanged_the_rows_are_the_same(engine: Any, schedule: str) -> None:
    chained, apart = (engine.run(plan=pipeline(engine).plan(chaining=on), schedule=schedule) for on in (True, False))
    assert (4, 8) == (len(chained.simulation.names) - 1, len(apart.simulation.names) - 1)
    assert sorted(chained.witness.visible_at_end) == sorted(apart.witness.visible_at_end)
    assert 24 == len(chained.witness.visible_at_end)
    assert {"1", "2", "3", "4"} == {row.value for row in chained.witness.visible_at_end}


def test_an_attempt_has_one_random_generator_that_is_seeded_when_it_is_used() -> None:
    seeded: list[Random] = []

    def seed() -> Random:
        seeded.append(Random(7))
        return seeded[-1]

    context = AttemptContext(random_made=seed, generation=2)
    assert (context.generation, seeded) == (2, [])
    assert isinstance(context, Context)
    assert context.random is context.random is seeded[0]
    assert context.random.random() == Random(7).random()
    assert not hasattr(context, "else")
    assert len(seeded) == 1


def test_a_sink_may_copy_its_context_with_another_field() -> None:
    context = AttemptContext(random_made=lambda: Random(7), generation=2, subtask=1)
    copied = replace(context, generation=3)
    assert (copied.generation, copied.subtask, context.generation) == (3, 1, 2)
    assert copied.random is context.random


@pytest.mark.parametrize(("rows", "is_kept"), [(1000, True), (1001, False)])
def test_only_small_batches_are_kept_for_further_runs(engine: Any, rows: int, is_kept: bool) -> None:
    source = engine.input(rows_per_split=rows, batch_rows=rows)
    plan = engine.plan(source=source)
    run = engine.run(plan=plan)
    assert engine.rows_of(source) == run.counts
    assert (2 if is_kept else 0) == sum(len(subtask.emissions) for subtask in plan.subtasks)
    assert is_kept is (source.batch(0, 0) is source.batch(0, 0))


def test_what_a_thread_of_a_sink_does_beside_a_reader_ends_no_reading(engine: Any) -> None:
    simulation, read_at = engine.run().simulation, []
    simulation.over, simulation.on_point = False, lambda _, point: read_at.append(point)
    simulation.actor = (1, 1)
    thread = Thread(target=simulation.reach, args=("file.write(a)",))
    thread.start()
    thread.join()
    simulation.reach("file.write(b)")
    assert [(1, "file.write(a)"), (1, "file.write(b)")] == simulation.trace[-2:]
    assert ["file.write(b)"] == read_at
