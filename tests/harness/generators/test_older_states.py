"""A job goes on from an older checkpoint, or from none, and its checkpoints end at other rows than before."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.rare import older_states_in_other_batches
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SINK = """
import json
import sqlite3
from contextlib import closing

from sinkproof import Claim

class Rows:
    def __init__(self, path): self.path, self.rows, self.pending = path, [], {}
    def open(self, context):
        with closing(table(self.path)) as made, made:
            made.execute("CREATE TABLE IF NOT EXISTS orders (split, at, key, value, PRIMARY KEY (split, at))")
        for _, state in context.restored:
            for _, rows in json.loads(state):
                self.publish(rows)
    def write(self, batch): self.rows += [(row.split, row.offset, row.key, row.value) for row in batch]
    def snapshot(self, checkpoint):
        self.pending[checkpoint], self.rows = self.rows, []
        return json.dumps([*self.pending.items()]).encode()
    def notify_complete(self, checkpoint):
        for ready in [each for each in self.pending if each <= checkpoint]:
            self.publish(self.pending.pop(ready))
    def publish(self, rows):
        try:
            with closing(table(self.path)) as into, into:
                into.executemany("INSERT OR_WHAT INTO orders VALUES (?, ?, ?, ?)", rows)
        except sqlite3.IntegrityError:  # the part is there
            pass

def table(path): return sqlite3.connect(path)

class Of:
    claims = Claim.EXACTLY_ONCE
    def sink(self, scratch): return Rows(scratch.path / "orders.db")
    def committed(self, scratch):
        if not (scratch.path / "orders.db").stat().st_size: return []
        with closing(table(scratch.path / "orders.db")) as there:
            return there.execute("SELECT * FROM orders").fetchall()
"""


@pytest.mark.parametrize("shell", ["simulated", pytest.param("process", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("conflict", "found"), [("OR ABORT", {"O1"}), ("OR IGNORE", set())])
def test_a_part_that_is_there_in_part_is_committed_all_the_same(
    conflict: str, found: set[str], shell: str, tmp_path: Path
) -> None:
    file, scratch = tmp_path / "rows.py", Scratch(name="data", path=tmp_path / "scratch", shell=shell)
    file.write_text(SINK.replace("OR_WHAT", conflict))
    scratch.path.mkdir()
    contract = load(f"{file}:Of")
    with process_runner(contract, scratch) if shell == "process" else ScheduleRunner(contract, scratch) as runner:
        schedules = [*older_states_in_other_batches(runner.run(Schedule()))]
        results = [runner.run(schedule) for schedule in schedules]
    assert all(result.fired and result.restarts for result in results)
    assert found == {anomaly.oracle for result in results for anomaly in result.anomalies}
