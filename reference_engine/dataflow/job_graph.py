"""Turns a job of vertices and edges into the plan that shells deploy: subtasks and channels.

Chained operators share a subtask and pass rows on by a call; all other rows go through a channel, whether the
other end is in the same process or across the network. Two vertices are chained when their parallelism is equal, the
edge between them is `forward`, and neither forbids it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from sinkproof.reference_engine.dataflow.event_time import Watermarks
from sinkproof.reference_engine.dataflow.key_groups import key_group, owner_of_group
from sinkproof.reference_engine.dataflow.operators import Operator
from sinkproof.reference_engine.dataflow.replayable_sources import Source
from sinkproof.sink_adapters.protocol import Batch, Row

PARTS_TAKEN: Final = ("source", "sink", "event_time", "in_flight", "queued")
VERTEX_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")  # as in schedules


class Exchange(enum.Enum):
    FORWARD = "forward"  # subtask i to subtask i
    KEYED = "keyed"  # to the subtask that owns the row's key group
    CUSTOM = "custom"  # to the subtask that the edge's own partitioner names


class GraphError(ValueError):
    """A job graph that cannot be deployed; the message says why."""


Partitioner = Callable[[Row, int], int]  # (row, parallelism downstream) -> which of the subtasks


class Reroute(enum.Enum):
    """How rows that were on their way find their subtask when the parallelism has changed."""

    BY_KEY = "by key"  # some exchange upstream of here was by key
    BY_SPLIT = "by split"  # nothing but forward edges since the source: a split has one reader
    BY_PARTITIONER = "by partitioner"  # a partitioner of the user's own, or a mixture: they cannot be rerouted


@dataclass(frozen=True, slots=True)
class Feed:
    """The sender at the other end of an input channel. Names outlive a change of parallelism; ids do not."""

    name: str  # "source[0]"
    vertex: str
    reroute: Reroute


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """One step of the job. Exactly one of `source`, `operator` and `sink` is given."""

    name: str
    parallelism: int = 1
    source: Source | None = None
    watermarks: Watermarks | None = None  # of a source of a job with windows
    operator: Callable[[], Operator] | None = None
    sink: bool = False
    chain: bool = True


@dataclass(frozen=True, slots=True)
class Edge:
    upstream: str
    downstream: str
    exchange: Exchange = Exchange.FORWARD
    partitioner: Partitioner | None = None  # of a custom exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskOutput:
    """Where a subtask's rows go: one subtask, or one of several by key."""

    targets: tuple[int, ...]
    partitioner: Partitioner | None = None

    def route(self, batch: Batch) -> list[tuple[int, Batch]]:
        """(subtask id, its part of the rows), without empty parts, in the order of the targets."""
        if len(self.targets) == 1:
            return [(self.targets[0], batch)]
        if batch.columnar and self.partitioner is None:
            from sinkproof.reference_engine.dataflow.columns import route  # only here: certifying needs no columns

            return [(self.targets[owner], part) for owner, part in route(batch, len(self.targets))]
        parts: dict[int, list] = {target: [] for target in self.targets}  # type: ignore[type-arg]
        for row in batch.rows:
            parts[self.targets[self._owner_of(row)]].append(row)
        return [(target, Batch(rows)) for target, rows in parts.items() if rows]

    def _owner_of(self, row: Row) -> int:
        if self.partitioner is not None:
            return self.partitioner(row, len(self.targets))
        return owner_of_group(key_group(row.key), len(self.targets))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskPlan:
    """One parallel subtask of a chain of vertices. `id` counts from 1; 0 is the coordinator."""

    id: int
    name: str  # "sink[0]"
    vertex: str
    index: int
    parallelism: int
    source: Source | None
    watermarks: Watermarks | None
    event_time: bool  # some source of the job sends watermarks
    splits: tuple[int, ...]
    operators: tuple[tuple[str, Callable[[], Operator]], ...]
    sink: bool
    inputs: tuple[int, ...]
    feeds: tuple[Feed, ...]  # of each input, in the same order
    outputs: tuple[SubtaskOutput, ...]
    receivers: tuple[tuple[int, str], ...]  # id and name of each subtask behind the outputs
    emissions: dict[tuple[int, int], tuple[Any, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def parts(self) -> frozenset[str]:
        """The names of its states in a checkpoint."""
        own = {"source": self.source is not None, "sink": self.sink, "event_time": self.watermarks is not None}
        return frozenset([*(name for name, there in own.items() if there), *(name for name, _ in self.operators)])


@dataclass(frozen=True)
class Plan:
    subtasks: tuple[SubtaskPlan, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all actors by id; the coordinator's is the first."""
        return ("coordinator", *(subtask.name for subtask in self.subtasks))

    @cached_property
    def parallelism(self) -> dict[str, int]:
        """By vertex."""
        return {subtask.vertex: subtask.parallelism for subtask in self.subtasks}

    @cached_property
    def parts(self) -> dict[str, frozenset[str]]:
        """The names of the states in a checkpoint, by vertex."""
        return {subtask.vertex: subtask.parts for subtask in self.subtasks}


@dataclass(frozen=True, slots=True)
class _Home:
    """Where the subtasks of a vertex are: the id of the first, and the vertex that names the chain they are in."""

    first_id: int
    speaker: str


def _speaker(chain: list[Vertex]) -> Vertex:
    return chain[-1] if chain[-1].sink else chain[0]


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
            raise GraphError("two edges join the same vertices: barriers of the two could not be distinguished")
        order = list(by_name)
        for edge in self.edges:
            for name in (edge.upstream, edge.downstream):
                if name not in by_name:
                    raise GraphError(f"the edge {edge.upstream} -> {edge.downstream} names no vertex {name!r}")
            if order.index(edge.upstream) >= order.index(edge.downstream):
                raise GraphError(
                    f"the edge {edge.upstream} -> {edge.downstream} leads back: write vertices in the order of the flow"
                )
            if (edge.exchange is Exchange.CUSTOM) != (edge.partitioner is not None):
                raise GraphError(f"the edge {edge.upstream} -> {edge.downstream}: a custom exchange has a partitioner")
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
            "only sources say watermarks": vertex.watermarks is not None and vertex.source is None,
            f"operators may not be called as other parts of a snapshot are: {', '.join(PARTS_TAKEN)}": (
                vertex.operator is not None and vertex.name in PARTS_TAKEN
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
        homes = {
            vertex.name: _Home(offsets[chain[0].name], _speaker(chain).name) for chain in chains for vertex in chain
        }
        return Plan(
            tuple(self._subtask(chain, index, homes) for chain in chains for index in range(chain[0].parallelism))
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

    def _reroute(self, edge: Edge) -> Reroute:
        """A forward edge keeps the placement of the exchange, or of the source, upstream of it."""
        if edge.exchange is not Exchange.FORWARD:
            return Reroute.BY_KEY if edge.exchange is Exchange.KEYED else Reroute.BY_PARTITIONER
        found = {self._reroute(above) for above in self.edges if above.downstream == edge.upstream}
        if not found:
            return Reroute.BY_SPLIT
        return found.pop() if len(found) == 1 else Reroute.BY_PARTITIONER

    def _subtask(self, chain: list[Vertex], index: int, homes: Mapping[str, _Home]) -> SubtaskPlan:
        head, tail, speaker = chain[0], chain[-1], _speaker(chain)
        inside = {vertex.name for vertex in chain}
        by_name = {vertex.name: vertex for vertex in self.vertices}
        inputs: list[int] = []
        feeds: list[Feed] = []
        for edge in self.edges:
            if edge.downstream == head.name:
                senders = [index] if edge.exchange is Exchange.FORWARD else range(by_name[edge.upstream].parallelism)
                home, reroute = homes[edge.upstream], self._reroute(edge)
                inputs += [home.first_id + sender for sender in senders]
                feeds += [Feed(f"{home.speaker}[{sender}]", home.speaker, reroute) for sender in senders]
        outputs, receivers = [], []
        for edge in self.edges:
            if edge.upstream == tail.name and edge.downstream not in inside:
                spread, first = edge.exchange is not Exchange.FORWARD, homes[edge.downstream].first_id
                count = by_name[edge.downstream].parallelism
                targets = tuple(range(first, first + count)) if spread else (first + index,)
                outputs.append(SubtaskOutput(targets=targets, partitioner=edge.partitioner))
                receivers += [(target, f"{homes[edge.downstream].speaker}[{target - first}]") for target in targets]
        splits = range(head.source.splits) if head.source else ()
        return SubtaskPlan(
            id=homes[head.name].first_id + index,
            name=f"{speaker.name}[{index}]",
            vertex=speaker.name,
            index=index,
            parallelism=head.parallelism,
            source=head.source,
            watermarks=head.watermarks,
            event_time=any(vertex.watermarks for vertex in self.vertices),
            splits=tuple(split for split in splits if split % head.parallelism == index),
            operators=tuple((vertex.name, vertex.operator) for vertex in chain if vertex.operator),
            sink=tail.sink,
            inputs=tuple(inputs),
            feeds=tuple(feeds),
            outputs=tuple(outputs),
            receivers=tuple(receivers),
        )


def source_to_sink(
    source: Source, *, sources: int = 2, sinks: int = 2, exchange: Exchange = Exchange.KEYED
) -> JobGraph:
    """The job that certifies sinks: a source, a keyed exchange, a sink."""
    return JobGraph(
        (Vertex(name="source", parallelism=sources, source=source), Vertex(name="sink", parallelism=sinks, sink=True)),
        (Edge("source", "sink", exchange),),
    )
