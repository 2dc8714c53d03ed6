"""A plan runs as its table says: in order, each schedule once, and with a reason where a stage is skipped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sinkproof.campaign import loop
from sinkproof.campaign.campaign_budget import run_campaign
from sinkproof.campaign.loop import CONDITIONS
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.simulated_plan import SIMULATED_PLAN
from sinkproof.campaign.spark_plan import SPARK_PLAN
from sinkproof.campaign.stage import Need, Stage, StageCoverage, nothing
from sinkproof.campaign.task import Task
from sinkproof.chaos.points import is_system_call
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.cli.certify_command import certify
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder

PLANS = {"simulated": SIMULATED_PLAN, "process": PROCESS_PLAN, "spark": SPARK_PLAN}
KILL, LATER_KILL, STOP = (parse(f"sink[0].notify_complete.before#{fault}") for fault in ("1=kill", "2=kill", "1=stop"))


@pytest.fixture
def campaign() -> Iterator[SimulatedCampaign]:
    folder, contract = fresh_folder(), load("memory/two-phase")
    with ScheduleRunner(contract, Scratch(name="plan", path=folder)) as runner:
        yield SimulatedCampaign(runner, CampaignResults(contract=contract, shell="simulated"))
    shutil.rmtree(folder)


def stage(name: str, *schedules: Schedule, **options: Any) -> Stage:
    return Stage(name=name, schedules=lambda campaign: schedules, **options)


def progress_of(campaign: SimulatedCampaign) -> Sequence[tuple[str, int, int, bool]]:
    return [(each.name, each.run, each.planned, each.finished) for each in campaign.results.coverage.stages]


def ask_once_run(campaign: SimulatedCampaign, schedule: Schedule) -> None:
    """From here on the campaign is asked to stop as soon as this schedule has run."""
    campaign.should_stop = lambda results: schedule in campaign.tried


# -- the loop --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run_seconds", "busy", "chosen"),
    [
        (0.01, 0.5, [0, 1, 2, 3, 4, 5, 6, 7]),
        (1.0, 0.5, [0, 3, 7]),
        (1.0, 2.0, [0, 1, 2, 4, 5, 7]),
        (9.0, 0.5, [0]),
    ],
)
def test_of_a_stage_with_a_limit_so_many_schedules_run_as_fit(
    run_seconds: float, busy: float, chosen: list[int], campaign: SimulatedCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "times_as_long", lambda: max(1.0, busy))
    monkeypatch.setattr(loop, "now", lambda: campaign.began + 10 * run_seconds)
    campaign.results.coverage.runs = 10
    schedules = [Schedule(seed=number) for number in range(8)]
    coverage = StageCoverage(name="limited")
    campaign._carry_out(Stage(name="limited", schedules=lambda campaign: schedules, seconds_most=3.0), coverage)
    assert [Schedule(seed=number) for number in chosen] == [each for each in schedules if each in campaign.tried]
    assert (coverage.run, coverage.finished) == (len(chosen), len(chosen) == len(schedules))
    assert coverage.cut == (
        "" if coverage.finished else f"a run takes {run_seconds:.1g} s: {len(chosen)} of 8 schedules"
    )


def test_a_stage_may_know_that_its_own_runs_take_longer(
    campaign: SimulatedCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "times_as_long", lambda: 1.0)
    campaign.stage = StageCoverage(name="limited")
    schedules = [Schedule(seed=number) for number in range(8)]
    assert [schedules[number] for number in (0, 3, 7)] == campaign._in_time(schedules, 3.0, each=1.0)
    assert "a run takes 1 s: 3 of 8 schedules" == campaign.stage.cut


@pytest.mark.parametrize(
    ("run_seconds", "shell", "run"),
    [
        (0.1, "process", [8, 8, 8]),
        (40.0, "process", [4, 8, 1]),  # 3/7 of 410 s; all; at 520 s one all the same
        (40.0, "simulated", [8, 8, 8]),
    ],
)
def test_slow_runs_share_the_time_until_the_last_required_stage(
    run_seconds: float, shell: str, run: list[int], campaign: SimulatedCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "times_as_long", lambda: 1.0)
    campaign.results.coverage.runs = 1
    monkeypatch.setattr(loop, "now", lambda: campaign.began + campaign.results.coverage.runs * run_seconds)
    campaign.results.shell, campaign.prepare, campaign.contract.is_ours = shell, lambda: True, False
    first, whole, explored = ([Schedule(seed=8 * stage + number) for number in range(8)] for stage in range(3))
    later = [stage(f"later {number}", required=number == 3) for number in range(4)]
    campaign.carry_out(
        (
            stage("first", *first),
            stage("whole", *whole, whole=True),
            Stage(name="explored", explore=lambda campaign: campaign.run_schedules(explored)),
            *later,
        )
    )
    assert run == [each.run for each in campaign.results.coverage.stages[:3]]


def test_each_schedule_of_a_plan_runs_once(campaign: SimulatedCampaign) -> None:
    campaign.carry_out((stage("first", KILL, STOP, KILL), stage("second", STOP, LATER_KILL)))
    assert [("first", 2, 2, True), ("second", 1, 1, True)] == progress_of(campaign)
    assert {KILL, STOP, LATER_KILL} <= campaign.tried


def test_a_schedule_runs_again_with_a_concurrent_reader(campaign: SimulatedCampaign) -> None:
    campaign.carry_out((stage("first", KILL), stage("reader", KILL, concurrent_reader=True)))
    assert [("first", 1, 1, True), ("reader", 1, 1, True)] == progress_of(campaign)


def test_runs_outside_a_list_of_schedules_are_counted(campaign: SimulatedCampaign) -> None:
    """A generator runs one schedule to find the places for others."""

    def places(campaign: Any) -> Iterator[Schedule]:
        assert campaign.run(KILL).fired
        yield STOP

    campaign.carry_out((Stage(name="search", schedules=places),))
    assert [("search", 2, 2, True)] == progress_of(campaign)


def test_a_stage_with_an_unmet_condition_is_skipped_and_says_why(campaign: SimulatedCampaign) -> None:
    campaign.carry_out((stage("broken service", KILL, needs=(Need.COPIES, Need.SERVICE)), stage("next", STOP)))
    assert [("broken service", 0, 0, False), ("next", 1, 1, True)] == progress_of(campaign)
    assert [Need.SERVICE.value, ""] == [each.skipped for each in campaign.results.coverage.stages]
    assert KILL not in campaign.tried


def test_a_stopped_campaign_shows_how_far_each_stage_came(campaign: SimulatedCampaign) -> None:
    ask_once_run(campaign, KILL)
    campaign.carry_out((stage("first", KILL, STOP), stage("second", LATER_KILL)))
    assert [("first", 1, 2, False), ("second", 0, 0, False)] == progress_of(campaign)


@pytest.mark.parametrize(("ended_by", "done"), [(STOP, False), (LATER_KILL, True)])
def test_required_stages_are_done_when_the_last_of_them_is(
    campaign: SimulatedCampaign, ended_by: Schedule, done: bool
) -> None:
    ask_once_run(campaign, ended_by)
    campaign.carry_out(
        (stage("first", KILL), stage("last", KILL, STOP, required=True), stage("spare", LATER_KILL, STOP))
    )
    assert done is campaign.results.steering.required_stages_done


# -- the three plans -------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", PLANS)
def test_each_stage_of_a_plan_has_a_name_of_its_own_and_something_to_run(shell: str) -> None:
    names = [each.name for each in PLANS[shell]]
    assert len(set(names)) == len(names)
    assert [] == [each.name for each in PLANS[shell] if (each.explore is None) == (each.schedules is nothing)]


def test_every_condition_can_be_checked_and_has_a_sentence_of_its_own() -> None:
    assert set(Need) == set(CONDITIONS)
    assert len(Need) == len({need.value for need in Need})


@pytest.mark.parametrize("shell", PLANS)
def test_the_command_prints_a_plan_in_its_order_and_runs_nothing(shell: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    printed = CliRunner().invoke(certify, ["--plan", "--on", shell, "memory/two-phase"])
    assert 0 == printed.exit_code
    heading, *lines = printed.output.splitlines()
    assert f"{shell}: {len(PLANS[shell])} stages" == heading
    assert len(PLANS[shell]) == len(lines)
    for each, line in zip(PLANS[shell], lines, strict=True):
        assert line.strip().startswith(each.name)
        assert all(need.name.lower().replace("_", " ") in line for need in each.needs)
    assert [] == list(tmp_path.iterdir())


def test_a_certificate_holds_the_stages_of_the_plan() -> None:
    folder = fresh_folder()
    task = Task(locator="memory/two-phase", shell="simulated", budget_seconds=0)
    outcome = run_campaign(
        load("memory/two-phase"), task, folder=folder, progress=SILENT, should_stop=lambda results: True
    )
    assert [each.name for each in SIMULATED_PLAN] == [each.name for each in outcome.result.stages]
    assert not outcome.result.stages[-1].finished
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(
    "begins",
    [
        "kill and zombie at lines of restored",
        "what does harm only",
        "crashes within rescaled",
        "zombies that die",
        "deaths of attempts alone",
    ],
)
def test_stages_with_a_limit_of_time_come_before_a_required_one_and_so_run_whatever_the_budget(begins: str) -> None:
    (number,) = (number for number, stage in enumerate(PROCESS_PLAN) if stage.name.startswith(begins))
    assert PROCESS_PLAN[number].seconds_most < 60
    assert any(stage.required for stage in PROCESS_PLAN[number:])


@pytest.mark.parametrize(
    "begins",
    ["refused statements", "kill, pause and zombie between", "zombies for which", "outward calls that no line"],
)
def test_no_sink_of_a_user_is_upheld_before_these_stages(begins: str) -> None:
    (stage,) = (stage for stage in PROCESS_PLAN if stage.name.startswith(begins))
    assert stage.required


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
def test_deaths_come_between_the_calls_of_a_recovery_with_several_checkpoints_to_commit() -> None:
    contract, folder = load(f"{Path(__file__).parents[2] / 'support/disturbed_commits.py'}:SharedLog"), fresh_folder()
    with process_runner(contract, Scratch(name="plans", path=folder, shell="process")) as runner:
        campaign = ProcessCampaign(runner, CampaignResults(contract=contract, shell="process"))
        campaign.carry_out([stage for stage in PROCESS_PLAN if stage.name.startswith("kill, pause and zombie between")])
    shutil.rmtree(folder)
    deaths = [each.faults[-1] for each in campaign.tried if each.faults and each.faults[0].kind == "lose"]
    assert deaths
    assert {"kill"} == {fault.kind for fault in deaths}
    assert all(is_system_call(fault.point) for fault in deaths)


def test_a_stage_that_finds_thousands_of_calls_comes_when_a_verdict_needs_no_more() -> None:
    last = [stage.required for stage in reversed(PROCESS_PLAN)].index(True)
    assert "kill before each outward call of native code in recoveries" in {each.name for each in PROCESS_PLAN[-last:]}


def test_what_one_run_each_shows_comes_before_deaths_at_each_step() -> None:
    names = [stage.name for stage in PROCESS_PLAN]
    assert names.index("unusual rows and batches, without faults") < names.index("kill at each step")
