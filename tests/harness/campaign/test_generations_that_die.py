"""All sinks of one generation die before they have fenced anything: the next one has two generations to fence."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.combinations import zombies_with_successors_that_die
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SINK = """
import json

from sinkproof import Claim, Fenced

class Staged:
    def __init__(self, folder): self.folder, self.rows = folder, []
    def open(self, context):
        self.me, self.generation = context.subtask, context.generation
        for generation in {REVOKED}:
            (self.folder / f"revoked-{{generation}}").touch()
        for file in self.folder.glob("staged-*"):
            _, checkpoint, _, generation = file.name.split("-")
            if int(checkpoint) > (context.checkpoint_id_restored or 0) and int(generation) < self.generation:
                file.unlink(missing_ok=True)
        self.show(context.checkpoint_id_restored or 0)
    def write(self, batch): self.rows += [(row.split, row.offset) for row in batch]
    def snapshot(self, checkpoint):
        self.check()
        (self.folder / f"staged-{{checkpoint}}-{{self.me}}-{{self.generation}}").write_text(json.dumps(self.rows))
        self.rows = []
        return b""
    def check(self):
        if (self.folder / f"revoked-{{self.generation}}").exists():
            raise Fenced
    def notify_complete(self, checkpoint):
        self.check()
        self.show(checkpoint)
    def show(self, checkpoint): (self.folder / f"shown-{{checkpoint}}").touch()

class Of:
    claims = Claim.EXACTLY_ONCE
    def sink(self, scratch): return Staged(scratch.path)
    def committed(self, scratch):
        shown = max((int(file.name.split("-")[1]) for file in scratch.path.glob("shown-*")), default=0)
        for file in scratch.path.glob("staged-*"):
            if int(file.name.split("-")[1]) <= shown:
                yield from json.loads(file.read_text())
"""
LAST_ALONE = "[self.generation - 1]"
ALL = "range(self.generation - 3, self.generation)"


@pytest.mark.slow
@pytest.mark.parametrize(("revoked", "found"), [(LAST_ALONE, {"O2"}), (ALL, set())])
def test_only_the_last_generation_is_fenced(revoked: str, found: set[str], tmp_path: Path) -> None:
    (tmp_path / "staging.py").write_text(SINK.format(REVOKED=revoked))
    (tmp_path / "scratch").mkdir()
    contract = load(f"{tmp_path / 'staging.py'}:Of")
    with process_runner(contract, Scratch(name="data", path=tmp_path / "scratch", shell="process")) as runner:
        campaign = ProcessCampaign(runner, CampaignResults(contract=contract, shell="process"))
        campaign.prepare()
        schedules = list(islice(zombies_with_successors_that_die(campaign), 9))
        results = [runner.run(schedule) for schedule in schedules]
    assert all(len(schedule.faults) == 1 + 2 for schedule in schedules)
    assert all(result.fired and result.finished for result in results)
    oracles = {anomaly.oracle for result in results for anomaly in result.anomalies}
    assert found == oracles - {"O3", "O9"}
    assert bool(found) == bool(oracles)
