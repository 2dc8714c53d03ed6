"""From vertices and edges to subtasks and channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, GraphError, JobGraph, SubtaskOutput, Vertex
from sinkproof.reference_engine.dataflow.key_groups import key_group, owner_of_group
from sinkproof.reference_engine.dataflow.operators import KeyedCount, Map
from sinkproof.sink_adapters.protocol import Batch, Row

Graph = Callable[..., JobGraph]


@pytest.fixture
def pipeline(engine: Any) -> Graph:
    """source -> map -keyed-> count -> sink."""

    def make(*, source: Any = None, count: int = 2, chain_map: bool = True) -> JobGraph:
        return JobGraph(
            (
                Vertex(name="source", parallelism=2, source=source or engine.input()),
                Vertex(name="map", parallelism=2, operator=lambda: Map(lambda row: row), chain=chain_map),
                Vertex(name="count", parallelism=count, operator=KeyedCount),
                Vertex(name="sink", parallelism=count, sink=True),
            ),
            (Edge("source", "map"), Edge("map", "count", Exchange.KEYED), Edge("count", "sink")),
        )

    return make


@pytest.mark.row("S14")
def test_forward_edges_are_chained_and_keyed_ones_are_not(pipeline: Graph) -> None:
    plan = pipeline().plan()
    assert ("coordinator", "source[0]", "source[1]", "sink[0]", "sink[1]") == plan.names
    assert [["map"], ["map"], ["count"], ["count"]] == [[name for name, _ in one.operators] for one in plan.subtasks]


@pytest.mark.row("S14")
def test_chaining_can_be_turned_off_for_the_job_or_for_one_vertex(pipeline: Graph) -> None:
    assert (4, 8, 6) == tuple(
        len(plan.subtasks)
        for plan in (pipeline().plan(), pipeline().plan(chaining=False), pipeline(chain_map=False).plan())
    )


@pytest.mark.row("S14")
def test_a_vertex_with_two_ways_in_or_out_is_not_chained(engine: Any) -> None:
    graph = JobGraph(
        (
            Vertex(name="source", source=engine.input(splits=1)),
            Vertex(name="left", sink=True),
            Vertex(name="right", sink=True),
        ),
        (Edge("source", "left"), Edge("source", "right")),
    )
    assert ["source[0]", "left[0]", "right[0]"] == [subtask.name for subtask in graph.plan().subtasks]
    assert [(2,), (3,)] == [output.targets for output in graph.plan().subtasks[0].outputs]


@pytest.mark.row("S14")
def test_forward_joins_equal_subtasks_and_keyed_joins_all(pipeline: Graph) -> None:
    plan = pipeline(count=3).plan(chaining=False)
    inputs = {subtask.name: [plan.names[sender] for sender in subtask.inputs] for subtask in plan.subtasks}
    assert ["source[1]"] == inputs["map[1]"]
    assert ["map[0]", "map[1]"] == inputs["count[2]"]
    assert ["count[2]"] == inputs["sink[2]"]


def test_every_split_has_exactly_one_reader(engine: Any, pipeline: Graph) -> None:
    plan = pipeline(source=engine.input(splits=5)).plan()
    assert [0, 1, 2, 3, 4] == sorted(split for subtask in plan.subtasks for split in subtask.splits)


def test_a_keyed_exchange_sends_each_row_to_the_owner_of_its_key_group() -> None:
    rows = [Row(0, offset, f"key {offset}", "v") for offset in range(40)]
    routed = dict(SubtaskOutput(targets=(7, 8, 9)).route(Batch(rows)))
    assert {7, 8, 9} == set(routed)
    for target, batch in routed.items():
        assert list(batch) == [row for row in rows if 7 + owner_of_group(key_group(row.key), 3) == target]


SOURCE_AND_SINK = ("source", "sink")


@pytest.mark.parametrize(
    ("why", "vertices", "edges"),
    [
        ("two vertices have the same name", ["source", "source"], []),
        ("names no vertex 'nothing'", SOURCE_AND_SINK, [("source", "sink"), ("source", "nothing")]),
        ("joins parallelism 1 and 3", ["source", "sink*3"], [("source", "sink")]),
        (
            "no schedule could spell its name",
            ["source", "sink", "my sink"],
            [("source", "sink"), ("source", "my sink")],
        ),
        ("exactly one of source, operator and sink", ["source", "nothing", "sink"], [("source", "nothing")]),
        ("its parallelism is 0", ["source*0", "sink"], [("source", "sink")]),
        ("no edge leads to it", ["source", "sink", "operator"], [("source", "sink")]),
        (
            "it is a source, and an edge",
            ["source", "operator", "source2"],
            [("source", "operator"), ("operator", "source2")],
        ),
        ("it is a sink, and an edge", ["source", "sink", "operator"], [("source", "sink"), ("sink", "operator")]),
        ("needs a source and a sink", ["source", "operator"], [("source", "operator")]),
        ("two edges join the same", SOURCE_AND_SINK, [("source", "sink"), ("source", "sink")]),
        (
            "leads back",
            ["source", "operator", "operator2", "sink"],
            [("source", "operator"), ("operator", "operator2"), ("operator2", "operator"), ("operator2", "sink")],
        ),
    ],
)
def test_a_graph_that_could_not_run_is_refused_with_the_reason(
    engine: Any, why: str, vertices: Any, edges: Any
) -> None:
    made = [vertex(engine, name) for name in vertices]
    with pytest.raises(GraphError, match=why):
        JobGraph(tuple(made), tuple(Edge(*edge) for edge in edges))


def vertex(engine: Any, text: str) -> Vertex:
    """Its role follows from its name; `*3` is its parallelism."""
    name, _, parallelism = text.partition("*")
    return Vertex(
        name=name,
        parallelism=int(parallelism or 1),
        source=engine.input() if "source" in name else None,
        operator=KeyedCount if "operator" in name else None,
        sink="sink" in name,
    )


@pytest.mark.row("S08")
@pytest.mark.parametrize("name", ["source", "sink"])
def test_an_operator_may_not_take_the_name_of_another_part_of_a_snapshot(engine: Any, name: str) -> None:
    vertices = (
        Vertex(name="in", source=engine.input()),
        Vertex(name=name, operator=KeyedCount),
        Vertex(name="out", sink=True),
    )
    with pytest.raises(GraphError, match="operators may not be called"):
        JobGraph(vertices, (Edge("in", name), Edge(name, "out")))
