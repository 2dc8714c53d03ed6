"""Ordered pairs of faults, and runs that end as others did."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.execution.schedule_runner import RunResult, ScheduleRunner
from sinkproof.exploration.equivalent_faults import is_equivalent
from sinkproof.exploration.fault_pairs import AT_NAMED_POINTS, AT_STEPS, Pairs, SecondFaults, is_source, places_after
from sinkproof.exploration.fingerprints import Opaque, fingerprint, outside_of
from sinkproof.exploration.run_memo import MemoizedRuns
from sinkproof.exploration.run_state import is_same_copy
from sinkproof.generators.fault_sites import places
from sinkproof.generators.rare import refuse_impossible
from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder

SINKS = Path(__file__).parents[2].joinpath("support/explored_sinks.py")


@pytest.fixture(params=["memory/two-phase", "files/masked"])
def runner(request: Any) -> Iterator[ScheduleRunner]:
    yield from opened(request.param)


@pytest.fixture
def careful() -> Iterator[ScheduleRunner]:
    yield from opened(f"{SINKS}:CarefulContract")


def opened(locator: str) -> Iterator[ScheduleRunner]:
    folder = fresh_folder()
    with ScheduleRunner(load(locator), Scratch(name="pairs", path=folder)) as made:
        yield made
    shutil.rmtree(folder)


def shown(run_result: RunResult) -> tuple[Any, ...]:
    return (
        *(run_result.struck, run_result.anomalies, run_result.finished, run_result.failure, run_result.rows_committed),
        *(run_result.trace, run_result.history),
    )


# -- runs that end as others did ----------------------------------------------------------------


def test_a_run_that_ends_as_another_did_is_told_as_if_it_had_been_run(runner: ScheduleRunner) -> None:
    memo = MemoizedRuns(runner)
    baseline = runner.run(Schedule())
    faults = [fault for kind in AT_NAMED_POINTS.kinds for fault in places(baseline, kind)][::16]
    for fault in faults:
        schedule = Schedule((fault,))
        assert shown(runner.run(schedule)) == shown(memo.run(schedule)), schedule
    assert memo.used > len(faults) / 4
    assert "" == memo.why_not


def test_pairs_that_end_as_others_did_are_told_as_if_they_had_been_run(careful: ScheduleRunner) -> None:
    memo, pairs = MemoizedRuns(careful), Pairs(MemoizedRuns(careful), AT_NAMED_POINTS)
    baseline = careful.run(Schedule())
    firsts = [fault for kind in AT_NAMED_POINTS.kinds for fault in places(baseline, kind)][::29]
    chosen = list(pairs.schedules(pairs.prepare(firsts)))[::19]
    for schedule in chosen:
        assert shown(careful.run(schedule)) == shown(memo.run(schedule)), schedule
    assert memo.used > 10


class Forgetful(MemoizedRuns):
    """Believes that everything is always the same."""

    def _held_by_sinks(self, simulation: Any) -> Any:
        return 0


def test_an_audit_that_differs_ends_it(careful: ScheduleRunner) -> None:
    memo = MemoizedRuns(careful, audited_every=1)
    schedule = Schedule((Fault("sink[0]", "write.after", 1, "kill"),))
    memo.run(schedule)
    (join_points,) = memo.known.values()
    join_points[0].seen["committed"] = join_points[0].seen["committed"][:-1]
    found = memo.run(schedule)
    assert () == found.anomalies, "what would break a claim is run in full, and that is believed"
    assert "ended otherwise" in memo.why_not
    used = memo.used
    memo.run(schedule)
    assert used == memo.used


def test_who_looks_at_the_clock_is_compared_at_the_same_time_only(careful: ScheduleRunner, monkeypatch: Any) -> None:
    kind = careful.contract.given.kind
    plain = kind.notify_complete
    monkeypatch.setattr(kind, "notify_complete", lambda self, id: (self.context.clock(), plain(self, id))[1])
    memo = MemoizedRuns(careful)
    for occurrence in (1, 4):
        memo.run(Schedule((Fault("sink[0]", "write.after", occurrence, "kill"),)))
    assert 0 == memo.used
    memo.run(Schedule((Fault("sink[0]", "write.after", 1, "kill"),)))
    assert 1 == memo.used


def test_copies_are_the_same_only_if_they_are_read_in_the_same_order() -> None:
    one, other = {"a": [1], "b": [2]}, {"b": [2], "a": [1]}
    assert one == other
    assert is_same_copy(one, {**one})
    assert not is_same_copy(one, other)
    assert not is_same_copy((1, one), (1, other))
    assert not is_same_copy({"x": one}, {"x": other})
    assert not is_same_copy(b"1", b"2")


class Array:
    def __eq__(self, other: object) -> Any:
        return Array()

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


def test_copies_that_cannot_be_compared_are_not_the_same() -> None:
    assert not is_same_copy(Array(), Array())


# -- what sinks hold ----------------------------------------------------------------------------


class Held:
    def __init__(self, *parts: Any) -> None:
        self.parts, self.me = parts, self


def test_two_objects_that_hold_the_same_are_equal_and_others_are_not() -> None:
    def of(*parts: Any) -> Any:
        return fingerprint(Held(*parts), {})

    assert of([1, {"a": b"b"}], {1, 2}) == of([1, {"a": b"b"}], {2, 1})
    assert of([1]) != of([2])
    assert of([1]) != of((1,))
    assert of({"a": 1, "b": 2}) != of({"b": 2, "a": 1}), "who goes through a dictionary goes in its order"
    number = 1
    assert of(lambda: number) != of(lambda: number), "two functions"


def test_what_may_hide_something_is_never_equal(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file, pytest.raises(Opaque):
        fingerprint(Held(file), {})
    with pytest.raises(Opaque):
        fingerprint(Held(iter([1])), {})


def test_what_outlives_a_run_is_itself() -> None:
    contract, shared = Held([1]), Held([2])
    contract.store = shared  # type: ignore[attr-defined]
    outside = outside_of(contract)
    assert fingerprint(Held(shared), outside) == fingerprint(Held(shared), outside)
    assert fingerprint(Held(shared), outside) != fingerprint(Held(contract), outside)


def test_what_was_outside_and_is_gone_is_never_taken_for_something_new() -> None:
    contract = Held([1], [2], [3])
    outside = outside_of(contract)
    contract.parts = ()
    assert not any(id(made) in outside for made in [[number] for number in range(50)])


# -- pairs --------------------------------------------------------------------------------------


def test_the_second_fault_strikes_wherever_somebody_passes_after_the_first(careful: ScheduleRunner) -> None:
    first = Fault("sink[0]", "write.after", 2, "kill")
    run_result = careful.run(Schedule((first,)))
    faults = [fault for _, fault in places_after(run_result, first, AT_NAMED_POINTS)]
    struck = next(at for at, (actor, point) in enumerate(run_result.trace) if at >= 0 and is_at(run_result, at, first))
    assert len(run_result.trace) - struck - 1 == sum(fault.kind == "kill" for fault in faults)
    assert (
        {*AT_NAMED_POINTS.kinds} >= {fault.kind for fault in faults} >= {"kill", "kill-job", "stop", "lose", "decline"}
    )
    for fault in faults[::40]:
        assert careful.run(Schedule((first, fault))).fired, fault


def is_at(run_result: RunResult, at: int, fault: Fault) -> bool:
    place = run_result.trace[at]
    return (run_result.names[place[0]], place[1], run_result.trace[: at + 1].count(place)) == (
        fault.actor,
        fault.point,
        fault.occurrence,
    )


def test_every_pair_is_run_or_equal_to_one_that_is(careful: ScheduleRunner) -> None:
    pairs = Pairs(MemoizedRuns(careful), AT_NAMED_POINTS)
    baseline = careful.run(Schedule())
    firsts = list(places(baseline, "kill"))[::19] + list(places(baseline, "stop"))[::29]
    rests = pairs.prepare(firsts)
    schedules = list(pairs.schedules(rests))
    assert pairs.in_bound - pairs.equal == len(schedules) == len(set(schedules))
    assert pairs.equal > 100
    third = {schedule.faults[1] for schedule in schedules[: len(schedules) // 3]}
    near = [fault for rest in rests for fault in rest.near if fault in third]
    assert near, "those that strike a recovery come first"


@pytest.mark.parametrize("runner", ["files/write-ahead"], indirect=True)
def test_deaths_at_protocol_steps_come_first_and_are_not_run_again(runner: ScheduleRunner) -> None:
    baseline, memo = runner.run(Schedule()), MemoizedRuns(runner)
    at_steps = Pairs(memo, AT_STEPS)
    firsts = at_steps.firsts(baseline)
    assert {"kill", "kill-job", "stop", "error"} == {fault.kind for fault in firsts}
    few = firsts[::31]
    first_ones = {*at_steps.schedules(at_steps.prepare(few))}
    faults = {fault for schedule in first_ones for fault in schedule.faults}
    assert not [fault for fault in faults if fault.point.startswith("file.") or fault.kind in ("lose", "decline")]
    both = [Pairs(memo, AT_NAMED_POINTS, after=after) for after in (None, at_steps)]
    every, rest = ({*pairs.schedules(pairs.prepare(few))} for pairs in both)
    assert both[0].in_bound == both[1].in_bound > at_steps.in_bound
    assert not rest & first_ones
    assert 0 < len(rest) < len(every)
    assert {"lose", "decline"} < {schedule.faults[1].kind for schedule in rest}
    at_effects = [each for each in rest if each.faults[1].point.startswith("file.")]
    assert {*AT_STEPS.kinds} <= {schedule.faults[1].kind for schedule in at_effects}


@pytest.mark.parametrize("runner", ["files/write-ahead"], indirect=True)
def test_what_is_left_out_of_a_bound_equals_something_in_it(runner: ScheduleRunner) -> None:
    """Not the place of a file's effect in between, at which nothing is run in this bound."""
    first, memo = next(places(runner.run(Schedule()), "kill")), MemoizedRuns(runner)
    rest = Pairs(MemoizedRuns(runner), AT_STEPS)._rest(first)
    run_result, marks = memo.run(Schedule((first,)), marked=True), memo.marks
    kills = [(at, fault) for at, fault in places_after(run_result, first, AT_STEPS) if fault.kind == "kill"]
    chosen = {*rest.near, *rest.far}
    left_out = [each for each in kills[1:] if each[1] not in chosen]
    assert left_out
    for at, fault in left_out:
        sooner = next(place for place, other in reversed(kills) if place < at and other in chosen)
        assert is_equivalent(fault, marks, at=at, before=sooner), fault


def test_second_faults_after_equal_recoveries_have_equal_outcomes(careful: ScheduleRunner) -> None:
    """What `prepare` leaves out: the same place, relative to the recovery, after another first fault."""
    one, other = (Fault("sink[0]", "write.after", occurrence, "kill") for occurrence in (1, 2))
    memo = MemoizedRuns(careful)
    trials, crossed = [], []
    for first in (one, other):
        trials.append(memo.run(Schedule((first,))))
        assert memo.crossed is not None
        crossed.append(memo.crossed)
    assert crossed[0][1] is crossed[1][1]
    for step in range(0, len(trials[0].trace) - crossed[0][0] - 1, 7):
        again = []
        for first, run_result, (at, _) in zip((one, other), trials, crossed, strict=True):
            second = next(
                fault for place, fault in places_after(run_result, first, AT_NAMED_POINTS) if place >= at + step
            )
            again.append(careful.run(Schedule((first, second))))
        assert again[0].anomalies == again[1].anomalies
        assert again[0].rows_committed == again[1].rows_committed
        assert len(again[0].trace) - crossed[0][0] == len(again[1].trace) - crossed[1][0]


def test_deaths_between_which_nothing_happens_have_equal_outcomes(careful: ScheduleRunner) -> None:
    first = Fault("sink[1]", "write.after", 3, "kill")
    memo = MemoizedRuns(careful)
    run_result = memo.run(Schedule((first,)), marked=True)
    every = [*places_after(run_result, first, AT_NAMED_POINTS)]
    found = {at: [fault for place, fault in every if place == at] for at in dict.fromkeys(at for at, _ in every)}
    same = [
        (at, fault, other)
        for at, faults in found.items()
        for fault in faults
        if is_equivalent(fault, memo.marks, at=at, before=at - 1)
        for other in found.get(at - 1, ())
        if other.kind == fault.kind
    ]
    assert {"kill", "kill-job"} == {fault.kind for _, fault, _ in same}
    for at, fault, other in same[::4]:
        later, sooner = (careful.run(Schedule((first, second))) for second in (fault, other))
        assert later.fired
        assert (later.anomalies, later.rows_committed) == (sooner.anomalies, sooner.rows_committed)
        assert later.trace[at + 1 :] == sooner.trace[at:], (fault, other)


def test_a_stopped_source_is_as_good_as_a_dead_one(careful: ScheduleRunner) -> None:
    baseline = careful.run(Schedule())
    for fault in [fault for fault in places(baseline, "stop") if is_source(fault)][::4]:
        dead = Fault(fault.actor, fault.point, fault.occurrence, "kill")
        trials = careful.run(Schedule((fault,))), careful.run(Schedule((dead,)))
        assert trials[0].anomalies == trials[1].anomalies == ()
        sinks = [[place for place in run_result.trace if "sink" in run_result.names[place[0]]] for run_result in trials]
        assert sinks[0] == sinks[1]


def test_coverage_is_told_in_numbers(careful: ScheduleRunner) -> None:
    pairs = Pairs(MemoizedRuns(careful), AT_STEPS)
    pairs.in_bound, pairs.equal, pairs.run = 1200, 200, 30
    assert pairs.told() == (
        "1,200 ordered pairs of deaths, crashes of the whole job, zombies and errors at protocol steps: "
        "200 cannot differ from others; of the other 1,000, 30 were run"
    )
    pairs.run = 1000
    assert pairs.told().endswith("all were run")


def test_a_few_second_faults_of_each_first_one_come_in_turn(careful: ScheduleRunner) -> None:
    def second(number: int) -> Fault:
        return Fault("sink[0]", "write.after", number, "kill")

    rests = [
        SecondFaults(Fault("sink[0]", "open.after", first, "kill"), [second(n) for n in range(1, 7)], [second(9)], None)
        for first in (1, 2)
    ]
    pairs = Pairs(MemoizedRuns(careful), AT_STEPS).schedules(rests)
    order = [(pair.faults[0].occurrence, pair.faults[1].occurrence) for pair in pairs]
    assert [(1, n) for n in (1, 2, 3, 4)] + [(2, n) for n in (1, 2, 3, 4)] == order[:8]
    assert [(1, 9), (2, 9)] == order[-2:]


# -- the words in front -------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["ids=8 orders=-/notify+open sink[0].write.after#1=kill", "orders=snapshot no-fault"])
def test_ids_and_orders_are_parsed_back(text: str) -> None:
    assert text == str(parse(text))


@pytest.mark.parametrize("word", ["orders=close", "orders=open+notify", "orders=", "orders=notify//open"])
def test_an_order_that_cannot_be_read_says_how_one_looks(word: str) -> None:
    with pytest.raises(ValueError, match="Orders look like 'orders=notify/-/open\\+snapshot'"):
        parse(f"{word} no-fault")


def test_words_that_only_a_simulated_engine_knows_are_refused_on_spark() -> None:
    for word in ("ids=8", "orders=open", "job=made-2-2-4-2-1"):
        with pytest.raises(ContractError, match="Replay it --on simulated"):
            refuse_impossible(parse(f"{word} no-fault"), load("files/two-phase"), "spark")
        refuse_impossible(parse(f"{word} no-fault"), load("files/two-phase"), "process")
