"""A zombie and its successor share a temporary file, and go on side by side after the successor has opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.zombies_beside_openings import zombies_beside_openings
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import ZOMBIE_LATE_JOB

SINK = """
import json
import os

from sinkproof import Claim

class Staged:
    def __init__(self, folder): self.folder, self.rows, self.pending = folder, [], {}
    def open(self, context):
        self.me, self.generation = context.subtask, context.generation
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish(f"part-{subtask}-{checkpoint}", rows)
    def write(self, batch): self.rows += [(row.split, row.offset, row.key, row.value) for row in batch]
    def snapshot(self, checkpoint):
        self.pending[checkpoint], self.rows = self.rows, []
        return json.dumps([*self.pending.items()]).encode()
    def notify_complete(self, checkpoint):
        for ready in [each for each in self.pending if each <= checkpoint]:
            self.publish(f"part-{self.me}-{ready}", self.pending.pop(ready))
    def publish(self, name, rows):
        temporary = self.folder / NAME_OF_TEMPORARY
        temporary.write_text(json.dumps(rows))
        os.replace(temporary, self.folder / name)

class Of:
    claims = Claim.EXACTLY_ONCE
    def sink(self, scratch): return Staged(scratch.path)
    def committed(self, scratch):
        for part in scratch.path.glob("part-*"):
            yield from json.loads(part.read_text())
"""
SHARED, OWN = 'f"{self.me}.new"', 'f"{self.me}-{self.generation}.new"'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("temporary", "found"), [(SHARED, {"O1", "O2"}), pytest.param(OWN, set(), marks=pytest.mark.longer)]
)
def test_a_shared_temporary_file_has_the_rows_of_a_later_part(temporary: str, found: set[str], tmp_path: Path) -> None:
    file, scratch = tmp_path / "staged.py", Scratch(name="data", path=tmp_path / "scratch", shell="process")
    file.write_text(SINK.replace("NAME_OF_TEMPORARY", temporary))
    scratch.path.mkdir()
    with process_runner(load(f"{file}:Of"), scratch) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results).carry_out([Stage(name="side by side", schedules=zombies_beside_openings)])
    assert found == {finding.oracle for finding in results.findings} - {"O9"}
    assert {f"job={ZOMBIE_LATE_JOB}"} >= {finding.schedule.split()[0] for finding in results.findings}
    assert results.coverage.runs > 30
