"""The closure: what it covers, what it calls complete, and sinks that only it convicts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sinkproof.chaos.canonical_names import FINDABLE_IDS
from sinkproof.chaos.crash_closure import ExploredClosure, Explorer
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.closures import SENTENCE, SHIFTS, Closures, differs
from sinkproof.exploration.job_world import JobWorld
from sinkproof.generators.fault_sites import places

from .exploring import closing, explore


def singles(runner: ScheduleRunner, *kinds: str) -> list[Schedule]:
    baseline = runner.run(Schedule())
    return [Schedule((fault,)) for kind in kinds for fault in places(baseline, kind)]


# -- the third crash ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sink_that_is_wrong_at_the_third_crash_is_convicted_by_the_closure(runner: Any) -> None:
    bench = runner("BackupsContract")
    world = JobWorld(bench)
    assert [] == [each for each in singles(bench, "kill-job", "kill", "stop", "lose", "decline") if wrong(bench, each)]
    assert [] == explore(world, depth_most=2).findings
    closure = explore(world, depth_most=3)
    schedules = [world.schedule(state) for state, anomaly in closure.findings if anomaly.oracle == "O1"]
    assert schedules
    assert {3} == {len(schedule.faults) for schedule in schedules}
    assert wrong(bench, schedules[0]), "a replay in one process shows what the copies have shown"


def wrong(runner: ScheduleRunner, schedule: Schedule) -> bool:
    run_result = runner.run(schedule)
    assert run_result.fired, schedule
    return bool(run_result.anomalies)


def test_the_right_twin_of_that_sink_is_upheld_with_a_complete_closure(runner: Any) -> None:
    closure = explore(JobWorld(runner("CarefulContract")))
    assert closure.complete, closure.why
    assert [] == closure.findings
    assert closure.states < 100
    assert closure.merges_audited > 0


def test_a_crash_is_covered_only_when_a_run_was_made_from_the_state_that_it_leaves(runner: Any) -> None:
    """The first run passes every point; by then nothing has recovered from a crash there."""
    bench = runner("CarefulContract")
    known: list[tuple[int, int]] = []

    def two_runs(closure: ExploredClosure[Any]) -> bool:
        known.append((closure.crashed.total(), closure.covered.total()))
        return closure.runs < 2

    world = JobWorld(bench)
    Explorer(world, go_on=two_runs, depth_most=1).explore()
    assert [(0, 0), (0, 0)] == known[:2]
    assert (1, known[2][1]) == known[2]
    whole = explore(JobWorld(bench), depth_most=1)
    assert whole.states == whole.crashed.total() > 1
    assert whole.crashes == whole.crashed.total() + whole.covered.total()
    assert world.points == {*whole.crashed, *whole.covered}


# -- ids and generations that begin higher ------------------------------------------------------


def test_a_sink_that_compares_ids_as_text_is_convicted_by_shifted_ids_and_by_nothing_else(runner: Any) -> None:
    bench = runner("TextContract")
    assert [] == explore(JobWorld(bench)).findings
    world = JobWorld(bench, ids=8)
    (state, anomaly), *_ = explore(world, depth_most=1).findings
    schedule = world.schedule(state)
    assert 8 == schedule.ids
    assert schedule == parse(str(schedule))
    assert anomaly in bench.run(parse(str(schedule))).anomalies


@pytest.mark.slow
def test_shifted_ids_change_nothing_for_our_own_sinks(runner: Any) -> None:
    for subject in ("memory/two-phase", "memory/masked"):
        bench = runner(subject)
        plain = explore(JobWorld(bench))
        assert plain.complete
        for by in SHIFTS:
            assert "" == differs(plain, explore(JobWorld(bench, ids=by))), (subject, by)


@pytest.mark.slow
def test_the_closure_of_a_sink_that_reads_the_parity_of_its_generation_is_not_complete(runner: Any) -> None:
    bench = runner("ParityContract")
    closures = Closures(bench, close=closing, may=lambda fault: True)
    closures.whole_job([])
    summary = closures.summary()
    assert summary is not None
    assert not summary.complete
    assert "" == summary.sentence
    assert "shifted by 1" in summary.why or "behaved differently" in summary.why


def test_ids_and_generations_go_on_from_the_shift_after_a_crash_of_the_whole_job(runner: Any) -> None:
    run_result = runner("memory/two-phase").run(parse("ids=97 checkpoint.persist.before#1=kill-job"))
    assert (98, 99, 100) == tuple(event[4] for event in run_result.history if event[3] == "complete")[:3]
    assert [700_098, 700_099] == [event[2] for event in run_result.history if event[3] == "generation"]


# -- partial deaths between crashes of the whole job --------------------------------------------


@pytest.mark.slow
def test_the_mixed_closure_of_a_right_sink_is_complete_and_finds_nothing(runner: Any) -> None:
    bench = runner("CarefulContract")
    closures = Closures(bench, close=closing, may=lambda fault: str(fault).startswith("sink[0].commit.b"))
    closures.with_partial_deaths()
    (summary,) = closures.other_summaries()
    assert summary.complete, summary.why
    assert closures.mixed is not None
    assert [] == closures.mixed.findings
    assert closures.mixed.runs > 2 * closures.mixed.states
    assert closures.mixed.states >= explore(JobWorld(bench)).states, "partial deaths lead to states of their own"


def test_a_mixed_closure_that_ran_out_of_time_says_how_deep_it_went(runner: Any) -> None:
    closures = Closures(runner("CarefulContract"), close=closing, may=lambda fault: True, mixed_seconds=0.2)
    closures.with_partial_deaths()
    (summary,) = closures.other_summaries()
    assert not summary.complete
    assert re.search(r"\d+ states and [\d,]+ branches from others were not run yet", summary.why), summary.why
    assert summary.depth in (0, 1, 2)


@pytest.mark.slow
def test_a_mixed_path_is_written_with_occurrences_from_the_start(runner: Any) -> None:
    bench = runner("BackupsContract")
    closures = Closures(bench, close=closing, may=lambda fault: fault.point == "fence.after")
    world = closures.world(ids=FINDABLE_IDS, between=closures._between)
    explorer = Explorer(world, go_on=lambda closure: closure.runs < 400)
    mixed = [world.schedule(state) for state, _ in explorer.explore().findings]
    mixed = [each for each in mixed if any(fault.kind != "kill-job" for fault in each.faults)]
    assert mixed
    for schedule in mixed[:5]:
        run_result = bench.run(parse(str(schedule)))
        assert run_result.fired, schedule
        assert run_result.anomalies, schedule


# -- endless closures ---------------------------------------------------------------------------


def test_a_closure_without_an_end_names_a_path_that_grows(runner: Any) -> None:
    world = JobWorld(runner("CarefulContract"))
    closure = explore(world, states_most=20)
    assert not closure.complete
    assert closure.growing is not None
    assert "accumulate" in closure.why
    assert world.schedule(closure.growing).faults


def test_the_sentence_is_the_promised_one() -> None:
    said = "any number of whole-job crashes of this job, in these orders, at fixed time, names opaque (audited)"
    assert said == SENTENCE


def test_every_kind_of_a_pair_is_a_known_fault() -> None:
    from sinkproof.exploration.fault_pairs import AT_NAMED_POINTS

    assert {*AT_NAMED_POINTS.kinds} <= KINDS.keys()
