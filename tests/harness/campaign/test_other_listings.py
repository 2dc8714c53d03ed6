"""What takes a folder's newest entry for the first one is wrong on most file systems, and right in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.processes.seen_machine import list_by_hash
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.feasible import impossible
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

MANIFESTS = Path(__file__).parents[2] / "support/numbered_manifests.py"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "found"), [("FoundFirst", {"O1"}), ("FoundByNumber", set())])
def test_a_sink_that_takes_the_first_entry_for_the_newest_is_convicted(
    name: str, found: set[str], tmp_path: Path
) -> None:
    contract = load(f"{MANIFESTS}:{name}")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="listed", path=tmp_path, shell="process")) as runner:
        campaign = ProcessCampaign(runner, results)
        campaign.carry_out([stage for stage in PROCESS_PLAN if stage.name == "folders listed in another order"])
    assert found == {finding.oracle for finding in results.findings}
    assert {"other-listings"} >= {parse(finding.schedule).job.split("+")[-1] for finding in results.findings}
    assert results.coverage.stages[0].finished
    assert results.coverage.stages[0].run == 5


def test_a_folder_is_listed_whole_in_an_order_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"part-{number}" for number in range(20)]
    for name in names:
        (tmp_path / name).write_text("")
    for function in ("listdir", "scandir"):
        monkeypatch.setattr(os, function, getattr(os, function))
    found = os.listdir(tmp_path)
    list_by_hash()
    listed = os.listdir(tmp_path)
    assert sorted(names) == sorted(listed)
    assert listed not in (found, names, sorted(names), names[::-1])
    assert [os.fsencode(name) for name in listed] == os.listdir(os.fsencode(tmp_path))
    with os.scandir(tmp_path) as entries:
        assert listed == [entry.name for entry in entries]
        assert [] == list(entries)
    assert listed == [path.name for path in tmp_path.glob("part-*")] == next(os.walk(tmp_path))[2]


def test_other_shells_refuse_the_job() -> None:
    contract = load("files/two-phase")
    schedule = parse("job=other-listings no-fault")
    assert "" == impossible(schedule, contract, "process")
    assert "Replay it with --on process" in impossible(schedule, contract, "simulated")
