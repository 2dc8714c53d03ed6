"""Beside an external system a run takes a second or more: a sink of a user still meets some of each rare situation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sinkproof.campaign.campaign_budget import lacks_required_stages
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Need
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.beside_service import ZOMBIES_MOST
from sinkproof.generators.high_yield import longer_generations, many_pending_checkpoints
from sinkproof.generators.interleavings import zombies_of_removed_subtasks
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

from ...support.zoo_campaigns import folder, locator_of

STAGE = "rare situations beside a service"
SCHEDULES_MOST = 120  # a minute or two beside Kafka
pytestmark = pytest.mark.slow


@contextmanager
def campaign_on(member: str) -> Iterator[ProcessCampaign]:
    """As if the sink wrote to Kafka. Where schedules differ, it is because a run would take a second."""
    contract = load(locator_of(member))
    with folder() as path, process_runner(contract, Scratch(name="beside", path=path, shell="process")) as runner:
        runner.scratch.services.used.add("kafka")
        results = CampaignResults(contract=contract, shell="process", services=runner.scratch.services)
        yield ProcessCampaign(runner, results)


@pytest.fixture(autouse=True)
def service_that_may_be_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessCampaign, "has_breakable_service", True)


@pytest.mark.parametrize(
    ("member", "shown"),
    [
        ("manifests:ComesBackUnfenced", "job=scale-in =stop"),
        pytest.param("names_and_days:BlanksAtTheEnds", "job=edge-case-values no-fault", marks=pytest.mark.longer),
        pytest.param("names_and_days:NumbersRunTogether", "job=twelve-of-both no-fault", marks=pytest.mark.longer),
        pytest.param("names_and_days:EmptyBatchTakesBack", "job=empty-batches no-fault", marks=pytest.mark.longer),
        pytest.param("waiting_rows:RestoredAsText", "ids=8 =kill-job", marks=pytest.mark.longer),
    ],
)
def test_its_stage_convicts_what_only_a_rare_situation_shows(member: str, shown: str) -> None:
    begins, ends = shown.split()

    def is_shown(results: CampaignResults) -> bool:
        return any(begins in each.schedule and each.schedule.endswith(ends) for each in results.findings)

    with campaign_on(member) as campaign:
        campaign.should_stop = is_shown
        campaign.carry_out([stage for stage in PROCESS_PLAN if stage.name == STAGE])
        assert is_shown(campaign.results)


@pytest.mark.longer
def test_its_stage_is_short_and_acquits_a_right_one() -> None:
    with campaign_on("manifests:Manifest") as campaign:
        campaign.carry_out([stage for stage in PROCESS_PLAN if stage.name == STAGE])
        assert [] == campaign.results.findings
        assert 40 < len(campaign.tried) < SCHEDULES_MOST
        removed = set(zombies_of_removed_subtasks(campaign))
        assert min(ZOMBIES_MOST, len(removed)) == len(removed & campaign.tried) > 0
        assert {*longer_generations(campaign), *many_pending_checkpoints(campaign)} <= campaign.tried


@pytest.mark.parametrize(("begun", "lacks"), [(False, True), (True, False)])
def test_no_sink_of_a_user_is_upheld_beside_a_service_before_that_stage(begun: bool, lacks: bool) -> None:
    """The stages after it are long, and are named where the budget has cut them."""
    number = [stage.name for stage in PROCESS_PLAN].index(STAGE)
    assert {Need.USES_SERVICE, Need.FOREIGN_CODE} == {*PROCESS_PLAN[number].needs}
    with campaign_on("manifests:Manifest") as campaign:
        results, later = campaign.results, PROCESS_PLAN[number + begun :]
        results.steering.required_stages_done = not any(map(campaign.is_required, later))
        assert lacks is lacks_required_stages(results)
        results.services.used.clear()
        assert any(map(campaign.is_required, later))


def test_nothing_of_it_runs_where_no_service_is_used() -> None:
    with campaign_on("manifests:Manifest") as campaign:
        campaign.results.services.used.clear()
        campaign.carry_out([stage for stage in PROCESS_PLAN if stage.name == STAGE])
        assert [Need.USES_SERVICE.value] == [stage.skipped for stage in campaign.results.coverage.stages]
