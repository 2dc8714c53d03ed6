"""Faults at lines of a commit that merges what many others have left convict a sink and acquit its right sibling."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators import longest_commits
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SUPPORT: Final = Path(__file__).parents[2] / "support"
KILLS: Final = "kill at each line of the longest of many commits"
PAUSES: Final = "pause at each line of the longest of many commits"


def explored(locator: str, folder: Path, *, stage: str = KILLS) -> CampaignResults:
    contract = load(f"{SUPPORT}/{locator}")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="data", path=folder, shell="process")) as runner:
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings))
        campaign.carry_out([each for each in PROCESS_PLAN if each.name == stage])
    return results


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"), [("OneLevel", {"O2"}), pytest.param("EachLevel", set(), marks=pytest.mark.longer)]
)
def test_what_is_wrong_in_a_second_merge(name: str, found: set[str], tmp_path: Path) -> None:
    results = explored(f"merged_files.py:{name}", tmp_path)
    assert found == {each.oracle for each in results.findings}
    assert all("job=many-checkpoints sink[" in each.schedule for each in results.findings)
    assert results.coverage.stages[0].run > 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"), [("RemovesAtOnce", {"O1"}), pytest.param("KeepsTheLast", set(), marks=pytest.mark.longer)]
)
def test_what_one_subtask_removes_before_another_one_has_read_it(
    name: str, found: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not found:
        monkeypatch.setattr(longest_commits, "IN_COMMIT_MOST", 12)
    results = explored(f"compacted_versions.py:{name}", tmp_path, stage=PAUSES)
    assert found == {each.oracle for each in results.findings}
    assert all(each.schedule.endswith("=pause") for each in results.findings)
    assert results.coverage.stages[0].run > 10


@pytest.mark.slow
def test_nothing_is_killed_where_no_commit_is_longer_than_usual(tmp_path: Path) -> None:
    results = explored("sinks_of_hosts.py:ByCheckpoint", tmp_path)
    assert ([], 1) == (results.findings, results.coverage.stages[0].run), "the run without faults alone"
