"""The explorer: what it covers, what it calls complete, and sinks that only it convicts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sinkproof.baseline import places
from sinkproof.chaos.explorer import (
    ENDED_EARLY_AUDITED_EVERY,
    Closure,
    Explorer,
    Run,
    canonical,
    name_drawn,
    rank_generations,
)
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.lines import LineTracer
from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.closures import EVERY_STEP, SENTENCE, SHIFTS, Closures, differs
from sinkproof.contract import load
from sinkproof.copied_crashes import run_with_copies
from sinkproof.endings import TRIED, Endings
from sinkproof.explore import JobWorld
from sinkproof.scratch import Scratch, fresh_folder
from sinkproof.smallest import smallest
from sinkproof.trial import Laboratory, no_tracing

Found = Closure[Any]
SINKS = Path(__file__).with_name("explored_sinks.py")


@pytest.fixture
def laboratory() -> Iterator[Callable[[str], Laboratory]]:
    """Makes laboratories, of registry names or of contracts in explored_sinks.py."""
    opened: list[Laboratory] = []

    def make(subject: str) -> Laboratory:
        contract = load(subject if "/" in subject else f"{SINKS}:{subject}")
        opened.append(Laboratory(contract, Scratch(name="explored", path=fresh_folder())).__enter__())
        return opened[-1]

    yield make
    for each in opened:
        each.__exit__()
        shutil.rmtree(each.scratch.path)


def explore(world: Any, **options: Any) -> Found:
    return Explorer(world, go_on=lambda closure: True, **options).explore()


def singles(laboratory: Laboratory, *kinds: str) -> list[Schedule]:
    baseline = laboratory.run(Schedule())
    return [Schedule((fault,)) for kind in kinds for fault in places(baseline, kind)]


# -- the third crash ----------------------------------------------------------------------------


def test_a_sink_that_is_wrong_at_the_third_crash_is_convicted_by_the_closure(laboratory: Any) -> None:
    bench = laboratory("BackupsContract")
    world = JobWorld(bench)
    assert [] == [each for each in singles(bench, "kill-job", "kill", "stop", "lose", "decline") if wrong(bench, each)]
    assert [] == explore(world, depth_most=2).findings
    closure = explore(world, depth_most=3)
    schedules = [world.schedule(state) for state, anomaly in closure.findings if anomaly.oracle == "O1"]
    assert schedules
    assert {3} == {len(schedule.faults) for schedule in schedules}
    assert wrong(bench, schedules[0]), "a replay in one process shows what the copies have shown"


def wrong(laboratory: Laboratory, schedule: Schedule) -> bool:
    trial = laboratory.run(schedule)
    assert trial.fired, schedule
    return bool(trial.anomalies)


def test_its_right_twin_is_acquitted_and_its_closure_complete(laboratory: Any) -> None:
    closure = explore(JobWorld(laboratory("CarefulContract")))
    assert closure.complete, closure.why
    assert [] == closure.findings
    assert closure.states < 100
    assert closure.merges_audited > 0


# -- ids and generations that begin higher ------------------------------------------------------


def test_a_sink_that_compares_ids_as_text_is_convicted_by_shifted_ids_and_by_nothing_else(laboratory: Any) -> None:
    bench = laboratory("TextContract")
    assert [] == explore(JobWorld(bench)).findings
    world = JobWorld(bench, ids=8)
    (state, anomaly), *_ = explore(world, depth_most=1).findings
    schedule = world.schedule(state)
    assert 8 == schedule.ids
    assert schedule == parse(str(schedule))
    assert anomaly in bench.run(parse(str(schedule))).anomalies


@pytest.mark.slow
def test_shifted_ids_change_nothing_for_our_own_sinks(laboratory: Any) -> None:
    for subject in ("memory/two-phase", "memory/masked"):
        bench = laboratory(subject)
        plain = explore(JobWorld(bench))
        assert plain.complete
        for by in SHIFTS:
            assert "" == differs(plain, explore(JobWorld(bench, ids=by))), (subject, by)


@pytest.mark.slow
def test_a_sink_that_looks_at_the_parity_of_its_generation_is_no_complete_closure(laboratory: Any) -> None:
    bench = laboratory("ParityContract")
    closures = Closures(bench, close=closing, may=lambda fault: True)
    closures.whole_job([])
    told = closures.told()
    assert told is not None
    assert not told.complete
    assert "" == told.sentence
    assert "shifted by 1" in told.why or "behaved differently" in told.why


def closing(world: JobWorld, *, keep: Any = lambda found: None, go_on: Any = lambda: True, **options: Any) -> Found:
    found: Found = Explorer(world, go_on=lambda closure: go_on(), **options).explore()
    keep(found)
    return found


def test_ids_and_generations_go_on_from_the_shift_after_a_crash_of_the_whole_job(laboratory: Any) -> None:
    trial = laboratory("memory/two-phase").run(parse("ids=97 checkpoint.persist.before#1=kill-job"))
    assert (98, 99, 100) == tuple(event[4] for event in trial.history if event[3] == "complete")[:3]
    assert [700_098, 700_099] == [event[2] for event in trial.history if event[3] == "generation"]


# -- runs that end as others did ----------------------------------------------------------------


@pytest.mark.parametrize("subject", ["memory/two-phase", "memory/write-ahead", "files/masked", "BackupsContract"])
def test_a_closure_whose_runs_end_early_is_the_same(laboratory: Any, subject: str) -> None:
    bench = laboratory(subject)
    early, whole = JobWorld(bench, endings=Endings(bench)), JobWorld(bench)
    sooner, later = explore(early, depth_most=3), explore(whole, depth_most=3)
    assert sooner.crashes == later.crashes
    assert (sooner.states, sooner.runs, sooner.complete) == (later.states, later.runs, later.complete)
    assert [early.schedule(state) for state, _ in sooner.findings] == [
        whole.schedule(state) for state, _ in later.findings
    ]
    assert early.points == whole.points


def test_runs_that_never_meet_are_soon_compared_no_more(laboratory: Any) -> None:
    bench = laboratory("memory/write-ahead")
    endings = Endings(bench)
    world = JobWorld(bench, endings=endings)
    (start,) = world.beginnings()
    kept = []
    for generation in range(TRIED + 3):  # each in a generation of its own: none stands where another has stood
        world.run(replace(start, generation=start.generation + generation), None)
        kept.append(endings.kept)
    assert [*range(1, TRIED + 1), *3 * [TRIED]] == kept
    assert not endings.is_worth_it


def test_what_is_kept_to_be_met_again_is_bounded(laboratory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkproof.endings.KEPT_MOST", 5)
    bench = laboratory("memory/two-phase")
    endings = Endings(bench)
    bounded = explore(JobWorld(bench, endings=endings), depth_most=2)
    assert 5 == endings.kept == sum(map(len, endings.known.values()))
    assert bounded.states == explore(JobWorld(bench), depth_most=2).states


class Deceived:
    """Two states. The second run is spared in the belief that it shows nothing new."""

    def __init__(self, *, hidden: str) -> None:
        self.hidden, self.now = hidden, ""

    def beginnings(self) -> list[str]:
        return ["first", "second"] * ENDED_EARLY_AUDITED_EVERY

    def run(self, state: str, visit: Callable[[], None] | None, *, in_full: bool = False) -> Run:
        self.now = state
        if visit is not None:
            visit()
        if state == "first" or not in_full:
            return Run(known=int(state == "second"))
        if visit is not None and self.hidden == "state":
            self.now = "third"
            visit()
        return Run(findings=["lost"] if self.hidden == "finding" else [])

    def branches(self, state: str) -> list[str]:
        return []

    def version(self) -> None: ...

    def exact(self) -> None: ...

    def text(self) -> str:
        return self.now

    freeze = text


@pytest.mark.parametrize("hidden", ["", "state", "finding"])
def test_a_closure_in_which_a_spared_run_shows_something_new_is_not_complete(hidden: str) -> None:
    closure = explore(Deceived(hidden=hidden), depth_most=1)
    assert closure.merges_audited >= 1
    assert closure.complete is (not hidden)
    assert ("behaved differently" in closure.why) is bool(hidden)
    assert closure.crashes > closure.runs, "those that were spared count"


# -- orders of subtasks -------------------------------------------------------------------------


def test_a_sink_that_needs_one_order_of_its_subtasks_is_convicted_by_the_branching(laboratory: Any) -> None:
    bench = laboratory("ListContract")
    assert [] == explore(JobWorld(bench)).findings
    world = JobWorld(bench, orders=[EVERY_STEP])
    findings = explore(world, depth_most=2).findings
    schedules = {str(world.schedule(state)) for state, _ in findings}
    assert f"orders={EVERY_STEP} no-fault" in schedules
    assert any(each.startswith("orders=-/") and "kill-job" in each for each in schedules), "turned after a crash only"
    for each in sorted(schedules)[:5]:
        assert bench.run(parse(each)).anomalies, each


@pytest.mark.parametrize("step", ["notify", "open", "snapshot"])
def test_an_order_turns_one_step_and_no_other(laboratory: Any, step: str) -> None:
    bench = laboratory("memory/two-phase")
    points = {"notify": "notify_complete.before", "open": "open.before", "snapshot": "snapshot.before"}
    usual, turned = bench.run(Schedule()), bench.run(parse(f"orders={step} no-fault"))
    for name, point in points.items():
        first = [next(actor for actor, passed in trial.trace if passed == point) for trial in (usual, turned)]
        assert (first[0] != first[1]) is (name == step), name


def test_orders_replayed_from_copies_are_those_of_one_process(laboratory: Any) -> None:
    bench = laboratory("memory/two-phase")
    schedule = parse("ids=8 orders=-/notify+open sink[0].commit.before#1=kill-job sink[1].notify_complete.after#1=kill")
    trial, copied = bench.run(schedule), run_with_copies(bench, schedule, tracing=no_tracing)
    assert trial.fired
    assert trial.struck == copied.struck
    assert [event[1:] for event in trial.history] == [event[1:] for event in copied.history]


# -- partial deaths between crashes of the whole job --------------------------------------------


def test_the_mixed_closure_of_a_right_sink_is_complete_and_finds_nothing(laboratory: Any) -> None:
    bench = laboratory("CarefulContract")
    closures = Closures(bench, close=closing, may=lambda fault: str(fault).startswith("sink[0].commit.b"))
    closures.with_partial_deaths()
    (told,) = closures.others_told()
    assert told.complete, told.why
    assert closures.mixed is not None
    assert [] == closures.mixed.findings
    assert closures.mixed.runs > 2 * closures.mixed.states
    assert closures.mixed.states >= explore(JobWorld(bench)).states, "partial deaths lead to states of their own"


def test_a_mixed_closure_that_time_has_ended_says_how_deep_it_went(laboratory: Any) -> None:
    closures = Closures(laboratory("CarefulContract"), close=closing, may=lambda fault: True, mixed_seconds=0.2)
    closures.with_partial_deaths()
    (told,) = closures.others_told()
    assert not told.complete
    assert "not run yet" in told.why
    assert told.depth in (0, 1, 2)


def test_a_mixed_path_is_written_with_occurrences_from_the_start(laboratory: Any) -> None:
    bench = laboratory("BackupsContract")
    closures = Closures(bench, close=closing, may=lambda fault: fault.point == "fence.after")
    world = JobWorld(bench, between=closures._between)
    explorer = Explorer(world, go_on=lambda closure: closure.runs < 400)
    mixed = [world.schedule(state) for state, _ in explorer.explore().findings]
    mixed = [each for each in mixed if any(fault.kind != "kill-job" for fault in each.faults)]
    assert mixed
    for schedule in mixed[:5]:
        trial = bench.run(schedule)
        assert trial.fired, schedule
        assert trial.anomalies, schedule


# -- the smallest schedule ----------------------------------------------------------------------


def test_what_is_not_needed_is_left_out_of_a_schedule(laboratory: Any) -> None:
    bench = laboratory("TextContract")
    long = parse("ids=8 orders=notify sink[0].write.after#1=kill checkpoint.trigger#3=kill-job")
    found = smallest(bench, long, oracle="O3", tracer=LineTracer({}))
    assert found is not None
    assert "ids=8 no-fault" == str(found.schedule)
    assert "O3" == found.anomaly.oracle


def test_all_three_crashes_are_kept_where_all_are_needed(laboratory: Any) -> None:
    bench = laboratory("BackupsContract")
    world = JobWorld(bench)
    state, _ = explore(world, depth_most=3).findings[0]
    schedule = world.schedule(state)
    more = Fault("coordinator", "generation.after", 4, "kill")
    found = smallest(bench, Schedule((*schedule.faults, more)), oracle="O1", tracer=LineTracer({}))
    assert found is not None
    assert ["kill-job"] * 3 == [fault.kind for fault in found.schedule.faults]
    assert found.trial.fired


def test_a_schedule_that_shows_nothing_again_is_nobody_s_smallest(laboratory: Any) -> None:
    bench = laboratory("CarefulContract")
    assert smallest(bench, Schedule(), oracle="O1", tracer=LineTracer({})) is None


# -- names and endless closures -----------------------------------------------------------------


def test_generations_are_renamed_by_rank_and_drawn_names_by_appearance() -> None:
    assert "a-G000 b-G001 a-G000 1700001" == rank_generations("a-700003 b-700011 a-700003 1700001")
    one, other = "f0" * 16, "0a" * 16
    assert name_drawn(f"{one}/{other}.{one}") == name_drawn(f"{other}/{one}.{other}")
    assert name_drawn(f"{one} {one}") != name_drawn(f"{one} {other}")
    assert canonical(f"{one}-700001") == canonical(f"{other}-700009")
    assert "550e8400" in name_drawn("550e8400"), "eight digits may be a date"


def test_a_closure_without_an_end_names_a_path_that_grows(laboratory: Any) -> None:
    world = JobWorld(laboratory("CarefulContract"))
    closure = explore(world, states_most=20)
    assert not closure.complete
    assert closure.growing is not None
    assert "accumulate" in closure.why
    assert world.schedule(closure.growing).faults


def test_the_sentence_is_the_promised_one() -> None:
    said = "any number of whole-job crashes of this job, in these orders, at fixed time, names opaque (audited)"
    assert said == SENTENCE


def test_every_kind_of_a_pair_is_a_known_fault() -> None:
    from sinkproof.pairs import AT_NAMED_POINTS

    assert {*AT_NAMED_POINTS.kinds} <= KINDS.keys()
