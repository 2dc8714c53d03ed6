"""Whether runs take long does not depend on what else the machine does."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign import simulated_campaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SLOW_SECONDS, SimulatedCampaign
from sinkproof.reference_engine.shells.process.process_status import seconds_without_core

from ...support.opened_runner import opened


@pytest.mark.parametrize(("without_core", "is_slow"), [(0.0, True), (SLOW_SECONDS, False)])
def test_waiting_for_a_core_makes_no_run_slow(
    without_core: float, is_slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, waited = iter((100.0, 101.0 + SLOW_SECONDS)), iter((7.0, 7.0 + without_core))
    monkeypatch.setattr(simulated_campaign, "now", lambda: next(clock))
    monkeypatch.setattr(simulated_campaign, "seconds_without_core", lambda: next(waited))
    with opened("memory/two-phase") as runner:
        campaign = SimulatedCampaign(runner, CampaignResults(contract=runner.contract, shell="simulated"))
        assert campaign.prepare()
        monkeypatch.setattr(campaign, "run_schedules", lambda schedules, **how: None)
        campaign.read_concurrently()
    assert is_slow is campaign.runs_are_slow


def test_the_kernel_says_how_long_a_thread_has_waited(tmp_path: Path) -> None:
    (tmp_path / "schedstat").write_text("5000000000 1500000000 77\n")
    assert 1.5 == seconds_without_core(of=tmp_path / "schedstat")
    assert 0.0 == seconds_without_core(of=tmp_path / "missing")
    assert seconds_without_core() >= 0.0
