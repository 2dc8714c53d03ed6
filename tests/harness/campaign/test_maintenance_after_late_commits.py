"""A commit of several checkpoints at once, then maintenance, which forgets which of them are there, then a death."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.combinations import maintenance_after_late_commits
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SINK = """
import json
import os

from sinkproof import Claim

class Parts:
    def __init__(self, folder): self.folder, self.rows, self.pending = folder, [], {{}}
    def open(self, context):
        self.me = context.subtask
        for _, state in context.restored:
            for part, rows in json.loads(state): self.publish(part, rows)
    def write(self, batch): self.rows += [(row.split, row.offset) for row in batch]
    def snapshot(self, checkpoint):
        self.pending[f"{{checkpoint:03d}}-{{self.me}}"], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()
    def notify_complete(self, checkpoint):
        for part in sorted(part for part in self.pending if int(part[:3]) <= checkpoint):
            self.publish(part, self.pending.pop(part))
    def publish(self, part, rows):
        parts = load(self.folder)
        if part not in [name for name, _ in parts] + load(self.folder, "names"):
            store(self.folder, [*parts, (part, rows)])

def load(folder, file="parts"):
    return json.loads((folder / file).read_text()) if (folder / file).exists() else []

def store(folder, what, file="parts"):
    (folder / f"new-{{os.getpid()}}").write_text(json.dumps(what))
    os.replace(folder / f"new-{{os.getpid()}}", folder / file)

class Of:
    claims = Claim.EXACTLY_ONCE
    def sink(self, scratch): return Parts(scratch.path)
    def committed(self, scratch): return [tuple(row) for _, rows in load(scratch.path) for row in rows]
    def maintain(self, scratch):
        parts = load(scratch.path)
        if {FORGETS}:
            store(scratch.path, [*load(scratch.path, "names"), *(name for name, _ in parts[:-2])], "names")
        old = [row for _, rows in parts[:-2] for row in rows]
        store(scratch.path, [("merged", old), *parts[-2:]])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("keeps_names", "found"), [(False, {"O2"}), (True, set())])
def test_what_maintenance_forgets_is_committed_again(keeps_names: bool, found: set[str], tmp_path: Path) -> None:
    (tmp_path / "merging.py").write_text(SINK.format(FORGETS=keeps_names))
    (tmp_path / "scratch").mkdir()
    contract = load(f"{tmp_path / 'merging.py'}:Of")
    with process_runner(contract, Scratch(name="data", path=tmp_path / "scratch", shell="process")) as runner:
        campaign = ProcessCampaign(runner, CampaignResults(contract=contract, shell="process"))
        campaign.prepare()
        results = [runner.run(schedule) for schedule in maintenance_after_late_commits(campaign)]
    assert 8 == len(results)
    assert all(result.fired and result.finished for result in results)
    assert found == {anomaly.oracle for result in results for anomaly in result.anomalies}
