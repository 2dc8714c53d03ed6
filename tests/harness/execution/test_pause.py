"""A pause: two subtasks of a sink act at the same time, and neither attempt is replaced."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.fault_sites import places
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

HERE = Path(__file__).parents[2] / "support" / "shared_lists.py"


def paused_at_every_line(name: str, tmp_path: Path) -> list[RunResult]:
    contract, scratch = load(f"{HERE}:{name}"), Scratch(name=name, path=tmp_path, shell="simulated")
    with ScheduleRunner(contract, scratch) as runner:
        runner.find_own_files()
        baseline = runner.run(Schedule(), trace_lines=True)
        pauses = [Schedule((fault,)) for fault in places(baseline, "pause", lines=True)]
        return [runner.run(schedule, trace_lines=True) for schedule in pauses]


@pytest.mark.slow
def test_a_sink_that_reads_and_then_overwrites_loses_concurrent_writes(tmp_path: Path) -> None:
    wrong = [run_result for run_result in paused_at_every_line("Overwriting", tmp_path) if run_result.anomalies]
    assert wrong
    assert {"O1"} == {anomaly.oracle for run_result in wrong for anomaly in run_result.anomalies}


@pytest.mark.slow
def test_a_sink_that_reads_again_after_a_conflict_loses_nothing(tmp_path: Path) -> None:
    run_results = paused_at_every_line("Right", tmp_path)
    assert len(run_results) > 100
    assert [] == [
        (str(run_result.schedule), run_result.anomalies)
        for run_result in run_results
        if run_result.anomalies or not run_result.finished
    ]
    assert {1} == {
        sum(what == "generation" for _, _, _, what, _ in run_result.history) for run_result in run_results
    }  # no attempt died


@pytest.mark.parametrize("subject", ["memory/two-phase", "files/write-ahead-upsert"])
def test_messages_to_two_paused_subtasks_keep_their_order(subject: str, tmp_path: Path) -> None:
    with ScheduleRunner(load(subject), Scratch(name="pauses", path=tmp_path, shell="simulated")) as runner:
        pauses = [fault for fault in places(runner.run(Schedule()), "pause") if fault.point.startswith("write.")]
        both = [Schedule((one, other)) for one in pauses for other in pauses if one.actor < other.actor]
        run_results = [runner.run(schedule) for schedule in both[::3]]
    fired = [run_result for run_result in run_results if run_result.fired]
    assert len(fired) > 20
    assert [] == [
        (str(run_result.schedule), run_result.anomalies)
        for run_result in fired
        if run_result.anomalies or not run_result.finished
    ]


@pytest.mark.parametrize("name", ["Right", "Overwriting"])
def test_a_process_is_paused_for_real_and_goes_on(name: str, tmp_path: Path) -> None:
    contract, scratch = load(f"{HERE}:{name}"), Scratch(name=name, path=tmp_path, shell="process")
    line = next(number for number, text in enumerate(HERE.read_text().splitlines(), 1) if "temporary.write" in text)
    with process_runner(contract, scratch) as runner:
        run_result = runner.run(parse(f"sink[0].line(shared_lists.py:{line})#1=pause"))
    assert (True, True, 0) == (run_result.fired, run_result.finished, run_result.kills)
    assert (name == "Overwriting") is bool(run_result.anomalies)


LOCKING = """\
import json, sqlite3
from sinkproof import Claim

READ = []


class Sink:
    def __init__(self, path):
        self.path, self.rows, self.pending = path, [], {}

    def open(self, context):
        for _, state in context.restored:
            self.pending.update(json.loads(state))  # they are published with the next checkpoint

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id):
        for older in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(self.pending.pop(older))

    def publish(self, rows):
        with sqlite3.connect(self.path, isolation_level=None, timeout=60) as table:
            table.execute("BEGIN EXCLUSIVE")
            table.executemany("INSERT OR IGNORE INTO t VALUES (?, ?)", rows)
            table.execute("COMMIT")


class Locking:
    claims = Claim.EXACTLY_ONCE

    def setup(self, scratch):
        with sqlite3.connect(scratch.path / "t.db") as table:
            table.execute("CREATE TABLE t (split, at, PRIMARY KEY (split, at))")

    def sink(self, scratch):
        return Sink(scratch.path / "t.db")

    def committed(self, scratch):
        READ.append("begins")
        with sqlite3.connect(scratch.path / "t.db", timeout=1.1) as table:
            rows = list(table.execute("SELECT split, at FROM t"))
        READ.append("ends")
        return rows
"""


@pytest.mark.slow
def test_a_reader_waits_once_for_what_an_attempt_holds_that_is_suspended_there(tmp_path: Path) -> None:
    (tmp_path / "locking.py").write_text(LOCKING)
    (tmp_path / "scratch").mkdir()
    place = LOCKING.splitlines().index('            table.execute("COMMIT")') + 1
    contract, scratch = (
        load(f"{tmp_path / 'locking.py'}:Locking"),
        Scratch(name="locks", path=tmp_path / "scratch", shell="process"),
    )
    read = sys.modules[type(contract.given).__module__].READ
    with process_runner(contract, scratch) as runner:
        failed = []
        for schedule in 2 * (f"sink[1].line(locking.py:{place})#2=stop",):
            read.clear()
            run_result = runner.run(parse(schedule))
            assert (True, True, ()) == (run_result.fired, run_result.finished, run_result.anomalies)
            failed.append(read.count("begins") - read.count("ends"))
        assert [1, 0] == failed
        assert {f"line(locking.py:{place})"} == runner.locked_at
