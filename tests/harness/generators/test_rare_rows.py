"""As many rows as a page has room for, times before 1970, a day between two batches: each convicts, and right siblings
pass.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.high_yield import RACING_TIMERS, exact_sizes, threads_at_another_pace
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import FAR_TIMES_JOB, LONG_IDLE_JOB

SUBJECTS = Path(__file__).parents[2] / "support/rare_rows.py"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("EndsAtShortPage", {"job=made-exactly-37 no-fault": "O1"}),
        pytest.param("EndsAtEmptyPage", {}, marks=pytest.mark.longer),
        pytest.param("TimesInParts", {"job=far-times no-fault": "O12"}, marks=pytest.mark.longer),
        pytest.param("OpensAnew", {"job=long-idle no-fault": "O1"}, marks=pytest.mark.longer),
        pytest.param("GoesOn", {}, marks=pytest.mark.longer),
    ],
)
def test_rows_and_times_that_are_rare(name: str, found: dict[str, str], tmp_path: Path) -> None:
    scratch = Scratch(name=name, path=tmp_path, shell="process")
    with process_runner(load(f"{SUBJECTS}:{name}"), scratch) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        stage = Stage(
            name="rare",
            schedules=lambda campaign: [
                *exact_sizes(campaign),
                Schedule(job=FAR_TIMES_JOB),
                Schedule(job=LONG_IDLE_JOB),
            ],
        )
        ProcessCampaign(runner, results).carry_out([stage])
    claimed = {finding.schedule: finding.oracle for finding in results.findings if finding.claimed}
    assert found == claimed
    assert results.coverage.runs > 4


@pytest.mark.parametrize(("name", "is_wrong"), [("MovesMeanwhile", True), ("MovesOneByOne", False)])
def test_what_a_timer_begins_is_overtaken(name: str, is_wrong: bool, tmp_path: Path) -> None:
    scratch = Scratch(name=name, path=tmp_path, shell="process")
    with process_runner(load(f"{SUBJECTS}:{name}"), scratch) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        stage = Stage(name="threads", schedules=threads_at_another_pace, lines=True)
        ProcessCampaign(runner, results).carry_out([stage])
    jobs = {parse(finding.schedule).job for finding in results.findings if finding.claimed}
    assert (RACING_TIMERS in jobs) is is_wrong
    assert is_wrong or not jobs
