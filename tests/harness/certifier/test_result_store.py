"""A kept result is used only where nothing has changed; a part of it is run again, and one difference discards all."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.task import RunAgain, ShellOutcome, Task
from sinkproof.certifier import circumstances, result_store
from sinkproof.certifier.perform import run_again
from sinkproof.certifier.result_store import KeptResult, ResultStore, opened
from sinkproof.chaos.schedule import Schedule
from sinkproof.exploration.judged_runs import ALONE, BESIDE_A_READER, FROM_COPIES, RUNS_MOST, JudgedRun, RunLog
from sinkproof.reports.document import Finding, PointOutcome, ShellResult, TimelineEvent
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import load
from sinkproof.subject.source_files import OwnCode

MINE = """
import json

from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows = folder, []

    def open(self, context):
        self.context = context
        for subtask, state in context.restored:
            for number, rows in json.loads(state):
                self.publish(f"{subtask}-{number}", rows)
        self.pending = []

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        self.pending.append((checkpoint_id, self.rows))
        self.rows = []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id):
        for number, rows in [each for each in self.pending if each[0] <= checkpoint_id]:
            self.publish(f"{self.context.subtask}-{number}", rows)
        self.pending = [each for each in self.pending if each[0] > checkpoint_id]

    def publish(self, name, rows):
        (self.folder / f"{name}GENERATION.json").write_text(json.dumps(rows))


class Mine:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())
"""
JUDGED = [JudgedRun(ALONE, "no-fault", "right"), JudgedRun(FROM_COPIES, "sink[0].commit.after#1=kill-job", "O2")]
SHELL = ShellResult(
    shell="process",
    schedules_run=60,
    schedules_in_bound=80,
    kills=40,
    seconds=3.5,
    outcomes=[PointOutcome(point="open.before", fault="kill", runs=7, outcome="upheld")],
)
OUTCOME = ShellOutcome(
    result=SHELL,
    findings=[
        Finding(
            oracle="O2",
            claimed=True,
            shell="process",
            schedule="no-fault",
            why="twice",
            replay="",
            extra=[(1, 2)],
            timeline=[TimelineEvent(at=0.1, actor="sink[0]", what="died")],
        )
    ],
    unknowns=[],
    never_struck=[],
    lines_by_kind={"kill": frozenset({"line(kept_sink.py:3)"})},
    calls_passed=frozenset({("file.create", "error")}),
    own_code=OwnCode(
        files={"/kept_sink.py": "kept_sink.py"}, given={"kept_sink.Sink": ("kept_sink.py",)}, names=frozenset({"Sink"})
    ),
    judged=JUDGED,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "data").mkdir(parents=True)
    (made / "kept_sink.py").write_text(MINE.replace("GENERATION", ""))
    (made / "data" / "names.txt").write_text("a")
    (tmp_path / "listed").mkdir()
    (tmp_path / "listed" / "names.txt").touch()
    (tmp_path / "elsewhere.txt").write_text("a")
    return made


@contextmanager
def store_with(project: Path, *read: Path) -> Iterator[tuple[ResultStore, Task, Contract]]:
    """A store in which the result of a task is kept that has read these files."""
    contract = load(f"{project}/kept_sink.py:Mine")
    task = Task(locator=contract.locator, shell="process", budget_seconds=1)
    with opened(project / ".sinkproof" / "kept") as store:
        assert store.find(task, contract) is None
        journal = Path(store.recorded(task).journal)
        lines = [("file", str(name), "") for name in read] + [("folder", str(project.parent / "listed"), "names.txt")]
        journal.write_text("".join(f"{line!r}\n" for line in lines))
        store.take(task, OUTCOME, contract)
        store.keep([task])
        assert [] == store.unkept
        yield store, task, contract


def again(project: Path, task: Task, contract: Contract, **options: Any) -> KeptResult | None:
    with opened(project / ".sinkproof" / "kept", **options) as store:
        return store.find(task, contract)


def test_a_kept_result_is_found_whole(project: Path) -> None:
    with store_with(project, project / "kept_sink.py") as (store, task, contract):
        kept = store.find(task, contract)
    assert kept is not None
    plainly = result_store.plain
    assert plainly(replace(OUTCOME, judged=())) == plainly(kept.result)
    assert OUTCOME.lines_by_kind == kept.result.lines_by_kind
    assert OUTCOME.calls_passed == kept.result.calls_passed
    assert OUTCOME.own_code.given == kept.result.own_code.given
    assert 2 == len(kept.again.again), "5 % of 60 are three; two are known"
    told = kept.with_counts(RunAgain(seconds=0.5, kills=1)).result
    assert (2, 58) == (told.schedules_run, told.schedules_kept)
    assert (1, 39) == (told.kills, told.kills_kept)
    assert (60, 40) == (told.schedules_judged, told.kills_judged)
    assert kept.since == told.kept_since


CHANGES: dict[str, Callable[[Path], object]] = {
    "the sink's file": lambda project: (project / "kept_sink.py").write_text("# another\n" + MINE),
    "a file that was read elsewhere": lambda project: (project.parent / "elsewhere.txt").write_text("b"),
    "a file that was not there": lambda project: (project.parent / "absent.txt").write_text(""),
    "a file beside the sink that may be asked for": lambda project: (project / "flag").touch(),
    "the time of such a file": lambda project: os.utime(project / "data" / "names.txt", (1, 1)),
    "an entry of a folder that was listed": lambda project: (project.parent / "listed" / "more.txt").touch(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_after_a_change_there_is_nothing_to_be_found(project: Path, change: Callable[[Path], object]) -> None:
    read = (project / "kept_sink.py", project.parent / "elsewhere.txt", project.parent / "absent.txt")
    with store_with(project, *read) as (_, task, contract):
        pass
    assert again(project, task, contract) is not None
    change(project)
    assert again(project, task, contract) is None


def test_other_circumstances_are_a_miss(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with store_with(project) as (_, task, contract):
        pass
    assert again(project, task, contract) is not None
    assert again(project, task, contract, fresh=True) is None
    assert again(project, replace(task, budget_seconds=2), contract) is None
    assert again(project, replace(task, seed=1), contract) is None
    with monkeypatch.context() as changed:
        changed.setenv("SSH_TTY", "/dev/pts/9")
        assert again(project, task, contract) is not None, "no sink goes by the terminal"
        changed.setenv("MY_FLAG", "1")
        assert again(project, task, contract) is None
    with monkeypatch.context() as changed:
        changed.chdir(tmp_path)
        assert again(project, task, contract) is None
    assert again(project, task, contract) is not None


def test_every_file_of_sinkproof_is_part_of_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "a_package"
    (package / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/adapter.py", "schema.json"):
        (package / name).write_text("1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(circumstances, "PACKAGES", ("a_package",))
    before = circumstances.fingerprint()
    for name in ("inner/adapter.py", "schema.json"):
        (package / name).write_text("2")
        changed = circumstances.fingerprint()
        assert before != changed
        before = changed
    (package / "__pycache__").mkdir()
    (package / "__pycache__/adapter.pyc.140234").write_text("on its way to its name")
    assert before == circumstances.fingerprint()


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"{}", None])
def test_a_damaged_entry_is_a_miss(project: Path, damage: bytes | None) -> None:
    with store_with(project) as (store, task, contract):
        entry = store.path(task)
        whole = entry.read_bytes()
        entry.write_bytes(whole.replace(b'"O2"', b'"O1"') if damage is None else damage)
        assert store.find(task, contract) is None


def test_nothing_else_than_a_verdict_is_kept(project: Path) -> None:
    native = project / "site-packages" / "client" / "_client.so"
    native.parent.mkdir(parents=True)
    native.touch()
    contract = load(f"{project}/kept_sink.py:Mine")
    reasons = []
    for line, outcome in (
        (("file", str(project / "kept_sink.py"), ""), replace(OUTCOME, unknowns=["too slow"])),
        (("beyond", "", "socket.connect"), OUTCOME),
        (("file", str(native), ""), OUTCOME),
        (("folder", str(project / "data"), "other.txt"), OUTCOME),
        (("file", str(project.parent / "new.txt"), ""), OUTCOME),
    ):
        task = Task(locator=contract.locator, shell="process", budget_seconds=len(reasons))
        with opened(project / ".sinkproof" / "kept") as store:
            assert store.find(task, contract) is None
            Path(store.recorded(task).journal).write_text(f"{line!r}\n")
            if line[1].endswith("new.txt"):
                Path(line[1]).touch()
            store.take(task, outcome, contract)
            store.keep([task])
            reasons += store.unkept
    assert [] == list((project / ".sinkproof" / "kept").glob("*.json"))
    words = (
        "UNKNOWN is not kept",
        "socket.connect",
        "native code",
        "has changed",
        "has changed",
    )
    assert [word in reason for word, reason in zip(words, reasons, strict=True)] == [True] * 5, reasons


def test_a_folder_that_cannot_be_used_keeps_nothing_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file")
    with opened(tmp_path / "kept") as store:
        assert store.find(Task(locator="", shell="process", budget_seconds=1), None) is None
        assert [f"{tmp_path / 'kept'} cannot be used: File exists"] == store.unkept


@pytest.mark.parametrize("installed", ["site-packages", "dist-packages"])
def test_native_code_of_a_package_is_foreign_wherever_it_is_installed(installed: str) -> None:
    assert result_store._is_foreign(f"/usr/lib/python3/{installed}/client/_client.so")
    assert not result_store._is_foreign(f"/usr/lib/python3/{installed}/numpy/core.so")


def test_the_oldest_results_make_room(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with store_with(project) as (store, task, contract):
        oldest = store.path(task)
        os.utime(oldest, (1, 1))
        monkeypatch.setattr(result_store, "BYTES_MOST", 3 * oldest.stat().st_size // 2)
        second = replace(task, seed=1)
        store.find(second, contract)
        Path(store.recorded(second).journal).write_text("")
        store.take(second, OUTCOME, contract)
        store.keep([second])
        assert [store.path(second)] == list(oldest.parent.glob("*.json"))


def test_a_log_of_many_runs_keeps_every_second_one() -> None:
    log = RunLog()
    for seed in range(2 * RUNS_MOST + 2):
        log.note(ALONE, Schedule(seed=seed), "right")
    assert 2 * RUNS_MOST + 2 == log.noted
    assert RUNS_MOST // 2 <= len(log.runs) <= RUNS_MOST
    seeds = {int(run.name.split("seed=")[1].split()[0]) % 4 for run in log.runs}
    assert {3} == seeds, "spread over all of them"


@pytest.mark.slow
def test_runs_are_repeated_in_their_own_way_and_compared(project: Path) -> None:
    (project / "kept_sink.py").write_text(MINE.replace("GENERATION", "-{self.context.generation}"))
    crash = "sink[0].notify_complete.after#1=kill-job"
    simulated = Task(locator=f"{project}/kept_sink.py:Mine", shell="simulated", budget_seconds=1)
    right = JudgedRun(BESIDE_A_READER, "no-fault", "right")
    wrong = JudgedRun(FROM_COPIES, crash, "O2")
    assert "" == run_again(replace(simulated, again=(right, wrong))).differing
    assert crash == run_again(replace(simulated, again=(right, wrong._replace(ending="right")))).differing
    done = run_again(replace(simulated, shell="process", again=(JudgedRun(ALONE, crash, "O2"),)))
    assert ("", True) == (done.differing, done.kills > 0)
    assert crash == run_again(replace(simulated, shell="process", again=(JudgedRun(ALONE, crash, "O1"),))).differing


@pytest.mark.slow
def test_the_command_uses_what_it_has_kept(project: Path, command_environment: dict[str, str]) -> None:
    (project / "kept_sink.py").write_text(MINE.replace("GENERATION", "-{self.context.generation}"))
    environment = {name: value for name, value in command_environment.items() if name != "SINKPROOF_FRESH"}

    def certified(*arguments: str) -> dict[str, Any]:
        command = [
            "sinkproof",
            "certify",
            "kept_sink.py:Mine",
            "--on",
            "simulated",
            "--no-canaries",
            "--json",
            "--quiet",
        ]
        done = subprocess.run(
            [*command, "--budget", "1s", *arguments], cwd=project, env=environment, capture_output=True, text=True
        )
        assert (1, "") == (done.returncode, done.stderr), done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def counts(document: dict[str, Any]) -> tuple[int, int]:
        (shell,) = document["subjects"][0]["shells"]
        return shell["schedules_run"], shell["schedules_kept"]

    first = certified()
    whole, nothing = counts(first)
    assert 0 == nothing
    second = certified()
    run, kept = counts(second)
    assert whole == run + kept
    assert whole / 20 <= run <= whole / 20 + 1
    for name in ("findings", "verdict", "grade", "code", "claimed"):
        assert first["subjects"][0][name] == second["subjects"][0][name]
    assert 0 == counts(certified("--fresh"))[1]
    (entry,) = (project / ".sinkproof" / "kept").glob("*.json")
    text = entry.read_text().partition("\n")[2].replace('"right"]', '"O1"]')
    entry.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
    differing = certified()
    assert 0 == counts(differing)[1]
    assert any("all kept results were discarded" in note for note in differing["notes"])
    (anew,) = (project / ".sinkproof" / "kept").glob("*.json")
    assert '"right"]' in anew.read_text(), "what was run anew is kept"
