"""Ordered pairs of faults, and outcomes that are known from an equal state."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.fault_pairs import AT_NAMED_POINTS, AT_STEPS, BATCH, FaultPairs, faults_after
from sinkproof.exploration.fingerprints import Opaque, fingerprint, outside_of
from sinkproof.exploration.run_memo import MemoizedRuns
from sinkproof.exploration.run_state import is_same_copy
from sinkproof.generators.fault_sites import places
from sinkproof.generators.feasible import impossible
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


# -- state matching -----------------------------------------------------------------------------


def test_a_reused_outcome_equals_that_of_the_full_run(runner: ScheduleRunner) -> None:
    memo = MemoizedRuns(runner)
    baseline = runner.run(Schedule())
    faults = [fault for kind in AT_NAMED_POINTS.kinds for fault in places(baseline, kind)][::16]
    for fault in faults:
        schedule = Schedule((fault,))
        assert shown(runner.run(schedule)) == shown(memo.run(schedule)), schedule
    assert memo.used > len(faults) / 4
    assert "" == memo.why_not


def test_no_outcome_is_reused_after_an_audit_that_differs(careful: ScheduleRunner) -> None:
    memo = MemoizedRuns(careful, audited_every=1)
    schedule = Schedule((Fault("sink[0]", "write.after", 1, "kill"),))
    memo.run(schedule)
    (join_points,) = memo.known.values()
    join_points[0].observed["committed"] = join_points[0].observed["committed"][:-1]
    found = memo.run(schedule)
    assert () == found.anomalies, "a schedule that breaks a claim is run in full, and that result counts"
    assert "ended otherwise" in memo.why_not
    used = memo.used
    memo.run(schedule)
    assert used == memo.used


def test_states_match_only_at_the_same_time_if_the_sink_reads_the_clock(
    careful: ScheduleRunner, monkeypatch: Any
) -> None:
    kind = careful.contract.given.kind
    plain = kind.notify_complete
    monkeypatch.setattr(kind, "notify_complete", lambda self, id: (self.context.clock(), plain(self, id))[1])
    memo = MemoizedRuns(careful)
    for occurrence in (1, 4):
        memo.run(Schedule((Fault("sink[0]", "write.after", occurrence, "kill"),)))
    assert 0 == memo.used
    memo.run(Schedule((Fault("sink[0]", "write.after", 1, "kill"),)))
    assert 1 == memo.used


def test_copies_are_the_same_only_in_the_same_order() -> None:
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


# -- fingerprints of sinks ----------------------------------------------------------------------


class Held:
    def __init__(self, *parts: Any) -> None:
        self.parts, self.me = parts, self


def test_two_objects_that_hold_the_same_are_equal_and_others_are_not() -> None:
    def of(*parts: Any) -> Any:
        return fingerprint(Held(*parts), {})

    assert of([1, {"a": b"b"}], {1, 2}) == of([1, {"a": b"b"}], {2, 1})
    assert of([1]) != of([2])
    assert of([1]) != of((1,))
    assert of({"a": 1, "b": 2}) != of({"b": 2, "a": 1}), "a sink may iterate over a dictionary in its order"
    number = 1
    assert of(lambda: number) != of(lambda: number), "two functions"


def test_an_object_that_may_hide_state_is_opaque(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file, pytest.raises(Opaque):
        fingerprint(Held(file), {})
    with pytest.raises(Opaque):
        fingerprint(Held(iter([1])), {})
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(Opaque):
        fingerprint(Held(connection), {})


def test_attributes_and_slots_are_no_hidden_state() -> None:
    class Slotted:
        __slots__ = ("__weakref__", "held")

    class Below(Slotted):
        pass

    one, other = Below(), Below()
    one.held, other.held = [1], [2]
    assert fingerprint(one, {}) != fingerprint(other, {})
    other.held = [1]
    assert fingerprint(one, {}) == fingerprint(other, {})


def test_objects_that_outlive_a_run_are_compared_by_identity() -> None:
    contract, shared = Held([1]), Held([2])
    contract.store = shared  # type: ignore[attr-defined]
    outside = outside_of(contract)
    assert fingerprint(Held(shared), outside) == fingerprint(Held(shared), outside)
    assert fingerprint(Held(shared), outside) != fingerprint(Held(contract), outside)


def test_a_new_object_never_gets_the_id_of_an_outside_object() -> None:
    contract = Held([1], [2], [3])
    outside = outside_of(contract)
    contract.parts = ()
    assert not any(id(made) in outside for made in [[number] for number in range(50)])


# -- pairs --------------------------------------------------------------------------------------


def test_the_second_fault_strikes_at_every_point_after_the_first(careful: ScheduleRunner) -> None:
    first = Fault("sink[0]", "write.after", 2, "kill")
    result = careful.run(Schedule((first,)))
    faults = list(faults_after(result, first, AT_NAMED_POINTS))
    struck = next(at for at in range(len(result.trace)) if is_at(result, at, first))
    assert len(result.trace) - struck - 1 == sum(fault.kind == "kill" for fault in faults)
    kinds = {fault.kind for fault in faults}
    assert {*AT_NAMED_POINTS.kinds} >= kinds >= {"kill", "kill-job", "stop", "lose", "decline"}
    for fault in faults[::40]:
        assert careful.run(Schedule((first, fault))).fired, fault


def is_at(result: RunResult, at: int, fault: Fault) -> bool:
    place = result.trace[at]
    occurrence = result.trace[: at + 1].count(place)
    return (result.names[place[0]], place[1], occurrence) == (fault.actor, fault.point, fault.occurrence)


def test_a_few_second_faults_of_each_first_one_come_in_turn_and_each_pair_once(careful: ScheduleRunner) -> None:
    pairs = FaultPairs(AT_STEPS, careful.run, can_inject=lambda fault: fault.kind == "kill" and fault.occurrence == 1)
    rounds = list(pairs.rounds(careful.run(Schedule())))
    first = [schedule.faults[0] for schedule in rounds[0]]
    assert [fault for fault, _ in groupby(first)] == list(dict.fromkeys(first))
    assert BATCH == max(Counter(first).values()) == first.count(first[0])
    every = [schedule for each in rounds for schedule in each]
    assert pairs.in_bound == len(every) == len({*every}) > len(rounds[0])
    assert not [fault for each in every for fault in each.faults if fault.point.startswith("file.")]
    after = faults_after(careful.run(Schedule((first[0],))), first[0], AT_STEPS)
    expected = [fault for fault in after if fault.kind == "kill" and fault.occurrence == 1]
    assert expected == [schedule.faults[1] for schedule in every if schedule.faults[0] == first[0]]


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["files/write-ahead"], indirect=True)
def test_the_wider_scope_adds_file_effects_lost_messages_and_declined_votes(runner: ScheduleRunner) -> None:
    baseline = runner.run(Schedule())
    narrow, wide = (next(FaultPairs(scope, runner.run).rounds(baseline)) for scope in (AT_STEPS, AT_NAMED_POINTS))
    assert {"kill", "kill-job", "stop", "error"} == {each.faults[0].kind for each in narrow}
    assert {"lose", "decline"} == {each.faults[0].kind for each in wide} - {each.faults[0].kind for each in narrow}
    assert any(each.faults[0].point.startswith("file.") for each in wide)


def test_the_summary_says_how_many_pairs_were_run(careful: ScheduleRunner) -> None:
    pairs = FaultPairs(AT_STEPS, careful.run)
    pairs.in_bound, pairs.tried = 1200, 30
    scope = "ordered pairs of deaths, crashes of the whole job, zombies and errors at protocol steps"
    assert f"at least 1,200 {scope}: 30 were run before the budget ended" == pairs.summary(is_done=False)
    assert f"1,200 {scope}: all were run" == pairs.summary(is_done=True)


# -- the words before the faults ----------------------------------------------------------------


@pytest.mark.parametrize("text", ["ids=8 orders=-/notify+open sink[0].write.after#1=kill", "orders=snapshot no-fault"])
def test_ids_and_orders_are_parsed_back(text: str) -> None:
    assert text == str(parse(text))


@pytest.mark.parametrize("word", ["orders=close", "orders=open+notify", "orders=", "orders=notify//open"])
def test_an_order_that_cannot_be_read_says_how_one_looks(word: str) -> None:
    with pytest.raises(ValueError, match="Orders look like 'orders=notify/-/open\\+snapshot'"):
        parse(f"{word} no-fault")


def test_words_that_only_a_simulated_engine_knows_are_refused_on_spark() -> None:
    for word in ("ids=8", "orders=open", "job=made-2-2-4-2-1"):
        contract, schedule = load("files/two-phase"), parse(f"{word} no-fault")
        assert "Replay it --on simulated" in impossible(schedule, contract, "spark")
        assert "" == impossible(schedule, contract, "process")
