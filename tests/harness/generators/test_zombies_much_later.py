"""A zombie goes on when what is committed was forgotten: after as many checkpoints as a number in the code says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.interleavings import zombies_within_commits_much_later
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import DOZENS_OF_CHECKPOINTS_JOB

SINKS: Final = Path(__file__).parents[2] / "support" / "forgotten_marks.py"
EVERY: Final = 3  # of the schedules, for the right one
STAGES: Final = [
    stage for stage in PROCESS_PLAN if stage.name == "zombies within commits that go on many checkpoints later"
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "oracles"), [("LooksBefore", {"O2", "O9"}), pytest.param("LooksWithin", set(), marks=pytest.mark.longer)]
)
def test_what_a_sink_has_forgotten_it_puts_there_again(name: str, oracles: set[str], tmp_path: Path) -> None:
    (stage,) = STAGES
    some = replace(stage, schedules=lambda campaign: [*zombies_within_commits_much_later(campaign)][::EVERY])
    with process_runner(load(f"{SINKS}:{name}"), Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: results.breaks_a_claim)
        campaign.carry_out([stage if oracles else some])
    assert oracles == {finding.oracle for finding in results.findings if finding.claimed}
    assert results.coverage.stages[0].run > EVERY
    jobs = {parse(finding.schedule).job for finding in results.findings}
    assert jobs <= {DOZENS_OF_CHECKPOINTS_JOB}, "ten checkpoints are remembered"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sink", "jobs"),
    [
        ("forgotten_marks.py:LooksWithin", ["zombie-very-late", "dozens-of-checkpoints"]),
        ("tried_again.py:CountsOnly", ["zombie-very-late"]),
    ],
)
def test_how_much_later_depends_on_numbers_in_the_code(sink: str, jobs: list[str], tmp_path: Path) -> None:
    contract = load(f"{SINKS.parent}/{sink}")
    with process_runner(contract, Scratch(name="data", path=tmp_path, shell="process")) as runner:
        usual = runner.run(Schedule(), trace_lines=True)
        campaign: Any = SimpleNamespace(runner=runner, traced_baseline=usual)
        schedules = [*zombies_within_commits_much_later(campaign)]
    assert jobs == [*dict.fromkeys(schedule.job for schedule in schedules)]
    assert {"stop"} == {fault.kind for each in schedules for fault in each.faults}
