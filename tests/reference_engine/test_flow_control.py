"""Credits: what is sent has room, nothing grows, a stop reaches the source, and barriers get through."""

from __future__ import annotations

from collections import Counter, deque
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sinkproof.explain.models.memory_budget import buffers_wanted
from sinkproof.reference_engine.checkpointing.restore_and_rescale import holds_rows, in_flight
from sinkproof.reference_engine.dataflow.flow_control import Buffers, Gate, Item, Outlet
from sinkproof.reference_engine.dataflow.in_flight_rows import ON_THE_WAY
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Plan, Vertex
from sinkproof.reference_engine.dataflow.operators import KeyedCount


class Wires:
    """A gate, an outlet for each of its channels, and what is on its way between them, delivered at random."""

    def __init__(self, channels: int, buffers: Buffers, random: Random) -> None:
        self.buffers, self.random = buffers, random
        self.gate = Gate(range(channels), buffers)
        self.outlets = [Outlet(buffers.exclusive) for _ in range(channels)]
        self.on_their_way: list[deque[Item]] = [deque() for _ in range(channels)]
        self.granted: list[deque[int]] = [deque() for _ in range(channels)]
        self.made = [0] * channels
        self.got: list[list[int]] = [[] for _ in range(channels)]

    def step(self, taking: bool) -> None:
        channel = self.random.randrange(len(self.outlets))
        deeds = [self.make, self.deliver, self.grant, *([self.take] if taking else [])]
        self.random.choice(deeds)(channel)
        held = [owned - promised for owned, promised in zip(*self.counts, strict=True)]
        assert sum(held) <= len(held) * self.buffers.exclusive + self.buffers.floating
        assert sum(self.counts[0]) + self.gate.floating_free == len(held) * self.buffers.exclusive + (
            self.buffers.floating
        )

    @property
    def counts(self) -> tuple[list[int], list[int]]:
        return list(self.gate.owned.values()), list(self.gate.promised.values())

    def make(self, channel: int) -> None:
        self.on_their_way[channel] += self.outlets[channel].put("rows", self.made[channel])
        self.made[channel] += 1

    def deliver(self, channel: int) -> None:
        if self.on_their_way[channel]:
            self.grants(self.gate.arrive(channel, self.on_their_way[channel].popleft()))

    def grant(self, channel: int) -> None:
        if self.granted[channel]:
            self.on_their_way[channel] += self.outlets[channel].grant(self.granted[channel].popleft())

    def take(self, channel: int) -> None:
        if self.gate.inlets[channel]:
            _, payload, grants = self.gate.take(channel)
            self.got[channel].append(payload)
            self.grants(grants)

    def grants(self, grants: list[tuple[int, int]]) -> None:
        for channel, credits_ in grants:
            self.granted[channel].append(credits_)

    def drain(self) -> None:
        """Every item arrives if every subtask goes on."""
        for _ in range(10 * sum(self.made) + 10):
            for channel in range(len(self.outlets)):
                self.deliver(channel)
                self.grant(channel)
                self.take(channel)


@pytest.mark.row("S15")
@settings(max_examples=60)
@given(
    channels=st.integers(1, 4),
    exclusive=st.integers(1, 3),
    floating=st.integers(0, 5),
    seed=st.integers(0, 10**6),
)
def test_what_is_sent_has_room_and_everything_comes_in_order(
    channels: int, exclusive: int, floating: int, seed: int
) -> None:
    wires = Wires(channels, Buffers(exclusive=exclusive, floating=floating), Random(seed))
    for step in range(300):
        wires.step(taking=step % 100 > 50)
    wires.drain()
    assert [list(range(made)) for made in wires.made] == wires.got


@pytest.mark.row("S15")
def test_without_a_credit_nothing_is_sent_but_barriers_in_front() -> None:
    outlet = Outlet(1)
    assert [Item("rows", "a", 0)] == outlet.put("rows", "a")
    assert [Item("barrier", 1, 0)] == outlet.put("barrier", 1), "costs nothing"
    assert [] == outlet.put("rows", "b")
    assert [] == outlet.put("barrier", 2), "keeps its place"
    assert 1 == outlet.backlog
    assert [Item("rows", "b", 0), Item("barrier", 2, 0)] == outlet.grant(1)


@pytest.mark.row("S15")
def test_a_backlog_is_announced_and_borrows_floating_buffers_until_it_is_gone() -> None:
    gate = Gate([1, 2], Buffers(exclusive=1, floating=2))
    assert [(1, 2)] == gate.arrive(1, Item("rows", "a", backlog=5))
    assert [] == gate.arrive(2, Item("rows", "x", backlog=3)), "there are no more"
    gate.arrive(1, Item("rows", "b", backlog=0))
    assert ("rows", "a", [(2, 1)]) == gate.take(1), "a borrowed buffer goes to the channel that waits for it"
    gate.arrive(2, Item("rows", "y"))
    with pytest.raises(AssertionError, match="without a credit"):
        gate.arrive(2, Item("rows", "z"))


@pytest.mark.row("S15")
@pytest.mark.parametrize("options", [{"exclusive": 0}, {"floating": -1}, {"queued": 0}])
def test_buffers_through_which_nothing_could_move_are_refused(options: Any) -> None:
    with pytest.raises(ValueError, match="nothing moves"):
        Buffers(**options)


# -- a whole job --------------------------------------------------------------------------------

BUFFERS = Buffers(exclusive=1, floating=1, queued=1, work_ms={"sink": 6, "count": 2})
UNBOUNDED = 10**9
MODES = [
    pytest.param({}, id="aligned"),
    pytest.param({"unaligned_checkpoints": True}, id="unaligned"),
    pytest.param({"unaligned_checkpoints": True, "aligned_checkpoint_timeout": 5}, id="after a timeout"),
]


def counting(engine: Any, *, rows: int = 12, counts: int = 2, sinks: int = 2) -> Plan:
    source = engine.input(key=lambda split, offset: f"row {split} {offset}", rows_per_split=rows)
    vertices = (
        Vertex(name="source", parallelism=2, source=source),
        Vertex(name="count", parallelism=counts, operator=KeyedCount),
        Vertex(name="sink", parallelism=sinks, sink=True),
    )
    return JobGraph(vertices, (Edge("source", "count", Exchange.KEYED), Edge("count", "sink", Exchange.KEYED))).plan()


def peak(run: Any) -> int:
    """Batches in all buffers of any one subtask, at most."""
    return max(detail for _, _, detail in run.noted("buffered"))


def peak_of_the_job(run: Any) -> int:
    most: dict[str, int] = {}
    for _, actor, detail in run.noted("buffered"):
        most[actor] = detail
    return sum(most.values())


@pytest.mark.slow
@pytest.mark.row("S05")
@pytest.mark.row("S15")
@pytest.mark.parametrize("options", MODES)
def test_exactly_once_between_full_buffers_under_every_single_crash(engine: Any, options: Any) -> None:
    options = {"checkpoint_interval": 16, "buffers": BUFFERS, **options}
    run = engine.run(plan=counting(engine, rows=8), **options)
    everything = engine.rows_of(engine.input(rows_per_split=8))
    assert everything == run.counts
    assert run.noted("stalled")
    restored_rows: Counter[str] = Counter()
    for schedule in engine.every_single_crash(run):
        crashed = engine.run(plan=counting(engine, rows=8), schedule=schedule, **options)
        assert everything == crashed.counts, schedule
        assert {"1"} == {row.value for row in crashed.witness.visible_at_end}, schedule
        restored = {checkpoint_id for _, (_, checkpoint_id, _) in crashed.target.calls_of("open")}
        held = [record.states.values() for record in crashed.witness.decided if record.checkpoint_id in restored]
        restored_rows.update(part for states in held for of in states for part in of if part in ON_THE_WAY)
    assert bool(options.get("unaligned_checkpoints")) == (len(restored_rows) == 2), "receivers' and senders' rows"


@pytest.mark.row("S05")
@pytest.mark.row("S11")
@pytest.mark.parametrize("after", [(1, 2), (3, 2), (2, 1), (2, 3), (3, 3)])
@pytest.mark.parametrize("options", MODES[1:])
def test_rows_in_full_buffers_find_their_subtask_when_the_parallelism_has_changed(
    engine: Any, after: tuple[int, int], options: Any
) -> None:
    from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage

    options = {"checkpoint_interval": 16, "buffers": BUFFERS, **options}
    storage, target = MemoryCheckpointStorage(), engine.Target()
    schedule = "sink[1].notify_complete.before#2=kill"
    engine.run(
        plan=counting(engine),
        schedule=schedule,
        storage=storage,
        target=target,
        restart=engine.NoRestart,
        **options,
    )
    assert len(in_flight(storage.record)) > 4
    plan = counting(engine, counts=after[0], sinks=after[1])
    again = engine.run(plan=plan, storage=storage, target=target, **options)
    assert engine.rows_of(engine.input()) == again.counts


@pytest.mark.row("S15")
def test_memory_stays_flat_with_a_sink_a_hundred_times_slower_than_its_source(engine: Any) -> None:
    def most(exclusive: int, rows: int) -> int:
        buffers = Buffers(exclusive=exclusive, queued=exclusive, work_ms={"sink": 250, "count": 1})
        plan = counting(engine, rows=rows)
        run = engine.run(plan=plan, buffers=buffers, checkpoint_interval=500, checkpoint_timeout=10**9)
        assert engine.rows_of(engine.input(rows_per_split=rows)) == run.counts
        if exclusive < UNBOUNDED:
            assert peak_of_the_job(run) <= sum(buffers_wanted(subtask, buffers) for subtask in plan.subtasks)
        return peak_of_the_job(run)

    assert most(2, 240) < 1.1 * most(2, 60), "four times the input, the same buffers"
    assert most(UNBOUNDED, 240) > 3 * most(UNBOUNDED, 60) > 4 * most(2, 240)


@pytest.mark.row("S15")
def test_no_subtask_ever_has_more_than_its_buffers(engine: Any) -> None:
    run = engine.run(plan=counting(engine, rows=60), buffers=BUFFERS, checkpoint_interval=50)
    assert peak(run) <= 2 * BUFFERS.exclusive + BUFFERS.floating + 2 * BUFFERS.queued


@pytest.mark.row("S15")
def test_the_stop_reaches_the_source_and_so_does_the_end_of_it(engine: Any) -> None:
    run = engine.run(plan=counting(engine, rows=40), buffers=BUFFERS, checkpoint_interval=50)
    for source in ("source[0]", "source[1]"):
        stops, resumes = (
            [now for now, actor, _ in run.noted(what) if actor == source] for what in ("stalled", "resumed")
        )
        assert len(stops) == len(resumes) > 3
        assert all(stop < resume for stop, resume in zip(stops, resumes, strict=True))


@pytest.mark.row("S05")
@pytest.mark.row("S15")
def test_under_backpressure_an_unaligned_checkpoint_does_not_wait_for_the_rows(engine: Any) -> None:
    def took(**options: Any) -> float:
        """From the trigger of checkpoint 1 to its completion."""
        buffers = Buffers(exclusive=2, floating=2, queued=2, work_ms={"sink": 100})
        run = engine.run(plan=counting(engine, rows=60), buffers=buffers, checkpoint_interval=300, **options)
        assert engine.rows_of(engine.input(rows_per_split=60)) == run.counts
        assert holds_rows(run.witness.decided[0]) is bool(options)
        return run.noted("complete")[0][0] - 300  # type: ignore[no-any-return]

    aligned = took()
    unaligned = took(unaligned_checkpoints=True)
    late = took(unaligned_checkpoints=True, aligned_checkpoint_timeout=100)
    assert aligned > 200
    assert unaligned < 50
    assert 100 <= late < 150, "aligned until the timeout, and over soon after"


@pytest.mark.row("S15")
def test_an_aligned_alignment_blocks_one_channel_and_leaves_the_others(engine: Any) -> None:
    """At least once, barriers block no channel; aligned, a channel waits after its barrier: rows end up equal."""
    from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointingMode

    for mode in CheckpointingMode:
        run = engine.run(plan=counting(engine), buffers=BUFFERS, checkpoint_interval=16, checkpointing_mode=mode)
        assert engine.rows_of(engine.input()) == run.counts


sizes = st.integers(1, 3)
buffers_of_any_size = st.builds(
    Buffers,
    exclusive=sizes,
    floating=st.integers(0, 2),
    queued=sizes,
    work_ms=st.fixed_dictionaries({"sink": st.sampled_from([0, 1, 3, 7]), "count": st.sampled_from([0, 1, 4])}),
)
voters = ["source[1]", "count[0]", "sink[0]"]
deaths = st.one_of(
    st.builds("{}.acknowledge.before#{}=kill".format, st.sampled_from(voters), st.integers(1, 4)),
    st.builds("sink[1].{}.before#{}=kill".format, st.sampled_from(["write", "notify_complete"]), st.integers(1, 9)),
)


@pytest.mark.slow
@pytest.mark.row("S05")
@pytest.mark.row("S15")
@settings(max_examples=80)
@given(
    buffers=buffers_of_any_size,
    interval=st.integers(4, 40),
    timeout=st.sampled_from([0, 1, 3, 8, 25]),
    death=deaths,
    seed=st.integers(0, 999),
)
@example(
    buffers=Buffers(exclusive=2, floating=0, queued=2, work_ms={"sink": 7}),
    interval=10,
    timeout=8,
    death="source[1].acknowledge.before#2=kill",
    seed=78,
)
def test_exactly_once_whatever_the_buffers_and_whenever_a_barrier_turns_urgent(
    engine: Any, buffers: Buffers, interval: int, timeout: int, death: str, seed: int
) -> None:
    run = engine.run(
        plan=counting(engine, rows=16),
        schedule=f"seed={seed} {death}",
        buffers=buffers,
        checkpoint_interval=interval,
        unaligned_checkpoints=True,
        aligned_checkpoint_timeout=timeout,
        checkpoint_timeout=10**6,
    )
    assert engine.rows_of(engine.input(rows_per_split=16)) == run.counts
    assert {"1"} == {row.value for row in run.witness.visible_at_end}
