"""Jobs drawn at random: any graph, any mode, any buffers, faults, another parallelism after a while. Exactly once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import holds_rows
from sinkproof.reference_engine.dataflow.event_time import Watermarks
from sinkproof.reference_engine.dataflow.flow_control import Buffers
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Plan, Vertex
from sinkproof.reference_engine.dataflow.operators import KeyedCount, Map
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.reference_engine.dataflow.windows import TumblingWindows, expected_results
from sinkproof.sink_adapters.protocol import Row

SPLITS, ROWS, SIZE_MS = 3, 14, 40
KEYED, FORWARD = Exchange.KEYED, Exchange.FORWARD
SHAPES = ("straight", "forward", "union", "windows")


def make_row(split: int, offset: int) -> Row:
    return Row(split, offset, f"row {split} {offset}", f"v{split}.{offset}", offset * 10)


def make_repeating_row(split: int, offset: int) -> Row:
    return Row(split, offset, f"k{(split + offset) % 4}", f"v{split}.{offset}", offset * 10)


def job_of(shape: str, widths: tuple[int, int, int]) -> Plan:
    """Each row has a key of its own, so that a value of 2 was counted twice; but for windows."""
    make = make_repeating_row if shape == "windows" else make_row
    source = GeneratedInput(make, splits=SPLITS, rows_per_split=ROWS, batch_rows=2)
    sources, middles, sinks = widths
    ends = (Vertex(name="sink", parallelism=sinks, sink=True),)
    begin = Vertex(name="source", parallelism=sources, source=source)
    count = Vertex(name="count", parallelism=middles, operator=KeyedCount)
    same = Vertex(name="same", parallelism=sources, operator=lambda: Map(lambda row: row), chain=False)
    match shape:
        case "straight":
            return JobGraph(
                (begin, count, *ends), (Edge("source", "count", KEYED), Edge("count", "sink", KEYED))
            ).plan()
        case "forward":
            edges = (Edge("source", "same"), Edge("same", "count", KEYED), Edge("count", "sink", KEYED))
            return JobGraph((begin, same, count, *ends), edges).plan()
        case "union":
            other = Vertex(name="other", parallelism=sources, operator=lambda: Map(lambda row: row), chain=False)
            # Every row comes to the count over both ways.
            edges = (
                *(Edge("source", "same"), Edge("source", "other")),
                *(Edge("same", "count", KEYED), Edge("other", "count", KEYED), Edge("count", "sink", KEYED)),
            )
            return JobGraph((begin, same, other, count, *ends), edges).plan()
        case _:
            late = Vertex(name="source", parallelism=sources, source=source, watermarks=Watermarks())
            window = Vertex(name="window", parallelism=middles, operator=lambda: TumblingWindows(SIZE_MS))
            edges = (Edge("source", "window", KEYED), Edge("window", "sink", KEYED))
            return JobGraph((late, window, *ends), edges).plan()


def expected(shape: str) -> Counter[Any]:
    if shape == "windows":
        rows = [make_repeating_row(split, at) for split in range(SPLITS) for at in range(ROWS)]
        return Counter((row.split, row.offset, row.value) for row in expected_results(rows, size_ms=SIZE_MS))
    values = ("1", "2") if shape == "union" else ("1",)  # over both ways: counted once, and once more
    return Counter((split, at, value) for split in range(SPLITS) for at in range(ROWS) for value in values)


widths = st.tuples(*[st.integers(1, 3)] * 3)
modes = st.one_of(
    st.just({}),
    st.builds(lambda ms: {"unaligned_checkpoints": True, "aligned_checkpoint_timeout": ms}, st.integers(0, 9)),
)
buffers = st.none() | st.builds(
    Buffers,
    exclusive=st.integers(1, 2),
    floating=st.integers(0, 2),
    queued=st.integers(1, 2),
    work_ms=st.fixed_dictionaries({"sink": st.integers(0, 5), "count": st.integers(0, 3)}),
)
points = st.sampled_from(
    ["acknowledge.before", "acknowledge.after", "write.before", "notify_complete.before", "open.after"]
)
faults = st.builds(
    "{}[0].{}#{}={}".format,
    st.sampled_from(["source", "sink", "sink"]),
    points,
    st.integers(1, 6),
    st.sampled_from(["kill", "kill-job", "stop", "decline"]),
).filter(lambda fault: "decline" not in fault or "acknowledge.before" in fault)


@pytest.mark.slow
@pytest.mark.row("S05")
@pytest.mark.row("S11")
@pytest.mark.row("S15")
@pytest.mark.row("S16")
@settings(max_examples=100)
@given(
    shape=st.sampled_from(SHAPES),
    before=widths,
    after=widths,
    mode=modes,
    buffered=buffers,
    injected=st.lists(faults, max_size=2),
    interval=st.integers(5, 30),
    seed=st.integers(0, 99),
)
def test_exactly_once(
    engine: Any, shape: str, before: Any, after: Any, mode: Any, buffered: Any, injected: Any, interval: int, seed: int
) -> None:
    storage, target = MemoryCheckpointStorage(), engine.Target()
    options = {"checkpoint_interval": interval, "checkpoint_timeout": 10**6, "buffers": buffered, **mode}
    engine.run(
        plan=job_of(shape, before),
        schedule=f"seed={seed} sink[0].notify_complete.before#2=kill",
        storage=storage,
        target=target,
        restart=engine.NoRestart,
        **options,
    )
    event(f"{shape}, restored with rows in flight: {holds_rows(storage.record)}")
    schedule = " ".join([f"seed={seed + 1}", *injected]) if injected else "no-fault"
    again = engine.run(plan=job_of(shape, after), schedule=schedule, storage=storage, target=target, **options)
    assert again.simulation.finished, again.simulation.failure
    shown = again.witness.visible_at_end
    assert expected(shape) == Counter((row.split, row.offset, row.value) for row in shown)
