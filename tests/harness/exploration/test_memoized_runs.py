"""Runs that end where an earlier one has stood: the closure is the same, and it is audited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sinkproof.campaign.exhaustive import ExhaustiveRuns
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.workers.simulated_workers import ALONE
from sinkproof.chaos.explorer import ENDED_EARLY_AUDITED_EVERY, ExploredRun
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.exploration.closures import Closures
from sinkproof.exploration.job_world import JobWorld
from sinkproof.exploration.run_memo import TRIED, MemoizedRuns

from .exploring import closing, explore


@pytest.mark.parametrize("subject", ["memory/two-phase", "memory/write-ahead", "files/masked", "BackupsContract"])
def test_a_closure_whose_runs_end_early_is_the_same(runner: Any, subject: str) -> None:
    bench = runner(subject)
    early, whole = JobWorld(bench, memo=MemoizedRuns(bench)), JobWorld(bench)
    sooner, later = explore(early, depth_most=3), explore(whole, depth_most=3)
    assert sooner.crashes == later.crashes
    assert (sooner.states, sooner.runs, sooner.complete) == (later.states, later.runs, later.complete)
    assert [early.schedule(state) for state, _ in sooner.findings] == [
        whole.schedule(state) for state, _ in later.findings
    ]
    assert early.points == whole.points


def test_runs_that_never_meet_are_soon_compared_no_more(runner: Any) -> None:
    bench = runner("memory/write-ahead")
    memo = MemoizedRuns(bench)
    world = JobWorld(bench, memo=memo)
    (start,) = world.beginnings()
    kept = []
    for generation in range(TRIED + 3):  # each in a generation of its own: none stands where another has stood
        world.run(replace(start, generation=start.generation + generation), None)
        kept.append(memo.kept)
    assert [*range(1, TRIED + 1), *3 * [TRIED]] == kept
    assert not memo.is_worth_it


def test_what_is_kept_to_be_met_again_is_bounded(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkproof.exploration.run_memo.KEPT_MOST", 5)
    bench = runner("memory/two-phase")
    memo = MemoizedRuns(bench)
    bounded = explore(JobWorld(bench, memo=memo), depth_most=2)
    assert 5 == memo.kept == sum(map(len, memo.known.values()))
    assert bounded.states == explore(JobWorld(bench), depth_most=2).states


def test_what_one_exploration_has_seen_another_has_yet_to_see(runner: Any) -> None:
    closures = Closures(runner("memory/two-phase"), close=closing, may=lambda fault: True)
    one, other = (explore(closures.world(), depth_most=3) for _ in range(2))
    assert one.states > 100
    assert (one.states, one.runs, one.crashes) == (other.states, other.runs, other.crashes)


# -- what is shown --------------------------------------------------------------------------------


def test_what_is_shown_is_run_to_its_end(runner: Any) -> None:
    bench = runner("TextContract")
    shown = bench.run(parse("ids=8 no-fault"))
    assert shown.anomalies
    results = CampaignResults(contract=bench.contract, shell="simulated")
    exhaustive = ExhaustiveRuns(SimulatedCampaign(bench, results), ALONE)
    memo = MemoizedRuns(bench, confirms=False)
    assert shown.history == exhaustive._shown(replace(shown, history=[]), memo.in_full).history
    quiet = replace(shown, history=[], anomalies=())
    assert quiet is exhaustive._shown(quiet, memo.in_full)


def test_it_passes_lines_again_if_it_has_passed_lines(runner: Any) -> None:
    bench = runner("memory/masked")
    bench.find_own_files()
    traced = MemoizedRuns(bench, trace_lines=True).in_full(bench.run(Schedule()))
    assert any(is_line(point) for _, point in traced.trace)
    assert not any(is_line(point) for _, point in MemoizedRuns(bench).in_full(traced).trace)


class Deceived:
    """Two states. The second run is spared in the belief that it shows nothing new."""

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

    freeze = text


class NotBegun(Deceived):
    """Of the second run nothing is done at all, in the belief that it is the first once more."""

    def run(self, state: str, visit: Callable[[], None] | None, *, in_full: bool = False) -> ExploredRun:
        if state == "second" and not in_full:
            return ExploredRun(was_run=False)
        self.now = "third" if state == "second" and self.hidden == "state" else "first"
        if visit is not None:
            visit()
        return ExploredRun(["lost"] if state == "second" and self.hidden == "finding" else [])


@pytest.mark.parametrize("hidden", ["", "state", "finding"])
def test_a_closure_in_which_a_run_that_was_not_begun_shows_something_new_is_not_complete(
    hidden: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkproof.chaos.explorer.NOT_BEGUN_AUDITED_EVERY", ENDED_EARLY_AUDITED_EVERY)
    closure = explore(NotBegun(hidden=hidden), depth_most=1)
    assert (1, hidden != "state") == (closure.merges_audited, closure.complete)
    assert [("second", "lost")] * (hidden == "finding") == closure.findings
    assert ENDED_EARLY_AUDITED_EVERY + 1 + closure.states == closure.runs, "what was not run is not counted"


@pytest.mark.parametrize("hidden", ["", "state", "finding"])
def test_a_closure_in_which_a_spared_run_shows_something_new_is_not_complete(hidden: str) -> None:
    closure = explore(Deceived(hidden=hidden), depth_most=1)
    assert closure.merges_audited >= 1
    assert closure.complete is (not hidden)
    assert ("behaved differently" in closure.why) is bool(hidden)
    assert closure.crashes > closure.runs, "those that were spared count"
