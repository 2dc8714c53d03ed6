"""A sink that has handled an error may have lost a lock by it: it is suspended then, and goes on as a zombie."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.fault_sites import passes
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SINKS = Path(__file__).parents[2] / "support" / "lost_locks.py"
STAGES = ("error at each call", "zombies after errors that the sink has handled")
SESSIONS = (
    "outward calls that no line explains",
    "zombies of which servers end the sessions that they do not use",
)
FAILING = "sink[0].syscall(write log-*)#1=error"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "found", "least"), [("GoesOnWithout", {"O2", "O9"}, 20), ("LocksAgain", set(), 4)])
def test_a_lock_that_was_lost_by_an_error_keeps_nothing_out(
    name: str, found: set[str], least: int, tmp_path: Path
) -> None:
    with process_runner(load(f"{SINKS}:{name}"), Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results)
        campaign.carry_out([stage for stage in PROCESS_PLAN if stage.name in STAGES])
    assert campaign.shown.handled
    assert results.coverage.stages[1].run > least
    assert found == {finding.oracle for finding in results.findings}
    kinds = [[fault.kind for fault in parse(finding.schedule).faults] for finding in results.findings]
    assert all(each == ["error", "stop"] for each in kinds)


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
def test_a_fault_follows_one_at_a_system_call_within_the_same_call(tmp_path: Path) -> None:
    contract = load(f"{SINKS}:GoesOnWithout")
    with process_runner(contract, Scratch(name="follows", path=tmp_path, shell="process")) as runner:
        failed = runner.run(parse(FAILING), trace_lines=True)
        places = [place for place in passes(failed) if place[0] == "sink[0]"]
        after = places[places.index(("sink[0]", "syscall(write log-*)", 1)) + 1 :]
        ended = next(at for at, place in enumerate(after) if place[1].endswith(".after"))
        actor, line, occurrence = next(place for place in after[:ended] if "lost_locks.py" in place[1])
        zombie = runner.run(parse(f"{FAILING} {actor}.{line}#{occurrence}=stop"))
        later = runner.run(parse(f"{FAILING} {actor}.snapshot.before#3=kill"))
        other = runner.run(parse(f"{FAILING} sink[1].notify_complete.before#1=kill"))
    assert (True, True, 0) == (failed.fired, failed.finished, failed.restarts)
    assert (True, True, 1) == (zombie.fired, zombie.finished, zombie.restarts)
    assert [(True, 1), (True, 1)] == [(each.fired, each.kills) for each in (later, other)]


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.parametrize(
    ("name", "found"), [("LooksThenAppends", {"O2"}), pytest.param("PutsIfAbsent", set(), marks=pytest.mark.longer)]
)
def test_a_session_that_holds_a_lock_ends_and_that_of_a_zombie_goes_on(
    name: str, found: set[str], tmp_path: Path
) -> None:
    contract = load(f"{SINKS.with_name('leased_sessions.py')}:{name}")
    with process_runner(contract, Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: bool(found & claimed_by(results)))
        campaign.carry_out([stage for stage in PROCESS_PLAN if stage.name in SESSIONS])
    assert found == claimed_by(results)
    assert results.coverage.stages[-1].run > 0
    assert all("job=unused-closed" in finding.schedule for finding in results.findings)


def claimed_by(results: CampaignResults) -> set[str]:
    return {finding.oracle for finding in results.findings if finding.claimed}


@pytest.mark.usefixtures("watch_of_system_calls")
def test_sessions_are_left_alone_where_there_are_none(tmp_path: Path) -> None:
    with process_runner(load(f"{SINKS}:LocksAgain"), Scratch(name="none", path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results).carry_out([stage for stage in PROCESS_PLAN if stage.name in SESSIONS])
    assert "it connects to no server" == results.coverage.stages[-1].skipped
