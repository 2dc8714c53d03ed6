"""The three-operator example: what is wrong without barriers, and right with them, on the same input."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkproof.explain.models.naive_snapshots import (
    NAMES,
    at_a_tick,
    on_their_own,
    undisturbed,
    with_barriers,
)


@pytest.mark.row("S01")
def test_the_result_of_a_row_is_the_sum_of_the_sums() -> None:
    assert {1: 10, 2: 40, 3: 100, 4: 200, 5: 350} == undisturbed()


@pytest.mark.row("S01")
def test_each_on_its_own_loses_the_second_row_and_corrupts_the_third() -> None:
    story = on_their_own()
    assert {"source": 2, "first": 10, "second": (10, {1: 10})} == story.snapshot
    assert [2] == story.lost, "read before the source's snapshot, after the others'"
    assert [3, 4, 5] == story.wrong
    assert 50 == story.results[3], "10 + (10 + 30): without the second row"


@pytest.mark.row("S01")
def test_a_tick_that_reaches_every_operator_at_once_is_right() -> None:
    story = at_a_tick()
    assert story.right
    assert {"source": 3, "first": 3, "second": 3} == story.taken_after


@pytest.mark.row("S01")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("trouble", ["delayed", "paused"])
def test_a_late_message_or_a_paused_operator_breaks_the_tick(name: str, trouble: str) -> None:
    options: Any = {trouble: {name: 1}}
    story = at_a_tick(**options)
    if (name, trouble) == ("source", "paused"):
        assert story.right, "no operator is ahead of a source"
        return
    assert not story.right
    assert len(set(story.taken_after.values())) == 2


@pytest.mark.row("S01")
@given(
    numbers=st.lists(st.integers(1, 99), min_size=1, max_size=8),
    cut=st.integers(1, 8),
    pauses=st.fixed_dictionaries({name: st.integers(0, 5) for name in NAMES}),
)
def test_barriers_are_right_with_any_pauses(numbers: list[int], cut: int, pauses: dict[str, int]) -> None:
    story = with_barriers(numbers=numbers, after=min(cut, len(numbers)), paused=pauses)
    assert story.right
    assert set(story.taken_after.values()) == {min(cut, len(numbers))}
