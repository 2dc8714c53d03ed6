"""`TestMine = certification(MyContract)` in a user's tests: in each import mode of pytest, from a command, a script."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import sinkproof
from sinkproof.campaign.task import Task
from sinkproof.certifier.certify import CONTROL_SECONDS, Options, certify
from sinkproof.certifier.result_store import opened
from sinkproof.reports.document import CanaryResult

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # whole runs of pytest within

BUDGET_SECONDS = 1  # a certification goes on until nothing is left that would make the verdict UNKNOWN
MINE = """
import json
import os

from sinkproof import Claim, certification


class MySink:
    def __init__(self, folder):
        self.folder, self.rows, self.pending = folder, [], {{}}

    def open(self, context):
        self.context = context
        os.makedirs(self.folder / "out", exist_ok=True)
        for subtask, state in context.restored:
            for checkpoint_id, rows in json.loads(state):
                self.publish(f"{{subtask}}-{{checkpoint_id}}", rows)

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id):
        for older in [older for older in self.pending if older <= checkpoint_id]:
            self.publish(f"{{self.context.subtask}}-{{older}}", self.pending.pop(older))

    def publish(self, name, rows):
        temporary = self.folder / f"temp-{{self.context.subtask}}-{{self.context.generation}}"
        temporary.write_text(json.dumps(rows))
        os.replace(temporary, self.folder / "out" / f"{{name}}.json")


class MyWrongSink(MySink):
    def publish(self, name, rows):
        (self.folder / "out" / f"{{name}}-{{self.context.generation}}.json").write_text(json.dumps(rows))


class MyContract:
    claims = Claim.EXACTLY_ONCE
    made = MySink

    def sink(self, scratch):
        return self.made(scratch.path)

    def committed(self, scratch):
        for file in sorted((scratch.path / "out").glob("*.json")):
            yield from json.loads(file.read_text())


class MyWrongContract(MyContract):
    made = MyWrongSink


TestMine = certification(MyContract, budget_seconds={budget})
TestWrong = certification(MyWrongContract, budget_seconds={budget})
"""
WRONG = "tests/test_mine.py:MyWrongContract"
WAIVER = """
[[tool.sinkproof.waivers]]
subject = "tests/test_mine.py:MyWrongContract"
claim = "NO_DUPLICATES"
cause = "O2"
reason = "moves to one name for all attempts"
owner = "data team"
expiry = 9999-12-31
"""
IDS = {"test_claim[NO_LOSS]", "test_claim[NO_DUPLICATES]", "test_claim[NO_EARLY_ROWS]", "test_claim[FENCES_ZOMBIES]"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's project. Its cache folder keeps results of two canaries, because running all takes half a minute."""
    made = tmp_path_factory.mktemp("user")
    (made / "tests").mkdir()
    (made / "tests" / "test_mine.py").write_text(MINE.format(budget=BUDGET_SECONDS))
    (made / "pytest.ini").write_text("[pytest]\ncache_dir = .pytest_cache\n")
    with opened(made / ".pytest_cache" / "d" / "sinkproof") as store:
        for shell in ("simulated", "process"):
            task = Task(locator="", shell=shell, budget_seconds=CONTROL_SECONDS)
            results = [
                CanaryResult(name=name, root_cause="R1", convicted=True, seconds=0.1, oracle="O2", shell=shell)
                for name in ("marker after data", "commit copies again")
            ]
            assert store.find(task, None) is None
            store.recorded(task)
            store.take(task, results, None)
            store.keep([task])
    return made


def run_pytest(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    base = ["-p", "no:randomly", "-rA", "--tb=short", f"--basetemp={folder / 'temporary'}", "tests/test_mine.py"]
    clean = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", *base, *arguments]
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True).stdout


def outcomes(said: str) -> dict[str, str]:
    found = re.findall(r"^(PASSED|FAILED|XFAIL) tests/test_mine\.py::(\S+)", said, re.MULTILINE)
    return {name: outcome for outcome, name in found}


def test_a_contract_is_certified_in_every_import_mode_of_pytest(
    folder: Path, command_environment: dict[str, str]
) -> None:
    said = run_pytest(folder, command_environment)
    found = outcomes(said)
    assert {f"TestMine::{name}" for name in IDS} <= found.keys(), said
    assert "TestMine::test_step[notify_complete.before]" in found
    assert {"PASSED"} == {outcome for name, outcome in found.items() if name.startswith("TestMine")}, said
    assert "FAILED" == found["TestWrong::test_claim[NO_DUPLICATES]"], said
    check_that_a_failure_tells_everything(said, folder, command_environment)
    (folder / "pyproject.toml").write_text(WAIVER)
    again = run_pytest(folder, command_environment, "--import-mode=importlib", "-n", "2", "-k", "TestWrong")
    verdicts = outcomes(again)
    assert {name for name in found if name.startswith("TestWrong")} == verdicts.keys(), again
    assert "XFAIL" == verdicts["TestWrong::test_claim[NO_DUPLICATES]"]


def check_that_a_failure_tells_everything(said: str, folder: Path, environment: dict[str, str]) -> None:
    section = said.split("_ TestWrong.test_claim[NO_DUPLICATES] _", 1)[1].split("\n____", 1)[0]
    assert "NO_DUPLICATES is violated: O2: " in section
    assert re.search(r"^  extra: \(\d, \d+\)", section, re.MULTILINE), section
    assert re.search(r"^  struck at test_mine\.py:\d+: ", section, re.MULTILINE), section
    assert re.search(r"^certificate: .*/certificate\.json$", section, re.MULTILINE), section
    assert re.search(r"canaries: 4 of 4 convicted .*; 2 of these results are kept, since 20", section), section
    replay = re.search(r"^  replay:  (sinkproof replay .*)$", section, re.MULTILINE)
    assert replay is not None, section
    command = [sys.executable, "-m", *shlex.split(replay[1])]
    again = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert 1 == again.returncode, again.stderr
    assert "O2: " in again.stdout


def test_the_same_file_is_certified_by_the_command(folder: Path, command_environment: dict[str, str]) -> None:
    arguments = ["--no-canaries", "--json", "--quiet", "--budget", "least"]
    done = subprocess.run(
        [sys.executable, "-m", "sinkproof", "certify", WRONG, *arguments],
        cwd=folder,
        env=command_environment,
        capture_output=True,
        text=True,
    )
    assert 1 == done.returncode, done.stderr
    (subject,) = json.loads(done.stdout)["subjects"]
    assert (WRONG, "violated") == (subject["name"], subject["verdict"]), subject["why"]


def test_the_same_file_is_certified_by_a_script_without_a_main_guard(
    folder: Path, command_environment: dict[str, str]
) -> None:
    script = folder / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "import sinkproof\n"
        f"options = sinkproof.Options(canaries=False, budget_seconds={BUDGET_SECONDS}, shells=('process',))\n"
        f"document = sinkproof.certify([{WRONG!r}], Path('out'), options=options)\n"
        "print(document['verdict'])\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=command_environment, capture_output=True, text=True
    )
    assert ("violated\n", 0) == (done.stdout, done.returncode), done.stderr


def test_kept_results_of_canaries_vouch_and_say_when_they_were_obtained(tmp_path: Path) -> None:
    options = Options(shells=("simulated",), budget_seconds=0.2, store=tmp_path / "kept")
    first, second = (certify(["memory/plain"], tmp_path / name, options=options) for name in ("first", "second"))
    before, after = (
        {canary["name"]: (canary["convicted"], canary["oracle"]) for canary in document["canaries"]}
        for document in (first, second)
    )
    assert before == after != {}
    assert not [canary for canary in first["canaries"] if canary["kept_since"]]
    tried = [canary["name"] for canary in second["canaries"] if not canary["kept_since"]]
    assert len(before) / 20 <= len(tried) <= len(before) / 20 + 1


def test_an_unknown_value_for_canaries_is_refused() -> None:
    class Mine:
        pass

    with pytest.raises(sinkproof.ContractError, match="Choose one of once, always, never"):
        sinkproof.certification(Mine, canaries="sometimes")
