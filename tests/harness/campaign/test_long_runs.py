"""What grows in a long run: a sink that remembers its last commits only takes the rows of a zombie from before for
new; a number gets a digit more; more checkpoints are pending than there is room for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign import process_campaign
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.simulated_plan import SIMULATED_PLAN
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

pytestmark = pytest.mark.slow
MORE_DATA: Final = "unusual situations, while statements never ran"
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
IN_A_BYTE: Final = """\
from ctypes import c_uint8
        own = f"{subtask}-{c_uint8(checkpoint).value}"
        if self.db.execute("INSERT OR IGNORE INTO known VALUES (?, ?, ?)", (own, subtask, checkpoint)).rowcount:
            self.db.executemany("INSERT INTO target VALUES (?, ?)", rows)"""
AS_REMEMBERED: Final = BY_CHECKPOINT.format(is_new="(checkpoint,) not in own")
NEWER_THAN_ALL: Final = BY_CHECKPOINT.format(is_new="not own or (checkpoint,) > max(own)")

HANG_SECONDS: Final = 600.0  # of a call with 20,000 rows, on a busy machine


@pytest.fixture(autouse=True)
def _as_much_time_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may be busy."""
    monkeypatch.setattr(process_campaign, "FAR_LARGER_SECONDS_MOST", 600.0)
    monkeypatch.setattr(process_campaign, "FAR_LARGER_SECONDS", (600.0, 600.0))


def explored(folder: Path, publish: str, *, kept: int) -> CampaignResults:
    """The results of the stage with more data alone."""
    return explored_by(MORE_DATA, folder, SINK.format(publish=publish, kept=kept))


RECOVERS: Final = Stage(name="each statement runs", schedules=lambda _: [parse("checkpoint.persist.after#1=kill-job")])


def explored_by(stage: str, folder: Path, sink: str, *, before: Sequence[Stage] = ()) -> CampaignResults:
    file = folder / f"remembers_{folder.name}.py"
    file.write_text(sink)
    contract = load(f"{file}:Of")
    (folder / "scratch").mkdir()
    results = CampaignResults(contract=contract, shell="process")
    scratch = Scratch(name="data", path=folder / "scratch", shell="process")
    with process_runner(contract, scratch, hang_seconds=HANG_SECONDS) as runner:
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings))
        campaign.carry_out([*before, *(each for each in PROCESS_PLAN if each.name == stage)])
    return results


@pytest.mark.parametrize(
    ("publish", "kept", "job"),
    [
        pytest.param(AS_REMEMBERED, 40, "hundreds-of-checkpoints", id="40 checkpoints"),
        pytest.param(AS_REMEMBERED, 500, "hundreds-of-checkpoints", id="500 checkpoints", marks=pytest.mark.longer),
        pytest.param(BY_ROW, 600, "hundreds-of-checkpoints", id="600 rows", marks=pytest.mark.longer),
        pytest.param(BY_ROW, 50_000, "far-larger-data", id="50,000 rows", marks=pytest.mark.longer),
    ],
)
def test_a_zombie_from_before_all_that_is_remembered_repeats_its_rows(
    publish: str, kept: int, job: str, tmp_path: Path
) -> None:
    results = explored(tmp_path, publish, kept=kept)
    assert {"O2"} <= {finding.oracle for finding in results.findings}
    zombie = f"job={job} sink[0].notify_complete.before#1=stop"
    assert {zombie} == {finding.schedule for finding in results.findings}


@pytest.mark.longer
def test_a_sink_that_refuses_what_is_older_than_its_last_commit_is_acquitted(tmp_path: Path) -> None:
    results = explored(tmp_path, NEWER_THAN_ALL, kept=40)
    (stage,) = results.coverage.stages
    assert ([], []) == (results.findings, results.unknowns)
    assert (True, "") == (stage.finished, stage.cut)


def test_a_number_in_a_byte_comes_again_after_256_checkpoints(tmp_path: Path) -> None:
    results = explored_by(MORE_DATA, tmp_path, SINK.format(publish=IN_A_BYTE, kept=5), before=[RECOVERS])
    assert {"O1"} <= {finding.oracle for finding in results.findings}
    assert {"hundreds-of-checkpoints"} == {parse(finding.schedule).job for finding in results.findings}


ONE_STATEMENT: Final = """\
self.db.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, int("0x7ffe", 0))
        mark = f"{subtask}-{checkpoint}"
        if self.db.execute("INSERT OR IGNORE INTO known VALUES (?, ?, 0)", (mark, subtask)).rowcount and rows:
            {between}
            places = ", ".join("(?, ?)" for row in rows)
            self.db.execute(f"INSERT INTO target VALUES {places}", [each for row in rows for each in row])
"""
MARKED_FIRST: Final = 'self.db.execute("COMMIT"); self.db.execute("BEGIN IMMEDIATE")'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("between", "lost"), [(MARKED_FIRST, {"O1"}), pytest.param("pass", set(), marks=pytest.mark.longer)]
)
def test_more_rows_than_one_statement_takes_are_lost_or_refused(between: str, lost: set[str], tmp_path: Path) -> None:
    """SQLite takes 32,766 parameters, or as many as it was built for."""
    sink = SINK.format(publish=ONE_STATEMENT.replace("{between}", between), kept=5)
    results = explored_by(MORE_DATA, tmp_path, sink, before=[RECOVERS])
    schedule = "job=one-large-checkpoint no-fault"
    assert lost == {finding.oracle for finding in results.findings}
    assert lost <= {finding.oracle for finding in results.findings if finding.schedule == schedule}


FENCED: Final = """\
import json, os
from sinkproof import Claim, Fenced


class Sink:
    \"\"\"Rows wait in one of so many files, until a later generation, or a notification, publishes them.\"\"\"

    def __init__(self, folder):
        self.folder, self.rows, self.pending = folder, [], []

    def open(self, context):
        self.subtask, self.own = context.subtask, {own}
        self.fence = self.folder / f"fence-{{self.subtask}}"
        os.makedirs(self.folder / "out", exist_ok=True)
        self.check()
        self.replace(self.fence, self.own)
        for subtask, state in context.restored:
            for checkpoint in json.loads(state):
                self.publish(subtask, checkpoint)

    def check(self):
        if self.fence.exists() and json.loads(self.fence.read_text()) > self.own:
            raise Fenced("a newer generation is there")

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        self.check()
        self.replace(self.slot(self.subtask, checkpoint_id), [checkpoint_id, self.rows])
        self.rows = []
        self.pending.append(checkpoint_id)
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id):
        for checkpoint in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(self.subtask, checkpoint)
            self.pending.remove(checkpoint)

    def publish(self, subtask, checkpoint):
        at, rows = json.loads(self.slot(subtask, checkpoint).read_text())
        self.replace(self.folder / "out" / f"{{subtask}}-{{at}}.json", rows)

    def slot(self, subtask, checkpoint):
        return self.folder / f"slot-{{subtask}}-{{checkpoint % {slots}}}"

    def replace(self, path, content):
        temporary = path.with_name(f"{{path.name}}-{{self.own}}")
        temporary.write_text(json.dumps(content))
        os.replace(temporary, path)


class Of:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        for file in sorted((scratch.path / "out").glob("*.json")):
            yield from json.loads(file.read_text())
"""


COPIES: Final = """
    def freeze(self, scratch):
        return {each: each.read_bytes() for each in scratch.path.rglob("*") if each.is_file()}

    def thaw(self, scratch, copy):
        for each in scratch.path.rglob("*"):
            each.is_file() and each.unlink()
        for path, content in copy.items():
            path.write_bytes(content)
"""


@pytest.mark.parametrize(("own", "finds"), [("str(context.generation)", True), ("context.generation", False)])
def test_generations_are_compared_as_numbers_when_they_get_a_digit_more(own: str, finds: bool, tmp_path: Path) -> None:
    stage = "generations with one digit more"
    results = explored_by(stage, tmp_path, FENCED.format(own=own, slots=1000))
    assert finds is bool(results.findings)
    assert [] == results.unknowns
    assert all(299_998 == parse(finding.schedule).ids for finding in results.findings)
    assert finds or 7 == results.coverage.stages[0].run


@pytest.mark.parametrize(("own", "finds"), [("str(context.generation)", True), ("context.generation", False)])
def test_they_are_in_the_simulated_shell_too(own: str, finds: bool, tmp_path: Path) -> None:
    file = tmp_path / f"simulated_{tmp_path.name}.py"
    file.write_text(FENCED.format(own=own, slots=1000) + COPIES)
    contract = load(f"{file}:Of")
    (tmp_path / "scratch").mkdir()
    results = CampaignResults(contract=contract, shell="simulated")
    with ScheduleRunner(contract, Scratch(name="data", path=tmp_path / "scratch")) as runner:
        stages = [each for each in SIMULATED_PLAN if each.name == "generations with one digit more"]
        SimulatedCampaign(runner, results).carry_out(stages)
    assert finds is bool(results.findings)
    assert [7] == [stage.run for stage in results.coverage.stages]


@pytest.mark.parametrize(("slots", "finds"), [(8, True), (12, False)])
def test_twelve_checkpoints_are_pending_when_as_many_notifications_are_lost(
    slots: int, finds: bool, tmp_path: Path
) -> None:
    results = explored_by("twelve checkpoints pending", tmp_path, FENCED.format(own="context.generation", slots=slots))
    assert finds is bool(results.findings)
    assert [] == results.unknowns
    assert finds or 2 == results.coverage.stages[0].run
