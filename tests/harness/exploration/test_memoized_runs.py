"""Runs that end at a state that an earlier run reached: the closure is the same, and it is audited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sinkproof.campaign.exhaustive import ExhaustiveRuns
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.workers.simulated_workers import ALONE
from sinkproof.chaos.crash_closure import ENDED_EARLY_AUDITED_EVERY, ExploredRun
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.exploration.closures import Closures
from sinkproof.exploration.job_world import JobWorld
from sinkproof.exploration.run_memo import SAMPLE_SIZE, MemoizedRuns

from .exploring import closing, explore


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["memory/two-phase", "memory/write-ahead", "files/masked", "BackupsContract"])
def test_a_closure_with_runs_that_end_early_equals_one_without(runner: Any, subject: str) -> None:
    bench = runner(subject)
    early, whole = JobWorld(bench, memo=MemoizedRuns(bench)), JobWorld(bench)
    sooner, later = explore(early, depth_most=3), explore(whole, depth_most=3)
    assert sooner.crashes == later.crashes
    assert (sooner.states, sooner.runs, sooner.complete) == (later.states, later.runs, later.complete)
    assert [early.schedule(state) for state, _ in sooner.findings] == [
        whole.schedule(state) for state, _ in later.findings
    ]
    assert early.points == whole.points


def test_states_are_compared_no_more_if_too_few_match(runner: Any) -> None:
    bench = runner("memory/write-ahead")
    memo = MemoizedRuns(bench)
    world = JobWorld(bench, memo=memo)
    (start,) = world.beginnings()
    kept = []
    for generation in range(SAMPLE_SIZE + 3):  # each in another generation, so no two states are equal
        world.run(replace(start, generation=start.generation + generation), None)
        kept.append(memo.kept)
    assert [*range(1, SAMPLE_SIZE + 1), *3 * [SAMPLE_SIZE]] == kept
    assert not memo.is_worth_it


@pytest.mark.slow
def test_the_number_of_states_kept_is_bounded(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkproof.exploration.run_memo.KEPT_MOST", 5)
    bench = runner("memory/two-phase")
    memo = MemoizedRuns(bench)
    bounded = explore(JobWorld(bench, memo=memo), depth_most=2)
    assert 5 == memo.kept == sum(map(len, memo.known.values()))
    assert bounded.states == explore(JobWorld(bench), depth_most=2).states


@pytest.mark.slow
def test_explorations_share_no_known_states(runner: Any) -> None:
    closures = Closures(runner("memory/two-phase"), close=closing, may=lambda fault: True)
    one, other = (explore(closures.world(), depth_most=3) for _ in range(2))
    assert one.states > 100
    assert (one.states, one.runs, one.crashes) == (other.states, other.runs, other.crashes)


# -- full runs ------------------------------------------------------------------------------------


def test_a_finding_that_is_shown_is_run_in_full(runner: Any) -> None:
    bench = runner("TextContract")
    shown = bench.run(parse("ids=8 no-fault"))
    assert shown.anomalies
    results = CampaignResults(contract=bench.contract, shell="simulated")
    exhaustive = ExhaustiveRuns(SimulatedCampaign(bench, results), ALONE)
    assert shown.history == exhaustive._shown(replace(shown, history=[])).history
    quiet = replace(shown, history=[], anomalies=())
    assert quiet is exhaustive._shown(quiet)


def test_a_full_run_traces_lines_if_the_first_run_did(runner: Any) -> None:
    bench = runner("memory/masked")
    bench.find_own_files()
    traced = MemoizedRuns(bench, trace_lines=True).in_full(bench.run(Schedule()))
    assert any(is_line(point) for _, point in traced.trace)
    assert not any(is_line(point) for _, point in MemoizedRuns(bench).in_full(traced).trace)


class WronglyEnded:
    """A world of two states. The second run ends early, wrongly, as if it were known."""

    def __init__(self, *, hidden: str) -> None:
        self.hidden, self.now = hidden, ""

    def beginnings(self) -> list[str]:
        return ["first", "second"] * ENDED_EARLY_AUDITED_EVERY

    def run(self, state: str, visit: Callable[[], None] | None, *, in_full: bool = False) -> ExploredRun:
        self.now = state
        if visit is not None:
            visit()
        if state == "first" or not in_full:
            return ExploredRun(known=int(state == "second"))
        if visit is not None and self.hidden == "state":
            self.now = "third"
            visit()
        return ExploredRun(findings=["lost"] if self.hidden == "finding" else [])

    def branches(self, state: str) -> list[str]:
        return []

    def version(self) -> None: ...

    def exact(self) -> None: ...

    def text(self) -> str:
        return self.now

    point = freeze = text


class WronglySkipped(WronglyEnded):
    """The second run is skipped, wrongly, as if it were equal to the first."""

    def run(self, state: str, visit: Callable[[], None] | None, *, in_full: bool = False) -> ExploredRun:
        if state == "second" and not in_full:
            return ExploredRun(was_run=False)
        self.now = "third" if state == "second" and self.hidden == "state" else "first"
        if visit is not None:
            visit()
        return ExploredRun(["lost"] if state == "second" and self.hidden == "finding" else [])


@pytest.mark.parametrize("hidden", ["", "state", "finding"])
def test_a_closure_is_not_complete_if_a_skipped_run_shows_a_new_state_or_finding(
    hidden: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkproof.chaos.crash_closure.NOT_BEGUN_AUDITED_EVERY", ENDED_EARLY_AUDITED_EVERY)
    closure = explore(WronglySkipped(hidden=hidden), depth_most=1)
    assert (1, hidden != "state") == (closure.merges_audited, closure.complete)
    assert [("second", "lost")] * (hidden == "finding") == closure.findings
    assert ENDED_EARLY_AUDITED_EVERY + 1 + closure.states == closure.runs, "skipped runs are not counted"


@pytest.mark.parametrize("hidden", ["", "state", "finding"])
def test_a_closure_is_not_complete_if_a_run_ended_early_shows_a_new_state_or_finding(hidden: str) -> None:
    closure = explore(WronglyEnded(hidden=hidden), depth_most=1)
    assert closure.merges_audited >= 1
    assert closure.complete is (not hidden)
    assert ("behaved differently" in closure.why) is bool(hidden)
    assert closure.crashes > closure.runs, "crashes of runs that ended early count"
