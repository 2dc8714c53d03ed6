"""A schedule is one line of text, and parsing it gives the same schedule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import CATALOGUE, line_point
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule, ScheduleError, parse

POINTS = st.sampled_from(sorted(CATALOGUE)) | st.builds(line_point, st.just("my sink.py"), st.integers(1, 9999))
ACTORS = st.sampled_from([COORDINATOR, "sink[0]", "sink[1]", "source[0]"])
FAULTS = st.builds(Fault, ACTORS, POINTS, st.integers(1, 99), st.sampled_from(sorted(KINDS)))


@given(st.lists(FAULTS, max_size=4), st.integers(0, 10**9))
def test_a_schedule_equals_its_parsed_text(faults: list[Fault], seed: int) -> None:
    schedule = Schedule(tuple(faults), seed)
    assert schedule == parse(str(schedule), kinds=frozenset(KINDS))


def test_the_documented_example_is_parsed() -> None:
    schedule = parse("seed=7 sink[1].commit.after#2=kill checkpoint.notify#3=lose")
    assert 7 == schedule.seed
    assert Fault("sink[1]", "commit.after", 2, "kill") == schedule.faults[0]
    assert Fault(COORDINATOR, "checkpoint.notify", 3, "lose") == schedule.faults[1]


def test_the_name_of_the_coordinator_may_be_written() -> None:
    assert parse("checkpoint.notify#1=lose") == parse("coordinator.checkpoint.notify#1=lose")


@pytest.mark.parametrize(
    "text", ["", "sink[0].commit.after=kill", "sink[0].commit.after#0=kill", "nonsense", "a#1=b=c"]
)
def test_an_unreadable_schedule_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ScheduleError, match=r"sink\[1\]\.commit\.after#2=kill"):
        parse(text)


def test_an_unknown_kind_is_refused_with_the_known_kinds() -> None:
    with pytest.raises(ScheduleError, match=r"known: .*kill-job"):
        parse("sink[0].commit.after#1=explode", kinds=frozenset(KINDS))
