"""A zombie commits between what its successor reads and the moment at which it is fenced."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SINKS: Final = Path(__file__).parents[2] / "support" / "epochs_in_table.py"
SCHEDULES_MOST: Final = 24  # then come lines at which the successor holds the lock that the zombie waits for
STAGE: Final = "zombies that go on while their successor opens"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "oracles"), [("ReadsFirst", {"O2"}), ("FencesFirst", set())])
def test_what_is_read_before_the_fence_may_change_until_then(name: str, oracles: set[str], tmp_path: Path) -> None:
    (stage,) = (stage for stage in PROCESS_PLAN if stage.name == STAGE)
    assert stage.schedules is not None
    find = stage.schedules
    first = replace(stage, schedules=lambda campaign: islice(find(campaign), SCHEDULES_MOST))
    with process_runner(load(f"{SINKS}:{name}"), Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results, should_stop=lambda results: False).carry_out([first])
    assert oracles == {finding.oracle for finding in results.findings if finding.claimed}
    assert results.coverage.runs > SCHEDULES_MOST
