"""Faults after the moment at which a run equals an earlier one, but for names, are not tried again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from sinkproof.chaos.canonical_names import FINDABLE_IDS
from sinkproof.chaos.schedule import Fault
from sinkproof.exploration.closures import Closures
from sinkproof.exploration.fingerprints import fingerprint_but_for_names
from sinkproof.exploration.job_world import JobWorld
from sinkproof.subject.claims import Claim

from .exploring import Found, closing, explore


def mixed(bench: Any, may: Callable[[Fault], bool]) -> tuple[Closures, Found]:
    closures = Closures(bench, close=closing, may=may, mixed_seconds=600)
    closures.with_partial_deaths()
    assert closures.mixed is not None
    return closures, closures.mixed


def late_or_in_recoveries(fault: Fault) -> bool:
    return fault.actor == "sink[0]" and fault.point in ("fence.after", "commit.before", "open.before", "reveal.before")


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["CarefulContract", pytest.param("memory/masked", marks=pytest.mark.longer)])
def test_skipped_faults_would_show_nothing_new(runner: Any, subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, sooner = mixed(runner(subject), late_or_in_recoveries)
    monkeypatch.setattr(JobWorld, "_is_known", lambda world, fault: False)
    _, later = mixed(runner(subject), late_or_in_recoveries)
    assert later.complete, later.why
    assert (sooner.states, sooner.complete, sooner.depth) == (later.states, True, later.depth)
    assert sooner.runs < later.runs * 0.8


@pytest.mark.slow
@pytest.mark.longer
@pytest.mark.parametrize("subject", ["memory/write-ahead", "memory/masked"])
def test_any_crashes_with_a_partial_death_or_zombie_between_two_of_them_are_explored_to_the_end(
    runner: Any, subject: str
) -> None:
    closures, found = mixed(runner(subject), lambda fault: True)
    (summary,) = closures.other_summaries()
    assert summary.complete, summary.why
    assert summary.depth >= 2
    assert found.merges_audited > 30
    assert not any(anomaly.oracle == "O1" for _, anomaly in found.findings)


@pytest.mark.slow
def test_ids_that_deaths_have_used_up_make_no_states_of_their_own(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A death wastes the checkpoints that were under way: ids go on behind them."""

    def dies_voting(fault: Fault) -> bool:
        return fault.actor == "sink[1]" and fault.point == "acknowledge.before" and fault.kind == "kill"

    _, by_distance = mixed(runner("memory/write-ahead"), dies_voting)
    monkeypatch.setattr("sinkproof.exploration.job_world.by_distance", lambda text, *, last: text)
    _, by_id = mixed(runner("memory/write-ahead"), dies_voting)
    assert by_distance.complete, by_distance.why
    assert by_distance.states < by_id.states / 2


# -- what is compared --------------------------------------------------------------------------------------


def test_a_name_generator_is_compared_only_after_a_name_was_drawn() -> None:
    one, other = Random(1), Random(2)
    seen = [fingerprint_but_for_names([each], {}, undrawn=each.getstate()) for each in (one, other)]
    assert seen[0] == seen[1]
    before = other.getstate()
    other.random()
    assert seen[0] != fingerprint_but_for_names([other], {}, undrawn=before)


@pytest.mark.slow
def test_every_fault_is_tried_on_a_sink_with_hidden_state(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = runner("CarefulContract")
    given = bench.contract.given.sink

    def hiding(scratch: Any) -> Any:
        sink = given(scratch)
        sink.lines = (line for line in ())
        return sink

    monkeypatch.setattr(bench.contract.given, "sink", hiding)
    closures = Closures(bench, close=closing, may=late_or_in_recoveries)
    world = closures.world(ids=FINDABLE_IDS, between=closures._between)
    found = explore(world, depth_most=2)
    assert found.runs > 50
    assert set() == world.openings


def test_an_anomaly_that_breaks_no_claim_is_not_run_again(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write-ahead on a log repeats rows, and says so."""
    bench = runner("memory/write-ahead")
    world = JobWorld(bench)
    (start,) = world.beginnings()
    state = replace(start, prelude=(Fault("sink[0]", "record.before", 1, "kill"),))
    run = world.run(state, None)
    assert (True, False) == (bool(run.findings), run.is_wrong)
    monkeypatch.setattr(bench.contract, "claims", bench.contract.claims | Claim.NO_DUPLICATES)  # others share it
    assert world.run(state, None).is_wrong
