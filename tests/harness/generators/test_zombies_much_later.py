"""A zombie goes on when what is committed was forgotten: after as many checkpoints as a number in the code says."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import DOZENS_OF_CHECKPOINTS_JOB

SINKS: Final = Path(__file__).parents[2] / "support" / "forgotten_marks.py"
STAGES: Final = [stage for stage in PROCESS_PLAN if stage.name.startswith("zombies within commits that go on dozens")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "oracles"), [("LooksBefore", {"O2", "O9"}), ("LooksWithin", set())])
def test_what_a_sink_has_forgotten_it_puts_there_again(name: str, oracles: set[str], tmp_path: Path) -> None:
    with process_runner(load(f"{SINKS}:{name}"), Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results, should_stop=lambda results: results.breaks_a_claim).carry_out(STAGES)
    assert oracles == {finding.oracle for finding in results.findings if finding.claimed}
    (stage,) = results.coverage.stages
    assert stage.run > 0
    assert all(finding.schedule.startswith(f"job={DOZENS_OF_CHECKPOINTS_JOB} ") for finding in results.findings)


def test_a_sink_without_such_a_number_has_no_such_runs(tmp_path: Path) -> None:
    sinks = SINKS.with_name("tried_again.py")
    with process_runner(load(f"{sinks}:CountsOnly"), Scratch(name="data", path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results).carry_out(STAGES)
    assert [0] == [stage.planned for stage in results.coverage.stages]
