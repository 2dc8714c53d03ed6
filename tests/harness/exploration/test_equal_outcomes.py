"""Faults that count as equivalent lead to equal outcomes: a sample of each kind, run to the end both ways."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.equivalent_faults import classes_of_deaths, is_equivalent
from sinkproof.exploration.fault_pairs import AT_NAMED_POINTS, faults_after
from sinkproof.exploration.fingerprints import Opaque
from sinkproof.exploration.run_memo import MemoizedRuns, WatchedSimulation, outcome_of
from sinkproof.exploration.run_state import contents_of, held_by_engine
from sinkproof.generators.fault_sites import places
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder

SINKS = Path(__file__).parents[2].joinpath("support/explored_sinks.py")
RIGHT = ("memory/two-phase", "files/two-phase", "memory/masked")


@pytest.fixture
def runner(request: Any) -> Iterator[ScheduleRunner]:
    folder = fresh_folder()
    with ScheduleRunner(load(request.param), Scratch(name="equal", path=folder)) as made:
        yield made
    shutil.rmtree(folder)


every_right = pytest.mark.parametrize("runner", RIGHT, indirect=True)


def place_of(result: RunResult, fault: Fault) -> int:
    """Where in the trace it strikes."""
    place = result.names.index(fault.actor), fault.point
    return [at for at, passed in enumerate(result.trace) if passed == place][fault.occurrence - 1]


def after(result: RunResult, fault: Fault) -> tuple[Any, ...]:
    """The outcome, and the trace after this fault."""
    return result.anomalies, result.finished, result.rows_committed, result.trace[place_of(result, fault) + 1 :]


def points_after(result: RunResult, first: Fault) -> list[tuple[int, Fault]]:
    """(index in the trace, fault) for each fault that can strike once the first has."""
    return [(place_of(result, fault), fault) for fault in faults_after(result, first, AT_NAMED_POINTS)]


@every_right
def test_deaths_that_leave_the_same_durable_state_have_equal_outcomes(runner: ScheduleRunner) -> None:
    memo = MemoizedRuns(runner)
    baseline = memo.run(Schedule(), marked=True)
    groups: defaultdict[Any, list[Fault]] = defaultdict(list)
    for fault, its_class in classes_of_deaths(baseline, memo.marks).items():
        groups[its_class].append(fault)
    equivalent = [faults for faults in groups.values() if len(faults) > 1]
    assert {"kill", "kill-job"} == {faults[0].kind for faults in equivalent}
    for faults in equivalent[:: len(equivalent) // 12]:
        ends = [outcome_of(runner.run(Schedule((fault,)))) for fault in (faults[0], faults[-1])]
        assert ends[0] == ends[1], faults


@pytest.mark.slow
@every_right
def test_zombies_suspended_between_the_same_two_requests_have_equal_outcomes(runner: ScheduleRunner) -> None:
    memo, compared = MemoizedRuns(runner), 0
    for first in [fault for kind in ("kill", "stop") for fault in places(runner.run(Schedule()), kind)][5::40]:
        run_result = memo.run(Schedule((first,)), marked=True)
        marks = memo.marks
        stops = [(at, fault) for at, fault in points_after(run_result, first) if fault.kind == "stop"]
        for (before, sooner), (at, later) in list(pairwise(stops))[::3]:
            if is_equivalent(later, marks, at=at, before=before):
                ends = [outcome_of(runner.run(Schedule((first, fault)))) for fault in (sooner, later)]
                assert ends[0] == ends[1], (first, sooner, later)
                compared += 1
    assert compared > 10


@every_right
def test_whole_job_crashes_that_leave_the_same_durable_state_have_equal_outcomes(runner: ScheduleRunner) -> None:
    """The first faults of their schedules differ."""
    memo = MemoizedRuns(runner)
    baseline = memo.run(Schedule())
    by_crash_state: defaultdict[int, list[Schedule]] = defaultdict(list)
    for first in [fault for kind in AT_NAMED_POINTS.kinds for fault in places(baseline, kind)][30::61]:
        run_result = memo.run(Schedule((first,)), marked=True)
        for at, second in points_after(run_result, first):
            if second.kind == "kill-job" and at < len(memo.marks):
                number = memo.marks[at].crash_state
                assert number is not None
                by_crash_state[number].append(Schedule((first, second)))
    pairs = [(each[0], each[-1]) for each in by_crash_state.values() if each[0].faults[0] != each[-1].faults[0]]
    assert len(pairs) > 5
    for one, other in pairs[:: len(pairs) // 5]:
        ends = [after(runner.run(schedule), schedule.faults[1]) for schedule in (one, other)]
        assert ends[0] == ends[1], (one, other)


@every_right
def test_a_run_that_equals_another_after_its_zombie_ended_has_the_same_outcome(runner: ScheduleRunner) -> None:
    memo = MemoizedRuns(runner, audited_every=10**6)
    stops = [fault for fault in places(runner.run(Schedule()), "stop") if fault.actor.startswith("sink")]
    used = 0
    for stop in stops[::4]:
        reused = memo.run(Schedule((stop,)))
        if memo.used > used:
            used, full = memo.used, runner.run(Schedule((stop,)))
            assert (full.trace, full.history, full.anomalies) == (
                reused.trace,
                reused.history,
                reused.anomalies,
            )
    assert used > 3


@pytest.mark.parametrize("runner", ["memory/two-phase"], indirect=True)
def test_states_of_subtasks_and_coordinator_are_part_of_the_comparison(runner: ScheduleRunner) -> None:
    held: list[Any] = []

    def compare(simulation: WatchedSimulation) -> None:
        coordinator = simulation.coordinator
        assert coordinator is not None
        coordinator.ended_last_ms = simulation.now - 3
        held.append(held_by_engine(simulation))
        simulation.now, coordinator.ended_last_ms = simulation.now + 5, coordinator.ended_last_ms + 5
        held.append(held_by_engine(simulation))
        coordinator.ended_last_ms += 1
        held.append(held_by_engine(simulation))
        coordinator.checkpoint_id_next += 1
        held.append(held_by_engine(simulation))
        for subtask in simulation.subtasks.values():
            subtask.alignment.blocked.add(7)
            held.append(held_by_engine(simulation))

    simulation, _ = runner.simulation(parse("sink[1].commit.before#1=stop"), shell=WatchedSimulation)
    assert isinstance(simulation, WatchedSimulation)
    simulation.on_zombies_ended = compare
    runner.play(simulation)
    assert 4 + len(simulation.names[1:]) == len(held), "once, when no attempt of the old generation is left"
    assert held[0] == held[1], "times count from now"
    assert len(held) - 1 == len({repr(each) for each in held})


def test_contents_of_two_copies_are_equal_only_in_the_same_order() -> None:
    one, other = {"a": [1], "b": (2,)}, {"b": (2,), "a": [1]}
    assert one == other
    assert contents_of(one) == contents_of(dict(one))
    assert contents_of(one) != contents_of(other)
    assert contents_of([1]) != contents_of((1,))
    assert contents_of(b"1") != contents_of(b"2")
    with pytest.raises(Opaque):
        contents_of([bytearray(b"1")])
