"""Canaries that lie where users keep their code: installed, beside the user, with state elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.loop import ShouldStop
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.canaries import code_of_users as users
from sinkproof.canaries.catalogue import CANARIES_OF_TESTS, CONTROLS_OF_TESTS, Canary
from sinkproof.canaries.conviction import laid_out, try_canary, try_control
from sinkproof.canaries.search import campaign_in
from sinkproof.certifier.certify import WITHOUT_SPARK
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.source_files import own_code

from .test_canaries import CONTROL_SCHEDULES, SECONDS_MOST, in_schedules
from .test_canaries import pytestmark as pytestmark  # attempts that died in this process never close their files


@pytest.mark.slow
@pytest.mark.parametrize("shell", WITHOUT_SPARK)
@pytest.mark.parametrize(("name", "contract"), CONTROLS_OF_TESTS, ids=[name for name, _ in CONTROLS_OF_TESTS])
def test_a_control_in_code_of_users_is_acquitted(name: str, contract: type, shell: str) -> None:
    result = try_control(name, contract, shell, seconds=SECONDS_MOST, run_as=in_schedules(CONTROL_SCHEDULES[shell]))
    assert not result.convicted, result.why


@pytest.mark.longer  # test_unusual_situations.py has others that are found there
@pytest.mark.parametrize("canary", CANARIES_OF_TESTS, ids=lambda canary: canary.name)
def test_what_only_an_unusual_situation_shows_is_searched_and_convicted(canary: Canary) -> None:
    result = try_canary(canary, "process", run_as=campaign_in(search_unusual_situations))
    assert result.convicted, result.why


@pytest.mark.longer  # a run of 120,000 rows for each line and kind of fault
@pytest.mark.slow
def test_a_control_is_acquitted_in_unusual_situations() -> None:
    run_as = campaign_in(search_unusual_situations)
    result = try_control("spills", users.SpillingControl, "process", seconds=SECONDS_MOST, run_as=run_as)
    assert not result.convicted, result.why


def search_unusual_situations(results: CampaignResults, scratch: Scratch, should_stop: ShouldStop) -> None:
    plan = [stage for stage in PROCESS_PLAN if stage.explore is ProcessCampaign.search_unusual_situations]
    with process_runner(results.contract, scratch) as runner:
        campaign = ProcessCampaign(runner, results, should_stop=should_stop)
        campaign.carry_out(plan)
    assert campaign.unexecuted == [] or should_stop(results)


@pytest.mark.parametrize("contract", [users.TwoLogsControl, users.ElsewhereControl])
def test_code_of_users_is_loaded_from_where_theirs_lies(contract: Any, tmp_path: Path) -> None:
    loaded = laid_out(contract, tmp_path)
    assert not loaded.is_ours
    (file,) = own_code(loaded.given, loaded.given.sink(Scratch(name="x", path=tmp_path / "x"))).files
    assert tmp_path / contract.laid_out_in / "code_of_users.py" == Path(file)
