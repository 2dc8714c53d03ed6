"""A commit dies where some of its rows equal rows of an earlier one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.generators.combinations import equal_rows_in_commits

from ...support.written_sinks import results_of_written

SINK = """
import json

from sinkproof import Claim

class Events:
    def __init__(self, folder): self.folder, self.rows, self.pending = folder, [], {}
    def open(self, context):
        self.me = context.subtask
        for owner, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish(owner, checkpoint, rows)
    def write(self, batch):
        self.rows += [[row.split, row.offset, row.key, row.value] for row in batch]
    def snapshot(self, checkpoint):
        self.pending[checkpoint], self.rows = self.rows, []
        return json.dumps([*self.pending.items()]).encode()
    def notify_complete(self, checkpoint):
        for ready in [each for each in self.pending if each <= checkpoint]:
            self.publish(self.me, ready, self.pending.pop(ready))
    def publish(self, owner, checkpoint, rows):
        begun, done = (self.folder / f"{owner}-{checkpoint}.{status}" for status in ("begun", "done"))
        if done.exists():
            return
        if begun.exists():
            there = [row[SINCE:] for row in read(self.folder)]
            rows = [row for row in rows if row[SINCE:] not in there]
        begun.touch()
        for row in rows:
            with open(self.folder / f"{owner}.events", "a") as events:
                events.write(json.dumps(row) + chr(10))
        done.touch()

def read(folder):
    return [json.loads(line) for file in folder.glob("*.events") for line in file.read_text().splitlines()]

class Of:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    def sink(self, scratch): return Events(scratch.path)
    def committed(self, scratch): return read(scratch.path)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("since", "found"), [("2", {"O1"}), ("0", set())], ids=["by contents", "by position"])
def test_what_was_begun_is_resumed_without_rows_that_only_look_alike(
    since: str, found: set[str], tmp_path: Path
) -> None:
    results = results_of_written(SINK.replace("SINCE", since), equal_rows_in_commits, tmp_path)
    assert found == {finding.oracle for finding in results.findings if finding.claimed}
    assert results.coverage.runs > 5
