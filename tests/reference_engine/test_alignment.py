"""Barriers on several channels: what is held back, what a checkpoint cuts, what an abort releases."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkproof.reference_engine.dataflow.barrier_alignment import Aligned, Tracked
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, SubtaskPlan, Vertex
from sinkproof.reference_engine.dataflow.operators import Map
from sinkproof.reference_engine.dataflow.subtask import Subtask
from sinkproof.sink_adapters.protocol import Batch, Row


def middle(channels: int, engine: Any) -> SubtaskPlan:
    """One subtask between `channels` sources and a sink. Its channels are numbered 1, 2, ..."""
    graph = JobGraph(
        (
            Vertex(name="in", parallelism=channels, source=engine.input()),
            Vertex(name="mid", operator=lambda: Map(lambda row: row)),
            Vertex(name="out", sink=True),
        ),
        (Edge("in", "mid", Exchange.KEYED), Edge("mid", "out")),
    )
    return next(subtask for subtask in graph.plan(chaining=False).subtasks if subtask.vertex == "mid")


class Driven:
    """A subtask, with its effects carried out: `out` holds what it sent: (split, offset), or a barrier's id."""

    def __init__(self, plan: SubtaskPlan, *, aligned: bool) -> None:
        self.subtask = Subtask(plan, aligned=aligned)
        self.out: list[Any] = []

    def give(self, kind: str, a: Any, b: Any) -> None:
        self.act(self.subtask.on(kind, a, b))

    def act(self, effects: Any) -> None:
        for effect in effects:
            if effect[0] == "send":
                rows = [(row.split, row.offset) for row in effect[3]] if effect[2] == "rows" else [effect[3]]
                self.out += rows
            elif effect[0] == "drain":
                for event in effect[1]:
                    self.give(*event)

    def row(self, channel: int, offset: int) -> None:
        self.give("rows", channel, Batch([Row(channel, offset, "k", "v")]))


@pytest.fixture
def two_channels(engine: Any) -> Driven:
    return Driven(middle(2, engine), aligned=True)


@pytest.mark.row("S03")
def test_rows_behind_a_barrier_wait_for_the_last_barrier_and_then_come_first(two_channels: Driven) -> None:
    two_channels.give("barrier", 1, 7)
    two_channels.row(1, 0)  # behind the barrier: held
    two_channels.row(2, 0)  # before its channel's barrier: processed
    assert [(2, 0)] == two_channels.out
    two_channels.give("barrier", 2, 7)
    two_channels.row(2, 1)
    assert [(2, 0), 7, (1, 0), (2, 1)] == two_channels.out


@pytest.mark.row("S03")
def test_several_pending_checkpoints_are_aligned_one_after_the_other(two_channels: Driven) -> None:
    for event in (("barrier", 1, 1), ("barrier", 1, 2)):
        two_channels.give(*event)
    two_channels.row(1, 0)  # behind both barriers
    two_channels.give("barrier", 2, 1)
    assert [1] == two_channels.out, "barrier 2 was held, and now blocks its channel itself"
    two_channels.row(2, 0)
    two_channels.give("barrier", 2, 2)
    assert [1, (2, 0), 2, (1, 0)] == two_channels.out


@pytest.mark.row("S03")
@pytest.mark.row("S07")
def test_an_aborted_checkpoint_releases_its_channels_at_once(two_channels: Driven) -> None:
    two_channels.give("barrier", 1, 1)
    two_channels.row(1, 0)
    two_channels.give("aborted", 1, None)
    assert [(1, 0)] == two_channels.out
    two_channels.give("barrier", 2, 1)  # too late: ignored, blocks nothing
    two_channels.row(2, 0)
    assert [(1, 0), (2, 0)] == two_channels.out


@pytest.mark.row("S03")
def test_a_newer_barrier_on_an_open_channel_gives_the_older_alignment_up(two_channels: Driven) -> None:
    two_channels.give("barrier", 1, 1)
    two_channels.row(1, 0)
    two_channels.give("barrier", 2, 2)  # so barrier 1 will never come on channel 2
    two_channels.row(2, 0)
    assert [(1, 0)] == two_channels.out, "released; channel 2 is now aligned for checkpoint 2"
    two_channels.give("barrier", 1, 2)
    assert [(1, 0), 2, (2, 0)] == two_channels.out


@pytest.mark.row("S03")
@pytest.mark.row("S07")
@pytest.mark.parametrize("aligned", [True, False])
def test_the_abort_of_a_newer_checkpoint_leaves_an_older_one_alone(engine: Any, aligned: bool) -> None:
    driven = Driven(middle(2, engine), aligned=aligned)
    driven.give("barrier", 1, 1)
    driven.give("aborted", 2, None)  # declined by a subtask upstream, long before its barriers are here
    driven.give("barrier", 2, 1)
    driven.give("barrier", 1, 2)
    driven.give("barrier", 2, 2)
    driven.give("barrier", 1, 3)
    driven.give("barrier", 2, 3)
    assert [1, 3] == driven.out


@pytest.mark.row("S03")
def test_the_end_of_a_channel_waits_behind_a_barrier_like_a_row(two_channels: Driven) -> None:
    two_channels.give("end", 2, None)
    two_channels.give("barrier", 1, 1)
    two_channels.give("end", 1, None)
    assert [] == two_channels.out
    two_channels.give("barrier", 2, 1)  # barriers still come over a channel that has ended
    assert [1, None] == two_channels.out, "the barrier, and then the end"


@pytest.mark.row("S04")
def test_tracking_processes_rows_behind_an_early_barrier_before_the_snapshot(engine: Any) -> None:
    driven = Driven(middle(2, engine), aligned=False)
    driven.give("barrier", 1, 1)
    driven.row(1, 0)
    driven.give("barrier", 2, 1)
    assert [(1, 0), 1] == driven.out


@pytest.mark.row("S04")
def test_tracking_counts_several_checkpoints_at_once() -> None:
    tracked = Tracked(2)
    assert [None, None, 2, None] == [tracked.barrier(*barrier) for barrier in ((1, 1), (1, 2), (2, 2), (2, 1))]


@pytest.mark.row("S03")
def test_a_barrier_that_comes_once_more_blocks_nothing() -> None:
    aligned = Aligned(2)
    assert [None, 1] == [aligned.barrier(channel, 1) for channel in (1, 2)]
    aligned.release()
    assert (None, set()) == (aligned.barrier(1, 1), aligned.blocked)


# -- any interleaving ------------------------------------------------------------------------------

CHECKPOINTS = 4


@st.composite
def interleavings(draw: st.DrawFn) -> tuple[int, set[int], list[tuple[str, int, int]]]:
    """Channels, the ids that were aborted, and events in the order of their arrival: each channel first in, first out.

    The abort may come at any time, or get lost; upstream may have given the checkpoint up and sent no barrier.
    """
    channels = draw(st.integers(1, 4))
    aborted = draw(st.sets(st.integers(1, CHECKPOINTS)))
    queues: list[list[tuple[str, int, int]]] = []
    for channel in range(1, channels + 1):
        queue, offset = [], 0
        for checkpoint_id in range(1, CHECKPOINTS + 1):
            for _ in range(draw(st.integers(0, 2))):
                queue.append(("row", channel, offset))
                offset += 1
            if checkpoint_id not in aborted or draw(st.booleans()):
                queue.append(("barrier", channel, checkpoint_id))
        queues.append([*queue, ("row", channel, offset)])
    queues += [[("aborted", one, 0)] for one in sorted(aborted) if draw(st.booleans())]
    order = draw(st.permutations([index for index, queue in enumerate(queues) for _ in queue]))
    closing = [("barrier", channel, CHECKPOINTS + 1) for channel in range(1, channels + 1)]
    return channels, aborted, [*(queues[index].pop(0) for index in order), *closing]


def drive(engine: Any, channels: int, events: list[tuple[str, int, int]], *, aligned: bool) -> Driven:
    driven = Driven(middle(channels, engine), aligned=aligned)
    for kind, a, b in events:
        driven.row(a, b) if kind == "row" else driven.give(kind, a, b)
    return driven


@pytest.mark.row("S03")
@given(interleavings())
def test_alignment_loses_repeats_and_reorders_nothing(engine: Any, drawn: Any) -> None:
    channels, _, events = drawn
    driven = drive(engine, channels, events, aligned=True)
    for channel in range(1, channels + 1):
        sent = [offset for kind, source, offset in events if kind == "row" and source == channel]
        assert sent == [item[1] for item in driven.out if isinstance(item, tuple) and item[0] == channel]
    assert set() == driven.subtask.alignment.blocked


@pytest.mark.row("S03")
@given(interleavings())
def test_a_forwarded_barrier_stands_where_it_stood_in_every_channel(engine: Any, drawn: Any) -> None:
    channels, aborted, events = drawn
    out = drive(engine, channels, events, aligned=True).out
    forwarded = [item for item in out if isinstance(item, int)]
    assert forwarded == sorted(set(forwarded))
    assert set(range(1, CHECKPOINTS + 2)) - aborted <= set(forwarded), (
        "every checkpoint that was not aborted is snapshotted"
    )
    for checkpoint_id in forwarded:
        before = {item for item in out[: out.index(checkpoint_id)] if isinstance(item, tuple)}
        assert rows_before(checkpoint_id, events) == before


def rows_before(checkpoint_id: int, events: list[tuple[str, int, int]]) -> set[tuple[int, int]]:
    """The rows that precede this barrier in their own channels."""
    passed = set()
    rows = set()
    for kind, a, b in events:
        if kind == "barrier" and b == checkpoint_id:
            passed.add(a)
        elif kind == "row" and a not in passed:
            rows.add((a, b))
    return rows


@pytest.mark.row("S04")
@given(interleavings())
def test_tracking_holds_nothing_and_forwards_every_barrier_that_was_not_aborted(engine: Any, drawn: Any) -> None:
    channels, aborted, events = drawn
    out = drive(engine, channels, events, aligned=False).out
    assert [(a, b) for kind, a, b in events if kind == "row"] == [item for item in out if isinstance(item, tuple)]
    assert set(range(1, CHECKPOINTS + 2)) - aborted <= {item for item in out if isinstance(item, int)}
