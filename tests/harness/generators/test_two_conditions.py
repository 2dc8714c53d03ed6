"""Rows are lost or repeated only where two conditions meet: unusual values, much data, a date, a death, a restart with
another parallelism. A generator makes each meeting, and right siblings pass it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.schedule import STANDARD, Schedule, parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.combinations import (
    DECISIONS,
    combined,
    edge_cases_in_commits,
    equal_rows_in_commits,
    failing_targets_before_second_restarts,
    notifications_out_of_order_before_deaths,
    rescaled_restarts_of_other_jobs,
)
from sinkproof.generators.high_yield import moved_wall_clocks
from sinkproof.generators.interleavings import losses_after_deaths, two_pauses_within_commits, within
from sinkproof.generators.native_calls import losses_after_faults
from sinkproof.generators.single_faults import errors_in_reused_processes
from sinkproof.generators.zombies_and_deaths import successors_that_all_die, zombies_and_deaths
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import LARGE_BATCHES_JOB, THREE_TO_TWO_JOB

SUPPORT: Final = Path(__file__).parents[2] / "support"
SINKS: Final = SUPPORT / "two_conditions.py"
Generator = Callable[[Any], Iterator[Schedule]]


def of_job(job: str) -> Generator:
    return lambda campaign: (each for each in rescaled_restarts_of_other_jobs(campaign) if each.job.startswith(job))


def zombies(campaign: Any) -> Iterator[Schedule]:
    return (each for each in moved_wall_clocks(campaign) if each.faults and each.faults[0].kind == "stop")


def beside_a_third(campaign: Any) -> Iterator[Schedule]:
    return (each for each in two_pauses_within_commits(campaign) if each.job == THREE_TO_TWO_JOB)


def power_losses(campaign: Any) -> list[Schedule]:
    return losses_after_faults(campaign.run(Schedule(DECISIONS[:1])))


def results_of(name: str, generator: Generator, folder: Path, *, ends: bool, file: Path = SINKS) -> CampaignResults:
    """`ends`: with the first finding."""
    with process_runner(load(f"{file}:{name}"), Scratch(name=name, path=folder, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: ends and bool(results.findings))
        campaign.carry_out([Stage(name="two conditions", schedules=generator)])
    return results


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "generator", "oracle", "schedule"),
    [
        ("AppendsDeadLetters", edge_cases_in_commits, "O2", "job=edge-case-values sink[0].line("),
        ("HoldsTheLast", of_job("edge-case-values"), "O1", "job=edge-case-values+scale-in checkpoint.persist"),
        ("RemovesTooEarly", of_job("large-batches"), "O1", "job=large-batches+scale-in checkpoint.persist"),
        ("GoesBack", notifications_out_of_order_before_deaths, "O2", "checkpoint.notify#1=late "),
        ("ByDayOfCommit", zombies, "O2", "job=year-end sink[0].line("),
        ("RemovesItsLock", beside_a_third, "O1", "job=three-to-two sink[0].line("),
    ],
)
def test_the_meeting_convicts(name: str, generator: Generator, oracle: str, schedule: str, tmp_path: Path) -> None:
    results = results_of(name, generator, tmp_path, ends=True)
    assert oracle in {finding.oracle for finding in results.findings if finding.schedule.startswith(schedule)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "struck"),
    [
        ("ReadName", ".line(zombies_that_die.py:25)#1=stop sink[0].line(zombies_that_die.py:27)#2=kill"),
        pytest.param("HiddenName", "", marks=pytest.mark.longer),
        ("TwoSlots", ".line(zombies_that_die.py:50)#1=stop sink[0].open.after#2=kill"),
        pytest.param("Numbered", "", marks=pytest.mark.longer),
    ],
)
def test_zombies_die_and_have_two_successors(name: str, struck: str, tmp_path: Path) -> None:
    results = results_of(name, zombies_and_deaths, tmp_path, ends=bool(struck), file=SUPPORT / "zombies_that_die.py")
    assert results.coverage.runs > 8
    found = {each.oracle for each in results.findings if each.claimed and each.schedule == f"sink[0]{struck}"}
    assert ({"O2"} if struck else set()) == found
    assert struck or not [each for each in results.findings if each.claimed]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"), [("NewSession", {"O2"}), pytest.param("GreetsAgain", set(), marks=pytest.mark.longer)]
)
def test_the_first_request_of_a_zombie_fails(name: str, found: set[str], tmp_path: Path) -> None:
    """As its connection was reset while it was suspended: its client opens another one, which was not fenced."""

    def generator(campaign: Any) -> Iterator[Schedule]:
        schedules = zombies_and_deaths(campaign)
        return (each for each in schedules if [fault.kind for fault in each.faults] == ["stop", "error"])

    results = results_of(name, generator, tmp_path, ends=bool(found), file=SUPPORT / "fenced_sessions.py")
    assert results.coverage.runs > 8
    assert found == {finding.oracle for finding in results.findings if finding.claimed}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"), [("LooksFirst", {"O2"}), pytest.param("LooksFirstAndGreets", set(), marks=pytest.mark.longer)]
)
def test_servers_close_the_idle_connections_of_a_zombie(name: str, found: set[str], tmp_path: Path) -> None:
    """Its client looks for that before it sends, so that no request of it fails."""
    sinks = SUPPORT / "fenced_sessions.py"
    results = results_of(name, zombies_and_deaths, tmp_path, ends=bool(found), file=sinks)
    claimed = [finding for finding in results.findings if finding.claimed]
    assert found == {finding.oracle for finding in claimed}
    assert ["idle-closed"] * len(found) == [parse(finding.schedule).job for finding in claimed]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "found"), [("NamedByKeeper", {"O1", "O2"}), ("NamedOnce", set())])
def test_what_was_taken_over_and_not_committed_is_restored_once_more(
    name: str, found: set[str], tmp_path: Path
) -> None:
    results = results_of(
        name, failing_targets_before_second_restarts, tmp_path, ends=False, file=SUPPORT / "taken_over.py"
    )
    assert results.coverage.runs > 20
    assert found == {finding.oracle for finding in results.findings if finding.claimed}
    assert all("job=late-settling+scale-" in finding.schedule for finding in results.findings if finding.claimed)


def test_zombies_that_others_wait_for_are_left_out(tmp_path: Path) -> None:
    def generator(campaign: Any) -> Iterator[Schedule]:
        zombies = [Schedule((fault,)) for fault in within(campaign.traced_baseline, "notify_complete", "stop")]
        assert zombies
        others = [*successors_that_all_die(campaign)]
        return (each for each in zombies_and_deaths(campaign, waited_for=zombies) if each not in others)

    results = results_of("ReadName", generator, tmp_path, ends=False, file=SUPPORT / "zombies_that_die.py")
    assert (0, 0) == (results.coverage.stages[0].planned, results.coverage.stages[0].run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "generator", "runs_least"),
    [
        pytest.param("ReplacesDeadLetters", edge_cases_in_commits, 20, marks=pytest.mark.longer),
        ("HoldsAll", of_job("edge-case-values"), 6),
        pytest.param("LocksOneFile", beside_a_third, 8, marks=pytest.mark.longer),
        ("RemovesItsOwn", of_job("large-batches"), 6),
        ("NeverGoesBack", notifications_out_of_order_before_deaths, 10),
    ],
)
def test_the_right_sibling_passes(name: str, generator: Generator, runs_least: int, tmp_path: Path) -> None:
    results = results_of(name, generator, tmp_path, ends=False)
    assert [] == [str(finding.schedule) for finding in results.findings]
    assert results.coverage.runs >= runs_least


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.parametrize(("name", "is_wrong"), [("PartsForcedOnceOpen", True), ("ForcedParts", False)])
def test_power_is_lost_after_a_recovery_too(name: str, is_wrong: bool, tmp_path: Path) -> None:
    results = results_of(name, power_losses, tmp_path, ends=True, file=SUPPORT / "forced_parts.py")
    assert ({"O8"} if is_wrong else set()) == {finding.oracle for finding in results.findings}
    before = "checkpoint.persist.after#1=kill-job checkpoint.persist.after#2=lose-"
    assert all(finding.schedule.startswith(before) for finding in results.findings)
    assert results.coverage.runs >= (1 if is_wrong else 5)


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.parametrize(
    ("name", "is_wrong"),
    [
        ("PartsInFolderOfAnother", True),
        pytest.param("PartsInFolder", False, marks=pytest.mark.longer),
        pytest.param("SkippedParts", True, marks=pytest.mark.longer),
        pytest.param("PartsForcedAgain", False, marks=pytest.mark.longer),
    ],
)
def test_power_is_lost_after_the_maker_of_a_folder_or_file_has_died(name: str, is_wrong: bool, tmp_path: Path) -> None:
    def generator(campaign: Any) -> Iterator[Schedule]:
        return losses_after_deaths(campaign.traced_baseline, "lose-power")

    results = results_of(name, generator, tmp_path, ends=True, file=SUPPORT / "forced_parts.py")
    assert ({"O8"} if is_wrong else set()) == {finding.oracle for finding in results.findings}
    assert is_wrong or results.coverage.runs >= 10


@pytest.mark.slow
def test_the_stage_of_what_harms_only_together_has_these_meetings(tmp_path: Path) -> None:
    contract = load(f"{SINKS}:ReplacesDeadLetters")
    with process_runner(contract, Scratch(name="all", path=tmp_path, shell="process")) as runner:
        campaign = ProcessCampaign(runner, CampaignResults(contract=contract, shell="process"))
        campaign.carry_out([])  # the baseline
        of_stage = set(combined(campaign))
        for generator in (edge_cases_in_commits, equal_rows_in_commits, notifications_out_of_order_before_deaths):
            assert set() < set(generator(campaign)) <= of_stage


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
def test_the_stage_of_power_losses_has_those_after_a_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contract = load(f"{SUPPORT / 'forced_parts.py'}:ForcedParts")
    others: list[Schedule] = []
    monkeypatch.setattr(ProcessCampaign, "_strike_all", lambda campaign, struck: None)
    monkeypatch.setattr(ProcessCampaign, "run_schedules", lambda campaign, schedules: others.extend(schedules))
    with process_runner(contract, Scratch(name="power", path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=contract, shell="process")
        campaign = ProcessCampaign(runner, results)
        campaign.carry_out([])  # the baseline
        campaign.lose_power_without_help()
        planned = set(results.coverage.power.losses)
        assert set() < set(power_losses(campaign)) <= planned
        after_deaths = set(losses_after_deaths(campaign.traced_baseline, "lose-power"))
        assert set() < after_deaths <= set(others)
    assert {1, 3} <= {each.faults[0].occurrence for each in after_deaths}, "a line may make something the last time"
    assert {STANDARD, LARGE_BATCHES_JOB} <= {each.job for each in planned}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "found"), [("ReturnedAsTheyAre", {"O2"}), ("RolledBack", set())])
def test_a_transaction_that_a_client_has_left_open_is_there_for_the_next_attempt(
    name: str, found: set[str], tmp_path: Path
) -> None:
    def refused(campaign: Any) -> Iterator[Schedule]:
        return (each for each in errors_in_reused_processes(campaign) if not each.faults)

    results = results_of(name, refused, tmp_path, ends=False, file=SUPPORT / "pooled_connections.py")
    assert [1] == [stage.run for stage in results.coverage.stages]
    assert found == {finding.oracle for finding in results.findings if finding.claimed}
