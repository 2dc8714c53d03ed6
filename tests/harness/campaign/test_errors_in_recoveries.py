"""Calls that the sink makes in recoveries fail, too: a sink that goes on as if they had not is convicted there."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

pytestmark = pytest.mark.slow
STAGES = ("one whole-job kill in each job", "errors at calls of recoveries")
SINK = """\
import contextlib, json, os
from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.staged = folder, [], {{}}

    def open(self, context):
        self.me = f"{{context.subtask}}-{{context.generation}}"
        for _, state in context.restored:
            for name in json.loads(state).values():
                {recover}
        for left in self.folder.glob(f"{{context.subtask}}-*.staged"):
            left.unlink()

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        name = self.staged[checkpoint_id] = f"{{self.me}}-{{checkpoint_id}}"
        (self.folder / f"{{name}}.staged").write_text(json.dumps(self.rows))
        self.rows = []
        return json.dumps(self.staged).encode()

    def notify_complete(self, checkpoint_id):
        for older in [each for each in self.staged if each <= checkpoint_id]:
            self.publish(self.staged[older])
            del self.staged[older]

    def publish(self, name):
        if (self.folder / f"{{name}}.staged").exists():
            os.rename(self.folder / f"{{name}}.staged", self.folder / f"{{name}}.json")


class Of:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())
"""
IGNORED = "with contextlib.suppress(OSError): self.publish(name)"


def explored(folder: Path, *, recover: str) -> CampaignResults:
    file = folder / f"sink_of_{folder.name}.py"
    file.write_text(SINK.format(recover=recover))
    contract = load(f"{file}:Of")
    (folder / "scratch").mkdir()
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="data", path=folder / "scratch", shell="process")) as runner:
        campaign = ProcessCampaign(runner, results)
        campaign.carry_out([stage for stage in PROCESS_PLAN if stage.name in STAGES])
    return results


def test_a_sink_that_ignores_an_error_in_a_recovery_only_is_convicted(tmp_path: Path) -> None:
    found = explored(tmp_path, recover=IGNORED).findings
    assert {"O1"} == {finding.oracle for finding in found}
    assert all("=kill-job" in finding.schedule and "file.rename" in finding.schedule for finding in found)


def test_a_call_that_only_recoveries_make_fails_before_its_effect_and_after_it(tmp_path: Path) -> None:
    results = explored(tmp_path, recover="self.publish(name)")
    assert [] == results.findings
    assert {("file.unlink", "error"), ("file.unlink", "unanswered")} <= results.coverage.calls_failed
