"""A zombie commits between what its successor reads and the moment at which it is fenced; or both go on side by side
after that, and share a temporary file.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.interleavings import zombies_within_commits_much_later
from sinkproof.generators.zombies_beside_successors import zombies_beside_later_commits, zombies_beside_openings
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import (
    HUNDREDS_OF_CHECKPOINTS_JOB,
    SCALE_IN_AND_OUT_JOB,
    SCALE_IN_JOB,
    ZOMBIE_LATE_JOB,
)

from ...support.written_sinks import results_of_written

SINKS: Final = Path(__file__).parents[2] / "support" / "epochs_in_table.py"
SCHEDULES_MOST: Final = 48  # then come lines at which the successor holds the lock that the zombie waits for
STAGE: Final = "zombies that go on while their successor opens or commits"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "oracles"), [("ReadsFirst", {"O2"}), ("FencesFirst", set())])
def test_what_is_read_before_the_fence_may_change_until_then(name: str, oracles: set[str], tmp_path: Path) -> None:
    (stage,) = (stage for stage in PROCESS_PLAN if stage.name == STAGE)
    assert stage.schedules is not None
    find = stage.schedules
    first = replace(stage, schedules=lambda campaign: islice(find(campaign), SCHEDULES_MOST))
    with process_runner(load(f"{SINKS}:{name}"), Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings)).carry_out([first])
    assert oracles == {finding.oracle for finding in results.findings if finding.claimed}
    assert oracles or results.coverage.runs > SCHEDULES_MOST


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
    results = results_of_written(SINK.replace("NAME_OF_TEMPORARY", temporary), zombies_beside_later_commits, tmp_path)
    assert found == {finding.oracle for finding in results.findings} - {"O9"}
    assert {f"job={ZOMBIE_LATE_JOB}"} >= {finding.schedule.split()[0] for finding in results.findings}
    assert results.coverage.runs > 20


@pytest.mark.slow
@pytest.mark.parametrize(("kept", "zombies"), [(1000, 16), (1300, 0)])
def test_zombies_go_on_hundreds_of_checkpoints_later_where_as_many_notes_may_be_kept(
    kept: int, zombies: int, tmp_path: Path
) -> None:
    """Two subtasks leave one note each in each of six hundred checkpoints. The commit has more than sixteen places."""
    file, scratch = tmp_path / "keeping.py", Scratch(name="data", path=tmp_path / "scratch", shell="process")
    many_lines = "def publish(self, name, rows):\n" + "        self.last = name\n" * 20
    source = SINK.replace("NAME_OF_TEMPORARY", OWN).replace("def publish(self, name, rows):\n", many_lines)
    file.write_text(f"NOTES_KEPT = {kept}\n{source}")
    scratch.path.mkdir()
    with process_runner(load(f"{file}:Of"), scratch) as runner:
        campaign = ProcessCampaign(runner, CampaignResults(contract=runner.contract, shell="process"))
        campaign.prepare()
        jobs = [schedule.job for schedule in zombies_within_commits_much_later(campaign)]
    assert zombies == jobs.count(HUNDREDS_OF_CHECKPOINTS_JOB)


def test_errors_in_reused_processes_come_before_what_needs_more_than_one_fault() -> None:
    names = [stage.name for stage in PROCESS_PLAN]
    assert names.index("errors in reused processes") < names.index("repeated errors")


OUTBOX = """
import json
import sqlite3

from sinkproof import Claim

class Outbox:
    def __init__(self, folder):
        self.folder, self.rows, self.pending = folder, [], {}
    def open(self, context):
        self.context = context
        self.table = table(self.folder)
        self.fence(context.subtask)
        for owner, state in context.restored:
            if owner % context.parallelism == context.subtask:
                self.recover(owner, json.loads(state))
    def recover(self, owner, promised):
        FIRST
        THEN
        for checkpoint, rows in promised:
            if checkpoint not in done:
                self.commit(owner, checkpoint, rows)
    def done(self, owner):
        return [each for each, in self.table.execute("SELECT part FROM done WHERE owner = ?", (owner,))]
    def fence(self, owner):
        self.table.execute("REPLACE INTO epochs VALUES (?, ?)", (owner, self.context.generation))
    def write(self, batch):
        self.rows += [(row.split, row.offset, row.key, row.value) for row in batch]
    def snapshot(self, checkpoint):
        self.pending[checkpoint], self.rows = self.rows, []
        return json.dumps([*self.pending.items()]).encode()
    def notify_complete(self, checkpoint):
        for ready in [each for each in self.pending if each <= checkpoint]:
            self.commit(self.context.subtask, ready, self.pending.pop(ready))
    def commit(self, owner, checkpoint, rows):
        allowed = "SELECT max(generation) <= ? FROM epochs WHERE owner = ?"
        self.table.execute("BEGIN IMMEDIATE")
        if not self.table.execute(allowed, (self.context.generation, FENCE_OF)).fetchone()[0]:
            self.table.execute("ROLLBACK")
            raise RuntimeError("fenced")
        self.table.execute("INSERT INTO done VALUES (?, ?)", (owner, checkpoint))
        self.table.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", rows)
        self.table.execute("COMMIT")

def table(folder):
    made = sqlite3.connect(folder / "orders.db", isolation_level=None, check_same_thread=False)
    made.execute("CREATE TABLE IF NOT EXISTS orders (split, position, key, value)")
    made.execute("CREATE TABLE IF NOT EXISTS done (owner, part)")
    made.execute("CREATE TABLE IF NOT EXISTS epochs (owner PRIMARY KEY, generation)")
    return made

class Of:
    claims = Claim.EXACTLY_ONCE
    def sink(self, scratch): return Outbox(scratch.path)
    def committed(self, scratch): return table(scratch.path).execute("SELECT * FROM orders").fetchall()
"""
STEPS = ("done = self.done(owner)", "self.fence(owner)")


RIGHT: Final = (*STEPS[::-1], "owner")  # fence before reading, and the owner's fence, not the attempt's own


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outbox", "job"),
    [
        ((*STEPS, "owner"), SCALE_IN_JOB),
        ((*STEPS[::-1], "self.context.subtask"), SCALE_IN_AND_OUT_JOB),
        pytest.param(RIGHT, "", marks=pytest.mark.longer),
    ],
    ids=["reads first", "own fence", "right"],
)
def test_what_a_removed_subtask_has_done_may_change_until_it_is_fenced(
    outbox: tuple[str, str, str], job: str, tmp_path: Path
) -> None:
    """Each attempt fences its own subtask as soon as it opens, and then what it restores of others."""
    first, then, fence_of = outbox
    text = OUTBOX.replace("FIRST", first).replace("THEN", then).replace("FENCE_OF", fence_of)

    def is_found(results: CampaignResults) -> bool:
        return bool(job) and any(finding.schedule.startswith(f"job={job} ") for finding in results.findings)

    results = results_of_written(text, zombies_beside_openings, tmp_path, ends=is_found)
    found = [finding for finding in results.findings if finding.oracle != "O9"]
    assert {"O2"} >= {finding.oracle for finding in found}
    assert is_found(results) if job else not found
    assert job or results.coverage.runs > 20


LOG = """
import json
import sqlite3

from sinkproof import Claim

class Log:
    def __init__(self, folder): self.folder, self.rows, self.pending = folder, [], {}
    def open(self, context):
        self.me, self.epoch, self.table = context.subtask, context.generation, table(self.folder)
        for owner in {self.me, *(each for each in context.subtasks_restored if each % context.parallelism == self.me)}:
            self.table.execute("REPLACE INTO epochs VALUES (?, ?)", (owner, self.epoch))
            self.table.execute("UPDATE log SET state = 'aborted' WHERE owner = ? AND state = 'open'", (owner,))
        done = self.table.execute("SELECT mark FROM log WHERE state = 'committed' UNTIL").fetchall()
        for owner, state in context.restored:
            for checkpoint, rows in json.loads(state):
                if (f"{owner}-{checkpoint}",) not in done:
                    self.publish(owner, checkpoint, rows)
    def write(self, batch): self.rows += [(row.split, row.offset, row.key, row.value) for row in batch]
    def snapshot(self, checkpoint):
        self.pending[checkpoint], self.rows = self.rows, []
        return json.dumps([*self.pending.items()]).encode()
    def notify_complete(self, checkpoint):
        for ready in [each for each in self.pending if each <= checkpoint]:
            self.publish(self.me, ready, self.pending.pop(ready))
    def publish(self, owner, checkpoint, rows):
        entry = (self.me, f"{owner}-{checkpoint}", json.dumps(rows))
        begin = "INSERT INTO log SELECT NULL, ?, ?, ?, 'open' FROM epochs WHERE (owner, epoch) = (?, ?)"
        begun = self.table.execute(begin, (*entry, self.me, self.epoch))
        commit = "UPDATE log SET state = 'committed' WHERE at = ? AND state = 'open'"
        if not begun.rowcount or not self.table.execute(commit, (begun.lastrowid,)).rowcount:
            raise RuntimeError("fenced")

def table(folder):
    made = sqlite3.connect(folder / "log.db", isolation_level=None, check_same_thread=False)
    made.execute("CREATE TABLE IF NOT EXISTS log (at INTEGER PRIMARY KEY AUTOINCREMENT, owner, mark, rows, state)")
    made.execute("CREATE TABLE IF NOT EXISTS epochs (owner PRIMARY KEY, epoch)")
    return made

class Of:
    claims = Claim.EXACTLY_ONCE
    def sink(self, scratch): return Log(scratch.path)
    def committed(self, scratch):
        for rows, in table(scratch.path).execute("SELECT rows FROM log WHERE state = 'committed'"):
            yield from json.loads(rows)
"""
STABLE_ONLY: Final = "AND at < (SELECT coalesce(min(at), 1e9) FROM log WHERE state = 'open')"


@pytest.mark.slow
@pytest.mark.parametrize(("until", "found"), [(STABLE_ONLY, {"O2"}), pytest.param("", set(), marks=pytest.mark.longer)])
def test_what_a_zombie_has_begun_hides_what_another_subtask_has_committed(
    until: str, found: set[str], tmp_path: Path
) -> None:
    """Until its successor opens: the other subtask opens first."""
    text = LOG.replace("UNTIL", until)
    results = results_of_written(text, zombies_beside_openings, tmp_path, ends=lambda results: bool(results.findings))
    assert found == {finding.oracle for finding in results.findings} - {"O9"}
    assert {"orders=open"} >= {finding.schedule.split()[0] for finding in results.findings}
    assert found or results.coverage.runs > 20
