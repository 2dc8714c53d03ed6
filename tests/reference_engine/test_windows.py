"""Event time: what watermarks let through, what windows hold back, and that a restore shows neither."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.dataflow.event_time import ENDED, NEVER, ChannelClock, SourceClock, Watermarks
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, GraphError, JobGraph, Plan, Vertex
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.reference_engine.dataflow.windows import TumblingWindows, expected_results, fold_of
from sinkproof.sink_adapters.protocol import Batch, Row

SIZE_MS = 40
DISORDER = (0, 3, 1, 2)  # the offsets of four rows, in the order of their event times
KEYS = ("ada", "bob", "cyd", "red")


def row(offset: int, time: int, *, key: str = "k", split: int = 0) -> Row:
    return Row(split, offset, key, "v", time)


def rows_out_of_order(split: int, offset: int) -> Row:
    time = offset // 4 * 40 + DISORDER[offset % 4] * 10
    return Row(split, offset, KEYS[(split + offset) % 4], f"v{split}.{offset}", time)


SOURCE = GeneratedInput(rows_out_of_order, splits=3, rows_per_split=24, batch_rows=2)
EVERY_ROW = [row for split in range(3) for at in range(0, 24, 2) for row in SOURCE.batch(split, at)]
EXPECTED = Counter(expected_results(EVERY_ROW, size_ms=SIZE_MS))


def windowed(*, sources: int = 2, windows: int = 2, sinks: int = 2, watermarks: Watermarks | None = None) -> Plan:
    vertices = (
        Vertex(
            name="source",
            parallelism=sources,
            source=SOURCE,
            watermarks=watermarks or Watermarks(out_of_order_ms=30),
        ),
        Vertex(name="window", parallelism=windows, operator=lambda: TumblingWindows(SIZE_MS)),
        Vertex(name="sink", parallelism=sinks, sink=True),
    )
    return JobGraph(vertices, (Edge("source", "window", Exchange.KEYED), Edge("window", "sink", Exchange.KEYED))).plan()


# -- watermarks ---------------------------------------------------------------------------------


@pytest.mark.row("S16")
def test_a_source_is_as_far_as_its_slowest_split_less_the_disorder() -> None:
    clock = SourceClock(Watermarks(out_of_order_ms=10), [0, 1])
    assert clock.read(0, Batch([row(0, 100), row(1, 90)]), live=[0, 1]) is None, "nothing is known of split 1"
    assert clock.read(1, Batch([row(0, 50, split=1)]), live=[0, 1]) == 39
    assert clock.read(1, Batch([row(1, 40, split=1)]), live=[0, 1]) is None, "it does not go back"
    assert clock.read(1, Batch([row(2, 60, split=1)]), live=[0]) == 89, "split 1 is at its end"


@pytest.mark.row("S16")
def test_a_subtask_is_as_far_as_its_slowest_channel() -> None:
    clock = ChannelClock([1, 2])
    assert [None, 5, None, 7, None] == [clock.on(*said) for said in ((1, 9), (2, 5), (1, 10), (2, 7), (2, 6))]
    assert clock.on(2, ENDED) == 10, "an ended channel holds no watermark back"
    assert clock.on(1, ENDED) == ENDED


@pytest.mark.row("S16")
def test_an_idle_channel_holds_no_watermark_back_until_it_sends_again() -> None:
    clock = ChannelClock([1, 2])
    clock.on(1, 9)
    assert clock.on_idle(2) == 9
    assert clock.on(1, 12) == 12
    assert clock.on(2, 10) is None, "time does not go back"
    assert clock.on(1, 20) is None, "and now it counts again"
    assert clock.on(2, 15) == 15


@pytest.mark.row("S16")
def test_channels_that_have_ended_do_not_speak_for_one_that_is_idle() -> None:
    clock = ChannelClock([1, 2])
    clock.on_idle(2)
    assert clock.on(1, ENDED) is None
    assert clock.all_idle
    assert clock.on(2, 3) == 3


@pytest.mark.row("S16")
def test_what_a_source_has_said_outlives_a_restart() -> None:
    clock = SourceClock(Watermarks(out_of_order_ms=10), [0])
    clock.read(0, Batch([row(0, 100)]), live=[0])
    restored = SourceClock(Watermarks(out_of_order_ms=10), [0])
    restored.restore([clock.capture()])
    assert restored.sent == 89
    assert restored.read(0, Batch([row(1, 95)]), live=[0]) is None


@pytest.mark.row("S16")
@pytest.mark.row("S11")
def test_of_several_old_sources_the_least_holds() -> None:
    ahead, behind, silent = (SourceClock(Watermarks(), [split]) for split in range(3))
    ahead.read(0, Batch([row(0, 100)]), live=[0])
    behind.read(1, Batch([row(0, 50, split=1)]), live=[1])
    merged = SourceClock(Watermarks(), [0, 1])
    merged.restore([ahead.capture(), behind.capture()])
    assert merged.sent == 49
    merged.restore([ahead.capture(), behind.capture(), silent.capture()])
    assert merged.sent == NEVER


# -- windows ------------------------------------------------------------------------------------


@pytest.mark.row("S16")
def test_a_window_is_one_row_when_its_time_is_over() -> None:
    windows = TumblingWindows(10)
    windows.apply(Batch([row(0, 1), row(1, 9), row(2, 10)]))
    assert windows.on_watermark(8) is None, "a row of time 9 may still come"
    fired = windows.on_watermark(9)
    assert fired is not None
    [result] = fired
    fold = (fold_of(0, 0) + fold_of(0, 1)) % (1 << 64)
    assert {"window": [0, 10], "count": 2, "fold": f"{fold:016x}"} == json.loads(result.value)
    assert ("k", 9) == (result.key, result.event_time_ms)
    assert windows.on_watermark(9) is None, "once"


@pytest.mark.row("S16")
def test_a_row_for_a_window_that_was_fired_is_dropped_and_counted() -> None:
    windows = TumblingWindows(10)
    windows.apply(Batch([row(0, 1)]))
    windows.on_watermark(9)
    windows.apply(Batch([row(1, 9), row(2, 10)]))
    assert windows.late == 1
    assert [1] == [json.loads(result.value)["count"] for result in windows.on_watermark(19) or ()]


@pytest.mark.row("S16")
def test_a_restored_window_knows_what_it_has_fired_whatever_the_watermark_is_by_then() -> None:
    windows, restored = TumblingWindows(10), TumblingWindows(10)
    windows.apply(Batch([row(0, 1), row(1, 15)]))
    windows.on_watermark(12)
    restored.restore(windows.capture().items())
    restored.apply(Batch([row(2, 2), row(3, 16)]))
    assert restored.late == 1
    assert [2] == [json.loads(result.value)["count"] for result in restored.on_watermark(ENDED) or ()]
    assert restored.capture() == replaced(restored).capture()


def replaced(windows: TumblingWindows) -> TumblingWindows:
    other = TumblingWindows(windows.size_ms)
    other.restore(windows.capture().items())
    return other


@pytest.mark.row("S16")
@given(rows=st.lists(st.tuples(st.integers(0, 99), st.sampled_from("abc")), min_size=1), chosen=st.randoms())
def test_results_do_not_depend_on_the_order_of_rows_and_name_their_window(rows: Any, chosen: Any) -> None:
    made = [row(offset, time, key=key) for offset, (time, key) in enumerate(rows)]
    shuffled = chosen.sample(made, len(made))
    windows = TumblingWindows(10)
    windows.apply(Batch(shuffled))
    fired = windows.on_watermark(ENDED)
    assert fired is not None
    assert expected_results(made, size_ms=10) == sorted(fired)
    assert len({(result.split, result.offset) for result in fired}) == len(
        {(r.key, r.event_time_ms // 10) for r in made}
    )


@pytest.mark.row("S16")
def test_twice_the_same_row_is_another_fold() -> None:
    [once], [twice] = (expected_results(rows, size_ms=10) for rows in ([row(0, 1)], [row(0, 1), row(0, 1)]))
    assert (once.split, once.offset) == (twice.split, twice.offset)
    assert once.value != twice.value


@pytest.mark.row("S16")
def test_only_a_source_says_watermarks() -> None:
    vertices = (
        Vertex(name="source", source=SOURCE),
        Vertex(name="window", operator=lambda: TumblingWindows(1), watermarks=Watermarks()),
        Vertex(name="sink", sink=True),
    )
    with pytest.raises(GraphError, match="only sources say watermarks"):
        JobGraph(vertices, (Edge("source", "window"), Edge("window", "sink")))


# -- a whole job --------------------------------------------------------------------------------

MODES = [
    pytest.param({"checkpoint_interval": 9}, id="aligned"),
    pytest.param({"checkpoint_interval": 9, "unaligned_checkpoints": True}, id="unaligned"),
]


@pytest.mark.slow
@pytest.mark.row("S16")
@pytest.mark.parametrize("options", MODES)
def test_every_window_once_and_whole_under_every_single_crash(engine: Any, options: Any) -> None:
    run = engine.run(plan=windowed(), **options)
    assert Counter(run.witness.visible_at_end) == EXPECTED
    early = 0
    for schedule in engine.every_single_crash(run):
        crashed = engine.run(plan=windowed(), schedule=schedule, **options)
        assert Counter(crashed.witness.visible_at_end) == EXPECTED, schedule
        early += len(crashed.witness.decided) > 2
    assert early > 100, "or windows were not fired while the job ran"


@pytest.mark.row("S16")
def test_windows_are_fired_while_the_job_runs(engine: Any) -> None:
    run = engine.run(plan=windowed(), checkpoint_interval=9)
    assert any(0 < seen.total() < EXPECTED.total() for seen in run.witness.visible_at_decision.values())


@pytest.mark.row("S16")
@pytest.mark.row("S11")
@pytest.mark.parametrize("options", MODES)
@pytest.mark.parametrize("after", [(1, 2, 2), (3, 1, 2), (2, 3, 1), (3, 3, 3)])
def test_open_windows_find_their_owner_when_the_parallelism_has_changed(
    engine: Any, after: tuple[int, int, int], options: Any
) -> None:
    storage, target = MemoryCheckpointStorage(), engine.Target()
    schedule = "sink[1].notify_complete.before#3=kill"
    engine.run(plan=windowed(), schedule=schedule, storage=storage, target=target, restart=engine.NoRestart, **options)
    held = [state for name, states in storage.record.states.items() for state in states.get("window", {}).values()]
    assert any(json.loads(state)["windows"] for state in held)
    sources, windows, sinks = after
    plan = windowed(sources=sources, windows=windows, sinks=sinks)
    again = engine.run(plan=plan, storage=storage, target=target, **options)
    assert Counter(again.witness.visible_at_end) == EXPECTED


@pytest.mark.row("S16")
@pytest.mark.row("S12")
@pytest.mark.parametrize("drain", [False, True])
def test_a_job_that_is_stopped_keeps_its_open_windows_unless_it_is_drained(engine: Any, drain: bool) -> None:
    storage, target = MemoryCheckpointStorage(), engine.Target()
    stop = lambda simulation: simulation.post(25, (0, 700_001), ("stop_with_checkpoint", drain, None))  # noqa: E731
    stopped = engine.run(plan=windowed(), before=stop, storage=storage, target=target, checkpoint_interval=9)
    assert stopped.simulation.finished
    read = stopped.simulation.covered(storage.record)
    partial = Counter(expected_results([r for r in EVERY_ROW if r.offset < read[r.split]], size_ms=SIZE_MS))
    shown = Counter(stopped.witness.visible_at_end)
    assert (shown == partial) is drain
    if drain:
        return
    assert shown <= EXPECTED
    going_on = MemoryCheckpointStorage(generation=storage.generation, record=storage.record._replace(final=False))
    again = engine.run(plan=windowed(), storage=going_on, target=target, checkpoint_interval=9)
    assert Counter(again.witness.visible_at_end) == EXPECTED


@pytest.mark.row("S16")
def test_rows_that_come_after_the_disorder_that_was_promised_are_late(engine: Any) -> None:
    run = engine.run(plan=windowed(sources=3, watermarks=Watermarks(out_of_order_ms=0)), checkpoint_interval=9)
    late = [
        json.loads(state)["late"]
        for states in run.witness.decided[-1].states.values()
        for state in states.get("window", {}).values()
    ]
    counted = sum(json.loads(result.value)["count"] for result in run.witness.visible_at_end)
    assert len(EVERY_ROW) == counted + sum(late)


@pytest.mark.row("S16")
@pytest.mark.parametrize(("idle_after_ms", "waits"), [(None, True), (8, False)])
def test_a_source_that_is_idle_holds_windows_back_unless_it_may_say_so(
    engine: Any, idle_after_ms: int | None, waits: bool
) -> None:
    watermarks = Watermarks(out_of_order_ms=30, idle_after_ms=idle_after_ms)
    fired: list[int] = []

    def note_point(simulation: Any, point: str) -> None:
        if point == "generation.after":
            pace = {**simulation.latency.pace, 2: 400}
            simulation.latency = replace(simulation.latency, pace=pace)
        elif point == "write.before":
            fired.append(simulation.now)

    run = engine.run(
        plan=windowed(watermarks=watermarks),
        before=lambda simulation: setattr(simulation, "on_point", note_point),
        checkpoint_interval=200,
    )
    assert (min(fired) > 400) is waits
    assert run.simulation.finished
