"""A sink that remembers its last commits only: a zombie from before finds none of them, and repeats its rows."""

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

pytestmark = pytest.mark.slow
STAGE: Final = "unusual situations, while statements never ran"
SINK: Final = """\
import json, sqlite3
from sinkproof import Claim

KEPT = {kept}


class Sink:
    def __init__(self, folder):
        self.database, self.rows, self.pending = folder / "target.db", [], {{}}

    def open(self, context):
        self.subtask = context.subtask
        self.db = sqlite3.connect(self.database, isolation_level=None)
        self.db.execute("CREATE TABLE IF NOT EXISTS target (split, number)")
        self.db.execute("CREATE TABLE IF NOT EXISTS known (id TEXT PRIMARY KEY, subtask, checkpoint)")
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish(subtask, checkpoint, rows)

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id):
        for older in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(self.subtask, older, self.pending.pop(older))

    def publish(self, subtask, checkpoint, rows):
        self.db.execute("BEGIN IMMEDIATE")
        {publish}
        self.db.execute("COMMIT")


class Of:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        with sqlite3.connect(scratch.path / "target.db") as db:
            known = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'target'").fetchone()
            return db.execute("SELECT split, number FROM target").fetchall() if known else []
"""
BY_CHECKPOINT: Final = """\
own = self.db.execute("SELECT checkpoint FROM known WHERE subtask = ?", (subtask,)).fetchall()
        if {is_new}:
            self.db.executemany("INSERT INTO target VALUES (?, ?)", rows)
            self.db.execute("INSERT INTO known VALUES (?, ?, ?)", (f"{{subtask}}-{{checkpoint}}", subtask, checkpoint))
            self.db.execute("DELETE FROM known WHERE subtask = ? AND checkpoint <= ?", (subtask, checkpoint - KEPT))"""
BY_ROW: Final = """\
for split, number in rows:
            if self.db.execute("INSERT OR IGNORE INTO known VALUES (?, ?, 0)", (f"{split}-{number}", subtask)).rowcount:
                self.db.execute("INSERT INTO target VALUES (?, ?)", (split, number))
        self.db.execute("DELETE FROM known WHERE rowid <= (SELECT max(rowid) FROM known) - ?", (KEPT,))"""
AS_REMEMBERED: Final = BY_CHECKPOINT.format(is_new="(checkpoint,) not in own")
NEWER_THAN_ALL: Final = BY_CHECKPOINT.format(is_new="not own or (checkpoint,) > max(own)")


def explored(folder: Path, publish: str, *, kept: int) -> CampaignResults:
    """The results of this stage alone."""
    file = folder / f"remembers_{folder.name}.py"
    file.write_text(SINK.format(publish=publish, kept=kept))
    contract = load(f"{file}:Of")
    (folder / "scratch").mkdir()
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="data", path=folder / "scratch", shell="process")) as runner:
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings))
        campaign.carry_out([stage for stage in PROCESS_PLAN if stage.name == STAGE])
    return results


@pytest.mark.parametrize(
    ("publish", "kept", "job"),
    [
        pytest.param(AS_REMEMBERED, 40, "zombie-after-hundreds", id="40 checkpoints"),
        pytest.param(AS_REMEMBERED, 500, "zombie-after-hundreds", id="500 checkpoints"),
        pytest.param(BY_ROW, 600, "many-chunks", id="600 rows"),
        pytest.param(BY_ROW, 50_000, "far-larger-data", id="50,000 rows"),
    ],
)
def test_a_zombie_from_before_all_that_is_remembered_repeats_its_rows(
    publish: str, kept: int, job: str, tmp_path: Path
) -> None:
    results = explored(tmp_path, publish, kept=kept)
    assert {"O2"} <= {finding.oracle for finding in results.findings}
    zombie = f"job={job} sink[0].notify_complete.before#1=stop"
    assert {zombie} == {finding.schedule for finding in results.findings}


def test_a_sink_that_refuses_what_is_older_than_its_last_commit_is_acquitted(tmp_path: Path) -> None:
    results = explored(tmp_path, NEWER_THAN_ALL, kept=40)
    (stage,) = results.coverage.stages
    assert ([], []) == (results.findings, results.unknowns)
    assert (True, "") == (stage.finished, stage.cut)
