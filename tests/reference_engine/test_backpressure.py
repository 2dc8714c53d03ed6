"""What flow control is measured against, and where its credits come from."""

from __future__ import annotations

from typing import Any

import pytest

from sinkproof.explain.models.flow_control_variants import connections, measure
from sinkproof.explain.models.memory_budget import (
    BudgetError,
    budget_of,
    buffers_of,
    buffers_wanted,
    refuse_too_small,
)
from sinkproof.reference_engine.dataflow.flow_control import Buffers


@pytest.mark.row("S15")
def test_what_other_ways_to_connect_a_slow_receiver_cost() -> None:
    measured = {name: measure(connection) for name, connection in connections().items()}
    free, high, low, shared, credits_ = measured.values()
    assert free.buffered_last > 1900, "memory grows, for as long as the job runs"
    assert high.buffered_last > 100, "a rate that is too high only lets it grow more slowly"
    assert low.buffered_most == 1
    assert low.taken_fast < 20, "one that is too low stops every subtask"
    assert shared.taken_fast < 50, "the fast receiver is as slow as the slow one"
    assert shared.barrier_ticks_fast is not None
    assert shared.barrier_ticks_fast > 50, "and so are its barriers"
    assert credits_.buffered_most <= 8
    assert credits_.taken_fast > 1990
    assert credits_.barrier_ticks_fast == 0
    assert credits_.taken_slow == free.taken_slow == 20, "the slow one is never idle"


@pytest.mark.row("S15")
def test_the_memory_of_a_worker_adds_up_and_gives_its_slots_their_credits(engine: Any) -> None:
    budget = budget_of(1728, slots=2)  # Flink's own default worker
    assert (192, 256, 256) == (budget.overhead, budget.metaspace, budget.framework)
    assert (1280, 128, 512, 384) == (budget.flink, budget.network, budget.managed, budget.user)
    assert budget.process == budget.reserve + budget.network + budget.managed + budget.user
    assert {"network": 64, "managed": 256, "user": 192} == budget.slot
    assert budget.segments == 2048
    large = budget_of(4096)
    assert [409.6, 343.04, 1372.16] == [round(part, 2) for part in (large.overhead, large.network, large.managed)]
    sink = engine.plan(sources=3).subtasks[-1]
    buffers = buffers_of(budget, sink)
    assert buffers_wanted(sink, buffers) <= budget.segments < buffers_wanted(sink, buffers) + len(sink.inputs)


@pytest.mark.row("S15")
def test_a_worker_that_is_too_small_is_refused_with_the_sum(engine: Any) -> None:
    with pytest.raises(BudgetError, match="a worker of 600 MiB has nothing left for the user: 256 metaspace, 192 over"):
        budget_of(600)
    wide = engine.plan(sources=40, source=engine.input(splits=40)).subtasks[-1]
    small = budget_of(1000, slots=64)
    with pytest.raises(BudgetError, match=r"sink\[1\] wants 88 buffers \(40 channels in with 2 each, 8 floating"):
        refuse_too_small(small, wide, Buffers())
    with pytest.raises(BudgetError, match="and a slot has 32 of 32 KiB"):
        buffers_of(small, wide)
