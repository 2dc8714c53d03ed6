"""The job as its author writes it (vertices and edges), and the plan that shells deploy (subtasks and channels).

Chained operators share a subtask and hand rows over by a call; everything else goes through a channel, whether the
other
end is in the same process or across the network. Two vertices are chained when their parallelism is equal, the edge
between them is `forward`, and neither forbids it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from sinkproof.reference_engine.operators import Operator, key_group, owner_of_group
from sinkproof.reference_engine.sources import Input
from sinkproof.sink_adapters.protocol import Batch

VERTEX_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")  # as in schedules


class Exchange(enum.Enum):
    FORWARD = "forward"  # subtask i to subtask i
    KEYED = "keyed"  # to the subtask that owns the row's key group


class GraphError(ValueError):
    """A job graph that cannot be deployed; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """One step of the job. Exactly one of `source`, `operator` and `sink` is given."""

    name: str
    parallelism: int = 1
    source: Input | None = None
    operator: Callable[[], Operator] | None = None
    sink: bool = False
    chain: bool = True


@dataclass(frozen=True, slots=True)
class Edge:
    upstream: str
    downstream: str
    exchange: Exchange = Exchange.FORWARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where a subtask's rows go: one subtask, or one of several by key."""

    targets: tuple[int, ...]
    keyed: bool

    def route(self, batch: Batch) -> list[tuple[int, Batch]]:
        """(subtask id, its part of the rows), without empty parts, in the order of the targets."""
        if not self.keyed or len(self.targets) == 1:
            return [(self.targets[0], batch)]
        if batch.columnar:
            from sinkproof.reference_engine.columns import route  # only here: certifying needs no columns

            return [(self.targets[owner], part) for owner, part in route(batch, len(self.targets))]
        parts: dict[int, list] = {target: [] for target in self.targets}  # type: ignore[type-arg]
        for row in batch.rows:
            parts[self.targets[owner_of_group(key_group(row.key), len(self.targets))]].append(row)
        return [(target, Batch(rows)) for target, rows in parts.items() if rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskPlan:
    """One parallel subtask of a chain of vertices. `id` counts from 1; 0 is the coordinator."""

    id: int
    name: str  # "sink[0]"
    vertex: str
    index: int
    parallelism: int
    source: Input | None
    splits: tuple[int, ...]
    operators: tuple[tuple[str, Callable[[], Operator]], ...]
    sink: bool
    inputs: tuple[int, ...]
    outputs: tuple[Output, ...]
    emissions: dict[tuple[int, int], tuple[Any, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def parts(self) -> frozenset[str]:
        """What its states are called in a checkpoint."""
        own = {"source": self.source is not None, "sink": self.sink}
        return frozenset([*(name for name, there in own.items() if there), *(name for name, _ in self.operators)])


@dataclass(frozen=True, slots=True)
class Plan:
    subtasks: tuple[SubtaskPlan, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all actors by id; the coordinator's is the first."""
        return ("coordinator", *(subtask.name for subtask in self.subtasks))


@dataclass(frozen=True, slots=True)
class JobGraph:
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        by_name = {vertex.name: vertex for vertex in self.vertices}
        if len(by_name) != len(self.vertices):
            raise GraphError("two vertices have the same name")
        for vertex in self.vertices:
            self._refuse_vertex(vertex)
        if not any(vertex.source for vertex in self.vertices) or not any(vertex.sink for vertex in self.vertices):
            raise GraphError("the job needs a source and a sink: it ends when its sinks have committed what was read")
        if len({(edge.upstream, edge.downstream) for edge in self.edges}) != len(self.edges):
            raise GraphError("two edges join the same vertices: barriers of the two could not be told apart")
        order = list(by_name)
        for edge in self.edges:
            for name in (edge.upstream, edge.downstream):
                if name not in by_name:
                    raise GraphError(f"the edge {edge.upstream} -> {edge.downstream} names no vertex {name!r}")
            if order.index(edge.upstream) >= order.index(edge.downstream):
                raise GraphError(
                    f"the edge {edge.upstream} -> {edge.downstream} leads back: write vertices in the order of the flow"
                )
            ends = by_name[edge.upstream], by_name[edge.downstream]
            if edge.exchange is Exchange.FORWARD and ends[0].parallelism != ends[1].parallelism:
                raise GraphError(
                    f"forward edge {edge.upstream} -> {edge.downstream} joins parallelism {ends[0].parallelism} and "
                    f"{ends[1].parallelism}: make them equal, or exchange by key"
                )

    def _refuse_vertex(self, vertex: Vertex) -> None:
        """What would be deployed and then wait for ever, or overwrite another part of its subtask's state."""
        incoming = any(edge.downstream == vertex.name for edge in self.edges)
        outgoing = any(edge.upstream == vertex.name for edge in self.edges)
        roles = [vertex.source is not None, vertex.operator is not None, vertex.sink]
        wrong = {
            "no schedule could spell its name, which must be like 'my_sink-2'": not VERTEX_NAME.fullmatch(vertex.name),
            "it must be exactly one of source, operator and sink": sum(roles) != 1,
            f"its parallelism is {vertex.parallelism}": vertex.parallelism < 1,
            "no edge leads to it, so no row and no barrier ever comes": vertex.source is None and not incoming,
            "it is a source, and an edge leads to it": vertex.source is not None and incoming,
            "it is a sink, and an edge leads away from it": vertex.sink and outgoing,
            "operators may not be called 'source' or 'sink', as other parts of a snapshot are": (
                vertex.operator is not None and vertex.name in ("source", "sink")
            ),
        }
        for why in [why for why, holds in wrong.items() if holds]:
            raise GraphError(f"the vertex {vertex.name!r} cannot be deployed: {why}")

    def plan(self, *, chaining: bool = True) -> Plan:
        """The subtasks to deploy. Ids follow the order in which the vertices were written."""
        chains = self._chains(chaining)
        first_id, offsets = 1, {}
        for chain in chains:
            offsets[chain[0].name] = first_id
            first_id += chain[0].parallelism
        ids = {vertex.name: offsets[chain[0].name] for chain in chains for vertex in chain}
        return Plan(
            tuple(self._subtask(chain, index, ids) for chain in chains for index in range(chain[0].parallelism))
        )

    def _chains(self, chaining: bool) -> list[list[Vertex]]:
        chains: list[list[Vertex]] = []
        for vertex in self.vertices:
            incoming = [edge for edge in self.edges if edge.downstream == vertex.name]
            home = next((c for c in chains if incoming and c[-1].name == incoming[0].upstream), None)
            siblings = [edge for edge in self.edges if incoming and edge.upstream == incoming[0].upstream]
            joins = (
                chaining
                and home is not None
                and len(incoming) == len(siblings) == 1
                and incoming[0].exchange is Exchange.FORWARD
                and vertex.chain
                and home[-1].chain
            )
            if joins and home is not None:
                home.append(vertex)
            else:
                chains.append([vertex])
        return chains

    def _subtask(self, chain: list[Vertex], index: int, ids: dict[str, int]) -> SubtaskPlan:
        head, tail = chain[0], chain[-1]
        inside = {vertex.name for vertex in chain}
        speaker = tail if tail.sink else head
        by_name = {vertex.name: vertex for vertex in self.vertices}
        inputs: list[int] = []
        for edge in self.edges:
            if edge.downstream == head.name:
                first = ids[edge.upstream]
                count = by_name[edge.upstream].parallelism
                inputs += range(first, first + count) if edge.exchange is Exchange.KEYED else [first + index]
        outputs = []
        for edge in self.edges:
            if edge.upstream == tail.name and edge.downstream not in inside:
                keyed, first = edge.exchange is Exchange.KEYED, ids[edge.downstream]
                count = by_name[edge.downstream].parallelism
                targets = tuple(range(first, first + count)) if keyed else (first + index,)
                outputs.append(Output(targets=targets, keyed=keyed))
        splits = range(head.source.splits) if head.source else ()
        return SubtaskPlan(
            id=ids[head.name] + index,
            name=f"{speaker.name}[{index}]",
            vertex=speaker.name,
            index=index,
            parallelism=head.parallelism,
            source=head.source,
            splits=tuple(split for split in splits if split % head.parallelism == index),
            operators=tuple((vertex.name, vertex.operator) for vertex in chain if vertex.operator),
            sink=tail.sink,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
        )


def source_to_sink(source: Input, *, sources: int = 2, sinks: int = 2, exchange: Exchange = Exchange.KEYED) -> JobGraph:
    """The job that certifies sinks: a source, a keyed exchange, a sink."""
    return JobGraph(
        (Vertex(name="source", parallelism=sources, source=source), Vertex(name="sink", parallelism=sinks, sink=True)),
        (Edge("source", "sink", exchange),),
    )
