"""Two attempts act on the target at the same time: lock waits, and how long the other one is suspended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.baseline import not_emptied
from sinkproof.chaos.clock import now
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.generators.interleavings import within
from sinkproof.reference_engine.shells.process.attempt_host import PATIENCE_SECONDS
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

LOGS: Final = Path(__file__).parents[2] / "zoo" / "locked_logs.py"


def line(text: str) -> str:
    number = next(number for number, each in enumerate(LOGS.read_text().splitlines(), 1) if text in each)
    return f"line({LOGS.name}:{number})"


@contextmanager
def runner(name: str, folder: Path) -> Iterator[ProcessRunner]:
    with process_runner(load(f"{LOGS}:{name}"), Scratch(name=name, path=folder, shell="process")) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["pause", "stop"])
def test_an_attempt_suspended_with_a_lock_resumes_as_soon_as_another_waits_for_it(fault: str, tmp_path: Path) -> None:
    with runner("Locked", tmp_path) as made:
        assert () == made.run(Schedule()).anomalies
        patience = max(PATIENCE_SECONDS, 3 * made.slowest_seconds)
        began = now()
        run_result = made.run(parse(f"job=sparse sink[0].{line('log.truncate')}#1={fault}"))
    assert (True, True, ()) == (run_result.fired, run_result.finished, run_result.anomalies)
    assert patience <= now() - began
    assert (fault == "stop") is any(what == "generation" and at > 0 for at, _, _, what, _ in run_result.history[1:])
    assert [] == [detail for _, _, _, what, detail in run_result.history if what == "raised"]  # no wait timed out


TAKES_LONG = """
import time

from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.log = folder / "log"

    def open(self, context):
        self.generation = context.generation
        began = time.process_time()
        while context.restored and time.process_time() < began + SECONDS:
            pass
        self.note("opened")

    def write(self, batch): pass
    def snapshot(self, checkpoint_id): return b"state"
    def notify_complete(self, checkpoint_id): self.note("notified")

    def note(self, what):
        with self.log.open("a") as log:
            log.write(f"{self.generation} {what}\\n")


class Subject:
    claims = Claim.NO_LOSS
    def sink(self, scratch): return Sink(scratch.path)
    def committed(self, scratch): return []
"""


@pytest.mark.slow
def test_a_zombie_does_not_resume_while_its_successor_is_at_work(tmp_path: Path) -> None:
    """On a busy machine, a successor that takes long to commit was taken for one that waits for a lock."""
    file, folder = tmp_path / "takes_long.py", tmp_path / "scratch"
    file.write_text(TAKES_LONG.replace("SECONDS", str(1.5 * PATIENCE_SECONDS)))
    folder.mkdir()
    place = next(number for number, each in enumerate(TAKES_LONG.splitlines(), 1) if "def notify_complete" in each)
    with process_runner(load(f"{file}:Subject"), Scratch(name="long", path=folder, shell="process")) as made:
        run_result = made.run(parse(f"sink[0].line({file.name}:{place})#1=stop"))
        noted = (folder / "log").read_text().splitlines()
    assert run_result.fired
    first, second = sorted({each.split()[0] for each in noted})
    since = noted.index(f"{second} opened")
    assert [f"{first} notified"] == [each for each in noted[since:] if each.startswith(first)]  # by the zombie


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "job", "place", "fault", "oracle"),
    [
        ("HeadBeforeTheLock", "sparse", "self.append_to(head, part, rows)", "pause", "O1"),
        ("GivesUpTheLock", "sparse", "log.truncate", "pause", "O1"),
        ("LooksAndThenAppends", "standard", "with open(log", "stop", "O2"),
    ],
)
def test_a_sink_that_relies_on_stale_reads_or_held_locks_is_convicted(
    name: str, job: str, place: str, fault: str, oracle: str, tmp_path: Path
) -> None:
    with runner(name, tmp_path) as made:
        assert () == made.run(Schedule(job=job)).anomalies
        run_result = made.run(parse(f"job={job} sink[0].{line(place)}#1={fault}"))
    assert run_result.fired
    assert oracle in {anomaly.oracle for anomaly in run_result.anomalies}


def test_places_within_a_call_are_the_lines_of_that_call_alone(tmp_path: Path) -> None:
    with runner("Locked", tmp_path) as made:
        run_result = made.run(Schedule(), trace_lines=True)
        killed = made.run(parse("checkpoint.persist.after#1=kill-job"), trace_lines=True)
    commits = [fault.point for fault in within(run_result, "notify_complete", "pause")]
    assert line("log.truncate") in commits
    assert line("self.pending.append") not in commits  # of snapshot
    assert len(commits) == len(set(commits))
    assert [] == [*within(run_result, "open", "pause", calls_skipped=1)]  # nothing was restored
    recoveries = {fault.point: fault for fault in within(killed, "open", "pause", calls_skipped=1)}
    assert line("log.truncate") in recoveries


def test_rows_that_are_lost_in_some_runs_only_are_no_reason_not_to_judge(tmp_path: Path) -> None:
    contract = load(f"{LOGS.with_name('surroundings.py')}:LosesNowAndThen")
    folder = tmp_path / "scratch"
    folder.mkdir()
    with process_runner(contract, Scratch(name="now and then", path=folder, shell="process")) as made:
        runs = [made.run(Schedule()) for _ in range(2)]
        assert {0, 1} == {len(run.anomalies) for run in runs}
        assert "" == not_emptied(made, runs[0])
        made.scratch = replace(made.scratch, shell="simulated")  # where it may be the module that remembers
        assert {"", "two runs"} == {not_emptied(made, runs[0])[:8], not_emptied(made, runs[1])[:8]}
