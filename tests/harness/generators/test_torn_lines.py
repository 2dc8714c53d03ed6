"""Half of a line is written, and the next one follows it, or another subtask's comes in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.outward_calls_plan import NATIVE_CODE
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SUPPORT = Path(__file__).parents[2] / "support"
UNNOTIFIED = ("checkpoint.notify#2=lose sink[0].", "checkpoint.notify#1=lose sink[1].")


def results_of(name: str, folder: Path, *, sinks: str = "shared_log.py") -> CampaignResults:
    contract = load(f"{SUPPORT / sinks}:{name}")
    results = CampaignResults(contract=contract, shell="process")
    stages = [
        stage for stage in NATIVE_CODE if stage.name.startswith(("outward calls that no line", "refused statements"))
    ]
    with process_runner(contract, Scratch(name="log", path=folder, shell="process")) as runner:
        ProcessCampaign(runner, results).carry_out(stages)
    return results


@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "is_found"), [("BegunAnywhere", True), ("BegunAnew", False)])
def test_a_line_after_a_torn_one_is_lost_where_no_other_subtask_writes(
    name: str, is_found: bool, tmp_path: Path
) -> None:
    results = results_of(name, tmp_path)
    torn = [finding.schedule for finding in results.findings if "=short-write" in finding.schedule]
    assert is_found is bool(torn)
    assert all(schedule.startswith(UNNOTIFIED) for schedule in torn if "=kill-job" not in schedule)
    assert all(stage.finished for stage in results.coverage.stages)


@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "found"), [("AppendedBehindAnything", {"O1"}), ("AppendedBehindLines", set())])
def test_a_death_in_the_middle_of_a_write_leaves_a_line_behind_which_another_is_lost(
    name: str, found: set[str], tmp_path: Path
) -> None:
    results = results_of(name, tmp_path)
    assert found == {finding.oracle for finding in results.findings if finding.claimed}
    assert not results.coverage.outward.unwatched


@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "is_found"), [("JoinedBytes", True), ("JoinedLines", False)])
def test_what_lies_behind_a_line_that_is_torn_later_is_in_no_state_any_more(
    name: str, is_found: bool, tmp_path: Path
) -> None:
    results = results_of(name, tmp_path, sinks="joined_logs.py")
    found = [finding.schedule for finding in results.findings if finding.claimed]
    assert is_found is bool(found)
    assert all("#3=short-write" in schedule for schedule in found)
