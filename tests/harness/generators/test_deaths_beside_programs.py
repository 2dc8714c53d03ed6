"""A program ends after the attempt that has started it, and takes the end of its input for the end of the rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.outward_calls_plan import NATIVE_CODE
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.points import is_system_call
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.fork_servers import fork_servers
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.deaths_beside_programs import deaths_beside_programs, deaths_of_programs
from sinkproof.generators.fault_sites import passes
from sinkproof.generators.feasible import impossible
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import ORPHANS_JOB

STAGES = [stage for stage in NATIVE_CODE if stage.name.startswith(("outward calls that no line", "refused statements"))]
SINKS = Path(__file__).parents[2] / "support/rows_by_programs.py"


def results_of(locator: str, folder: Path) -> CampaignResults:
    with process_runner(load(locator), Scratch(name="data", path=folder, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: results.breaks_a_claim)
        campaign.carry_out([Stage(name="beside programs", schedules=deaths_beside_programs)])
    return results


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("PartsAsFarAsTheyCame", {"O1"}),
        pytest.param("WhatEndsIsWhole", {"O1"}, marks=pytest.mark.longer),
        pytest.param("WhatIsThereIsWhole", {"O1"}, marks=pytest.mark.longer),
        pytest.param("WholeParts", set(), marks=pytest.mark.longer),
    ],
)
def test_what_a_program_has_read_by_then_is_no_part(name: str, found: set[str], tmp_path: Path) -> None:
    results = results_of(f"{SINKS}:{name}", tmp_path)
    assert found == {each.oracle for each in results.findings}
    assert all(each.schedule.startswith("job=orphans sink[") for each in results.findings)
    assert found or results.coverage.runs > 10


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.parametrize(
    ("name", "found"), [("KilledIsDone", {"O1"}), pytest.param("WholeParts", set(), marks=pytest.mark.longer)]
)
def test_a_program_is_killed_and_its_sink_lives(name: str, found: set[str], tmp_path: Path) -> None:
    contract = load(f"{SINKS}:{name}")
    with process_runner(contract, Scratch(name="data", path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=contract, shell="process")
        ProcessCampaign(runner, results).carry_out(STAGES)
        recorded = runner.run_watched(Schedule())
        first, last = (runner.run(deaths_of_programs(recorded)[at]) for at in (0, -1))
    assert {(each.oracle, "kill-program") for each in results.findings} == {(each, "kill-program") for each in found}
    assert all(each.schedule.endswith("=kill-program") for each in results.findings)
    assert ([], []) == (results.unknowns, results.coverage.unfired)
    for run in (first, last):
        assert run.fired
        assert (name == "WholeParts") is (run.restarts > 0)


@pytest.mark.usefixtures("watch_of_system_calls")
def test_what_is_no_program_dies_itself(tmp_path: Path) -> None:
    with process_runner(load("files/two-phase"), Scratch(name="data", path=tmp_path, shell="process")) as runner:
        recorded = runner.run_watched(Schedule())
        place = next(each for each in passes(recorded) if each[0] == "sink[0]" and is_system_call(each[1]))
        run = runner.run(Schedule((Fault(*place, "kill-program"),)))
    assert (True, 1, ()) == (run.fired, run.kills, run.anomalies)
    assert [] == deaths_of_programs(recorded)


def test_a_sink_without_programs_has_no_such_runs(tmp_path: Path) -> None:
    results = results_of("files/two-phase", tmp_path)
    assert 0 == results.coverage.stages[0].planned


def test_it_is_for_sinks_in_processes() -> None:
    assert impossible(Schedule(job=ORPHANS_JOB), load(f"{SINKS}:WholeParts"), "simulated")
    assert not impossible(Schedule(job=ORPHANS_JOB), load(f"{SINKS}:WholeParts"), "process")


def test_attempts_of_later_generations_have_the_same_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[ForkServer, float]] = []
    monkeypatch.setattr(ForkServer, "let_orphans_live", lambda server, seconds: told.append((server, seconds)))
    with fork_servers(preload=(), warm=()) as servers:
        servers.let_orphans_live(1.0)
        assert [(servers.first, 1.0), (servers.other(), 1.0)] == told
