"""Pairs of faults that are counted as equal end alike: a sample of each kind, run to the end both ways."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.execution.schedule_runner import RunResult, ScheduleRunner
from sinkproof.exploration.equivalent_faults import is_equivalent, left_by_deaths, missed_by_sleepers
from sinkproof.exploration.fault_pairs import AT_NAMED_POINTS, Pairs, is_as_dead, place_of, places_after
from sinkproof.exploration.fingerprints import Opaque
from sinkproof.exploration.run_memo import MemoizedRuns, WatchedSimulation, outcome_of
from sinkproof.exploration.run_state import contents_of, held_by_engine
from sinkproof.generators.fault_sites import places
from sinkproof.subject.contract import load
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


def after(run_result: RunResult, fault: Fault) -> tuple[Any, ...]:
    """All that came of it, from this fault on."""
    return (
        run_result.anomalies,
        run_result.finished,
        run_result.rows_committed,
        run_result.trace[place_of(fault, run_result) + 1 :],
    )


def seconds_after(runner: ScheduleRunner, first: Fault, *, every: int) -> Sequence[Fault]:
    return [fault for _, fault in places_after(runner.run(Schedule((first,))), first, AT_NAMED_POINTS)][::every]


def assert_alike(runner: ScheduleRunner, one: Fault, other: Fault, *, every: int) -> None:
    """Whatever strikes later strikes both alike. Both have passed the same places, or one of them one more."""
    pairs = zip(*(seconds_after(runner, first, every=every) for first in (one, other)), strict=True)
    for seconds in pairs:
        trials = [runner.run(Schedule((first, second))) for first, second in zip((one, other), seconds, strict=True)]
        ends = [after(run_result, second) for run_result, second in zip(trials, seconds, strict=True)]
        assert ends[0] == ends[1], (one, other, seconds)


@every_right
def test_deaths_that_leave_the_same_at_once_are_alike_in_all_that_follows(runner: ScheduleRunner) -> None:
    memo = MemoizedRuns(runner)
    baseline = memo.run(Schedule(), marked=True)
    groups: defaultdict[Any, list[Fault]] = defaultdict(list)
    for fault, left in left_by_deaths(baseline, memo.marks).items():
        groups[left].append(fault)
    alike = [faults for faults in groups.values() if len(faults) > 1]
    assert {"kill", "kill-job"} == {faults[0].kind for faults in alike}
    for faults in alike[:: len(alike) // 4]:
        assert_alike(runner, faults[0], faults[-1], every=41)


@every_right
def test_who_stops_between_the_same_two_requests_is_alike_in_all_that_follows(runner: ScheduleRunner) -> None:
    """But for the places in between, which one of them passes when it has woken up."""
    memo = MemoizedRuns(runner)
    baseline = memo.run(Schedule(), marked=True)
    groups: defaultdict[Any, list[Fault]] = defaultdict(list)
    for fault, missed in missed_by_sleepers(baseline, memo.marks).items():
        if fault.kind == "stop" and fault.actor.startswith("sink"):
            groups[missed].append(fault)
    alike, compared = [faults for faults in groups.values() if len(faults) > 1], 0
    for faults in alike[:: len(alike) // 6]:
        sooner, later = faults[0], faults[-1]
        run_result, woke_at = memo.run(Schedule((sooner,))), memo.woke_at
        other = memo.run(Schedule((later,)))
        between = place_of(later, baseline) - place_of(sooner, baseline)
        at_other = dict[Any, Fault]()
        for at, fault in places_after(other, later, AT_NAMED_POINTS):
            at_other[at if at >= woke_at + between else at - between, fault.kind] = fault
        for at, fault in [*places_after(run_result, sooner, AT_NAMED_POINTS)][::31]:
            if not woke_at <= at < woke_at + between:
                schedules = Schedule((sooner, fault)), Schedule((later, at_other[at, fault.kind]))
                ends = [outcome_of(runner.run(schedule)) for schedule in schedules]
                assert ends[0] == ends[1], schedules
                compared += 1
    assert compared > 50


@pytest.mark.slow
@every_right
def test_a_second_one_who_stops_between_the_same_two_requests_ends_alike(runner: ScheduleRunner) -> None:
    memo, compared = MemoizedRuns(runner), 0
    for first in [fault for kind in ("kill", "stop") for fault in places(runner.run(Schedule()), kind)][5::40]:
        run_result = memo.run(Schedule((first,)), marked=True)
        marks = memo.marks
        stops = [(at, fault) for at, fault in places_after(run_result, first, AT_NAMED_POINTS) if fault.kind == "stop"]
        for (before, sooner), (at, later) in list(pairwise(stops))[::3]:
            if is_equivalent(later, marks, at=at, before=before):
                ends = [outcome_of(runner.run(Schedule((first, fault)))) for fault in (sooner, later)]
                assert ends[0] == ends[1], (first, sooner, later)
                compared += 1
    assert compared > 10


@pytest.mark.slow
@every_right
def test_an_error_that_only_ends_its_attempt_is_as_a_death(runner: ScheduleRunner) -> None:
    memo, pairs = MemoizedRuns(runner), Pairs(MemoizedRuns(runner), AT_NAMED_POINTS)
    errors = list(places(memo.run(Schedule()), "error"))[::3]
    alike = []
    for error in errors:
        death = Fault(error.actor, error.point, error.occurrence, "kill")
        rests = [pairs._rest(fault) for fault in (death, error)]
        alike += [(death, error)] if is_as_dead(rests[1], rests[0]) else []
    assert len(alike) > len(errors) / 2
    for death, error in alike[:: len(alike) // 3]:
        assert_alike(runner, death, error, every=37)


@every_right
def test_crashes_of_the_whole_job_that_leave_the_same_end_alike(runner: ScheduleRunner) -> None:
    """Whatever came before."""
    memo = MemoizedRuns(runner)
    baseline = memo.run(Schedule())
    left: defaultdict[int, list[Schedule]] = defaultdict(list)
    for first in [fault for kind in AT_NAMED_POINTS.kinds for fault in places(baseline, kind)][30::61]:
        run_result = memo.run(Schedule((first,)), marked=True)
        for at, second in places_after(run_result, first, AT_NAMED_POINTS):
            if second.kind == "kill-job" and at < len(memo.marks):
                number = memo.marks[at].left
                assert number is not None
                left[number].append(Schedule((first, second)))
    alike = [(each[0], each[-1]) for each in left.values() if each[0].faults[0] != each[-1].faults[0]]
    assert len(alike) > 5
    for one, other in alike[:: len(alike) // 5]:
        ends = [after(runner.run(schedule), schedule.faults[1]) for schedule in (one, other)]
        assert ends[0] == ends[1], (one, other)


@every_right
def test_a_run_that_goes_on_as_another_after_its_zombie_has_left_ends_as_that_one(runner: ScheduleRunner) -> None:
    memo = MemoizedRuns(runner, audited_every=10**6)
    stops = [fault for fault in places(runner.run(Schedule()), "stop") if fault.actor.startswith("sink")]
    used = 0
    for stop in stops[::4]:
        concluded = memo.run(Schedule((stop,)))
        if memo.used > used:
            used, full = memo.used, runner.run(Schedule((stop,)))
            assert (full.trace, full.history, full.anomalies) == (
                concluded.trace,
                concluded.history,
                concluded.anomalies,
            )
    assert used > 3


@pytest.mark.slow
@pytest.mark.parametrize("runner", [f"{SINKS}:OneBackupContract"], indirect=True)
def test_what_all_pairs_show_is_shown_by_those_that_are_run(runner: ScheduleRunner) -> None:
    """Of a sink that is right after every single fault."""
    baseline = runner.run(Schedule())
    complete = [point for _, point in baseline.trace].index("checkpoint.persist.after")
    firsts = [fault for kind in ("kill", "kill-job") for fault in list(places(baseline, kind))[complete : complete + 3]]
    assert not any(runner.run(Schedule((first,))).anomalies for first in firsts)
    every = [
        runner.run(Schedule((first, second)))
        for first in firsts
        for _, second in places_after(runner.run(Schedule((first,))), first, AT_NAMED_POINTS)
    ]
    pairs = Pairs(MemoizedRuns(runner), AT_NAMED_POINTS)
    chosen = [pairs.memo.run(schedule) for schedule in pairs.schedules(pairs.prepare(firsts))]
    assert len(every) == pairs.in_bound
    assert len(chosen) < len(every) / 2
    wrong, shown = (
        {repr(shape_of(run_result)) for run_result in trials if run_result.anomalies} for trials in (every, chosen)
    )
    assert wrong
    assert wrong == shown


def shape_of(run_result: RunResult) -> Any:
    """What the schedule shows: which rows are missing or repeated."""
    return [(anomaly.oracle, anomaly.lost, anomaly.extra) for anomaly in run_result.anomalies]


@pytest.mark.parametrize("runner", ["memory/two-phase"], indirect=True)
def test_an_error_after_which_more_is_done_is_not_as_a_death(runner: ScheduleRunner) -> None:
    pairs = Pairs(MemoizedRuns(runner), AT_NAMED_POINTS)
    places_of_errors = [Fault("sink[0]", "begin.after", 1, kind) for kind in ("kill", "error")]
    death, error = (pairs._rest(fault) for fault in places_of_errors)
    assert is_as_dead(error, death)
    (place, sent, left), *others = error.window
    for moved in ((place, (sent[0], sent[1] + 1), left), (place, sent, left + 1), ((0, "commit.after"), sent, left)):
        assert not is_as_dead(replace(error, window=[moved, *others]), death)
    assert not is_as_dead(replace(error, window=[(place, sent, None)]), replace(death, window=[(place, sent, None)]))
    assert not is_as_dead(death, death), "two deaths are compared elsewhere"


@pytest.mark.parametrize("runner", ["memory/two-phase"], indirect=True)
def test_what_subtasks_and_coordinator_hold_when_a_zombie_has_left_makes_a_difference(runner: ScheduleRunner) -> None:
    held: list[Any] = []

    def look(simulation: WatchedSimulation) -> None:
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
    simulation.left = look
    runner.play(simulation)
    assert 4 + len(simulation.names[1:]) == len(held), "once, when nobody of the old generation is left"
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
