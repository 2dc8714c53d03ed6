"""One subtask alone: events in, effects out."""

from __future__ import annotations

from typing import Any

import pytest

from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, SubtaskPlan, Vertex
from sinkproof.reference_engine.dataflow.operators import KeyedCount
from sinkproof.reference_engine.dataflow.replayable_sources import decode_offsets
from sinkproof.reference_engine.dataflow.subtask import SETTLE_EVERY_MS, Subtask
from sinkproof.sink_adapters.protocol import Batch, Row

ROWS = Batch([Row(0, 0, "a", "v")])


@pytest.fixture
def source_plan(engine: Any) -> SubtaskPlan:
    return engine.plan().subtasks[0]


@pytest.fixture
def sink(engine: Any) -> Subtask:
    """Its channels are 1 and 2."""
    return Subtask(engine.plan().subtasks[2])


def kinds(effects: Any) -> list[str]:
    return [effect[0] for effect in effects]


def emit(source: Subtask, times: int) -> list[Any]:
    return [effect for _ in range(times) for effect in source.on("emit", None, None)]


@pytest.mark.row("S02")
def test_a_source_records_its_offsets_sends_the_barrier_everywhere_and_goes_on(source_plan: SubtaskPlan) -> None:
    source = Subtask(source_plan)
    emit(source, 2)
    effects = source.on("trigger", 5, None)
    assert [("send", 3, "barrier", 5), ("send", 4, "barrier", 5)] == effects[:2]
    [(_, checkpoint_id, states)] = effects[2:]
    assert (5, ((0, 4),)) == (checkpoint_id, decode_offsets(states["source"]))
    assert "timer" in kinds(emit(source, 1)), "it waited for no checkpoint"


@pytest.mark.row("S02")
def test_a_source_that_cuts_by_progress_waits_there_for_its_trigger(source_plan: SubtaskPlan) -> None:
    source = Subtask(source_plan, barrier_every=2)
    assert ("report", "cut", 1) == emit(source, 2)[-1]
    assert [] == emit(source, 1), "not a row more before the barrier"
    assert ("timer", None, "emit") == source.on("trigger", 1, None)[-1]
    assert "send" in kinds(emit(source, 1))


@pytest.mark.row("S06")
def test_the_vote_waits_for_the_snapshot_to_be_persisted_and_rows_do_not(
    source_plan: SubtaskPlan,
) -> None:
    source = Subtask(source_plan)
    effects = source.on("trigger", 1, None)
    assert ["send", "send", "upload"] == kinds(effects), "captured: the barrier goes on, no vote yet"
    assert "send" in kinds(emit(source, 1))
    assert (("acknowledge", 1, "reference"),) == source.on("persisted", 1, "reference")


@pytest.mark.row("S06")
def test_a_sink_snapshots_before_it_uploads_and_processes_held_rows_after(sink: Subtask) -> None:
    sink.on("barrier", 1, 1)
    sink.on("rows", 1, ROWS)
    assert [("capture", 1, {})] == sink.on("barrier", 2, 1)
    assert [("upload", 1, {"sink": b""}), ("drain", [("rows", 1, ROWS)])] == sink.captured(1, {"sink": b""})


@pytest.mark.row("S07")
def test_an_aborted_checkpoint_cancels_its_upload_and_never_votes(sink: Subtask) -> None:
    sink.captured(1, {"sink": b""})
    assert [("notify_aborted", 1), ("cancel_upload", 1)] == sink.on("aborted", 1, None)
    assert () == sink.on("persisted", 1, "reference")


@pytest.mark.row("S07")
def test_an_abort_releases_held_rows(sink: Subtask) -> None:
    sink.on("barrier", 1, 1)
    sink.on("rows", 1, ROWS)
    assert [("notify_aborted", 1), ("drain", [("rows", 1, ROWS)])] == sink.on("aborted", 1, None)
    assert [("write", ROWS)] == sink.on("rows", 1, ROWS), "the channel is open"


@pytest.mark.row("S09")
def test_a_sink_commits_when_it_is_notified_and_reports_what_is_in_doubt(sink: Subtask) -> None:
    assert (("notify", 3),) == sink.on("complete", 3, False)
    assert (("report", "unsettled_sink", (3,)), ("timer", SETTLE_EVERY_MS, "settle")) == sink.on("settled", [3], None)
    assert (("settle",),) == sink.on("settle", None, None)
    assert (("report", "unsettled_sink", ()),) == sink.on("settled", [], None)


@pytest.mark.row("S09")
def test_one_settle_timer_runs_however_many_notifications_find_something_in_doubt(sink: Subtask) -> None:
    first, second = sink.on("settled", [1], None), sink.on("settled", [1, 2], None)
    assert (["report", "timer"], ["report"]) == (kinds(first), kinds(second))
    sink.on("settle", None, None)
    assert ["report", "timer"] == kinds(sink.on("settled", [2], None))


@pytest.mark.row("S12")
def test_a_sink_receives_the_end_of_input_when_all_its_channels_have_ended(sink: Subtask) -> None:
    assert () == sink.on("end", 1, None)
    assert (("end_of_input",),) == sink.on("end", 2, None)


@pytest.mark.row("S12")
def test_a_sink_closes_only_when_the_final_checkpoint_is_settled(sink: Subtask) -> None:
    sink.on("complete", 4, True)
    assert ("report", "unsettled_sink", (4,)) == sink.on("settled", [4], None)[0]
    sink.on("settle", None, None)
    assert (("report", "closed_sink", None),) == sink.on("settled", [], None)


@pytest.mark.row("S12")
def test_a_source_ends_once_at_the_end_of_its_splits_or_when_it_is_stopped(source_plan: SubtaskPlan) -> None:
    read_to_the_end, stopped = Subtask(source_plan), Subtask(source_plan)
    end = [("report", "ended_source", None), ("send", 3, "end", None), ("send", 4, "end", None)]
    assert end == emit(read_to_the_end, 7)[-3:]  # 12 rows in batches of 2
    assert end == stopped.on("stop", None, None)
    assert () == stopped.on("stop", None, None)
    assert [] == emit(stopped, 1)


def count_chained_to_sink(engine: Any) -> JobGraph:
    return JobGraph(
        (
            Vertex(name="source", source=engine.input(splits=1)),
            Vertex(name="count", operator=KeyedCount),
            Vertex(name="sink", sink=True),
        ),
        (Edge("source", "count", Exchange.KEYED), Edge("count", "sink")),
    )


@pytest.mark.row("S14")
def test_chained_operators_hand_rows_over_without_a_channel(engine: Any) -> None:
    chained = Subtask(count_chained_to_sink(engine).plan().subtasks[1])
    [(kind, batch)] = chained.on("rows", 1, Batch([Row(0, 0, "a", "v"), Row(0, 1, "a", "v")]))
    assert ("write", ["1", "2"]) == (kind, [row.value for row in batch])


@pytest.mark.row("S14")
def test_the_same_operators_apart_send_what_they_made(engine: Any) -> None:
    apart = Subtask(count_chained_to_sink(engine).plan(chaining=False).subtasks[1])
    [(kind, to, what, batch)] = apart.on("rows", 1, Batch([Row(0, 0, "a", "v")]))
    assert ("send", 3, "rows", ["1"]) == (kind, to, what, [row.value for row in batch])


@pytest.mark.row("S12")
@pytest.mark.row("S14")
def test_a_sink_chained_to_its_source_receives_the_end_of_input_too(engine: Any) -> None:
    graph = JobGraph(
        (Vertex(name="source", source=engine.input(splits=1)), Vertex(name="sink", sink=True)),
        (Edge("source", "sink"),),
    )
    alone = Subtask(graph.plan().subtasks[0])
    assert ["end_of_input", "report"] == kinds(emit(alone, 7)[-2:])


@pytest.mark.row("S08")
def test_a_snapshot_holds_operator_state_by_key_group_beside_the_sinks(engine: Any) -> None:
    chained = Subtask(count_chained_to_sink(engine).plan().subtasks[1])
    chained.on("rows", 1, Batch([Row(0, 0, "a", "v")]))
    [(kind, _, states)] = chained.on("barrier", 1, 1)
    assert ("capture", [b'{"a":1}']) == (kind, list(states["count"].values()))
