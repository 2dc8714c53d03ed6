"""`TestMine = certification(MyContract)` in a user's tests: in each import mode of pytest, from a command, a script."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sinkproof
from sinkproof.campaign.task import Task
from sinkproof.canaries.conviction import canaries_for
from sinkproof.certifier.certify import CONTROL_SECONDS, LEAST_SECONDS, Options, certify
from sinkproof.certifier.result_store import opened
from sinkproof.pytest_plugin.certified_once import report_once
from sinkproof.pytest_plugin.settings import Asked, certificates_folder, check_settings, options_for
from sinkproof.reports.document import CanaryResult

pytestmark = [pytest.mark.slow]  # whole runs of pytest within

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
KEPT = ".sinkproof/pytest/tests-test_mine.py-MyWrongContract"
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


KEEPING = """
import sys
from pathlib import Path

from sinkproof.campaign.task import Task
from sinkproof.certifier.certify import CONTROL_SECONDS
from sinkproof.certifier.result_store import opened
from sinkproof.reports.document import CanaryResult

with opened(Path(sys.argv[1])) as store:
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
assert not store.unkept, store.unkept
"""


@pytest.fixture
def folder(tmp_path: Path, command_environment: dict[str, str]) -> Path:
    """A user's project. Its cache folder keeps results of two canaries, because running all takes half a minute.

    A process of its own keeps them: in what a result depends on, this one may differ from those that look for it.
    """
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_mine.py").write_text(MINE.format(budget=BUDGET_SECONDS))
    (tmp_path / "pytest.ini").write_text("[pytest]\ncache_dir = .pytest_cache\n")
    kept = tmp_path / ".pytest_cache" / "d" / "sinkproof"
    subprocess.run([sys.executable, "-c", KEEPING, kept], cwd=tmp_path, env=command_environment, check=True)
    return tmp_path


def run_pytest(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    base = ["-p", "no:randomly", "-rA", "--tb=short", f"--basetemp={folder / 'temporary'}", "tests/test_mine.py"]
    clean = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", *base, *arguments]
    return subprocess.run(
        command, cwd=folder, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ).stdout


def outcomes(said: str) -> dict[str, str]:
    found = re.findall(r"^(PASSED|FAILED|XFAIL) tests/test_mine\.py::(\S+)", said, re.MULTILINE)
    return {name: outcome for outcome, name in found}


def test_a_contract_is_certified_in_every_import_mode_of_pytest(
    folder: Path, command_environment: dict[str, str]
) -> None:
    said = run_pytest(folder, command_environment, "--timeout=2", "-v", "-k", "TestWrong")
    found = outcomes(said)
    assert " <- " not in said  # pytest names another file than the user's by that
    assert re.search(rf"^{WRONG}  .* finding.*$", said, re.MULTILINE), said
    assert re.search(rf"^✗ {WRONG}: NO_DUPLICATES: ", said, re.MULTILINE), said
    assert {f"TestWrong::{name}" for name in IDS} <= found.keys(), said
    assert "PASSED" == found["TestWrong::test_step[notify_complete.before]"]
    assert "FAILED" == found["TestWrong::test_claim[NO_DUPLICATES]"], said
    check_that_a_failure_tells_everything(said, folder, command_environment)
    assert set(found) > set(outcomes(run_pytest(folder, command_environment, "-k", "TestWrong", "--lf")))
    document = json.loads((folder / KEPT / "certificate.json").read_text())
    (subject,) = document["subjects"]
    assert [] == document["unkept"]
    for shell in subject["shells"]:
        assert shell["schedules_kept"] > shell["schedules_run"], "the last result was not used"
    (folder / "pyproject.toml").write_text(WAIVER)
    again = run_pytest(
        folder, command_environment, "--import-mode=importlib", "-n", "2", "-m", "sinkproof", "-k", "TestWrong"
    )
    verdicts = outcomes(again)
    assert found.keys() == verdicts.keys(), again
    assert re.search(rf"^✗ {WRONG}: NO_DUPLICATES: ", again, re.MULTILINE), again  # also from a worker of xdist
    assert "XFAIL" == verdicts["TestWrong::test_claim[NO_DUPLICATES]"]


@pytest.mark.longer  # as a command does it: the README's second run
def test_each_claim_and_step_of_a_right_contract_passes(folder: Path, command_environment: dict[str, str]) -> None:
    said = run_pytest(folder, command_environment, "-k", "TestMine")
    found = outcomes(said)
    assert {f"TestMine::{name}" for name in IDS} <= found.keys(), said
    assert "TestMine::test_step[notify_complete.before]" in found
    assert {"PASSED"} == {*found.values()}, said


def check_that_a_failure_tells_everything(said: str, folder: Path, environment: dict[str, str]) -> None:
    section = said.split("_ TestWrong.test_claim[NO_DUPLICATES] _", 1)[1].split("\n____", 1)[0]
    assert "NO_DUPLICATES is violated: O2: " in section
    assert re.search(r"^  extra: \(\d, \d+\)", section, re.MULTILINE), section
    assert re.search(r"^  struck at test_mine\.py:\d+: ", section, re.MULTILINE), section
    kept = folder / KEPT
    assert f"certificate: {(kept / 'certificate.json').relative_to(folder)}" in section
    assert f"page: {(kept / 'report.html').relative_to(folder)}" in section
    assert "MyWrongContract" in (kept / "report.html").read_text()
    assert WRONG in json.loads((kept / "certificate.json").read_text())["subjects"][0]["name"]
    assert re.search(r"canaries: 4 of 4 convicted .*; 2 of these results are kept, since 20", section), section
    replay = re.search(r"^  replay:  (sinkproof replay .*)$", section, re.MULTILINE)
    assert replay is not None, section
    assert replay[1].split()[-3] == WRONG
    command = [sys.executable, "-m", *shlex.split(replay[1])]
    elsewhere = Path(shutil.copytree(folder / "tests", folder.with_name(f"{folder.name}-elsewhere") / "tests")).parent
    again = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True)
    assert 1 == again.returncode, again.stderr
    assert "O2: " in again.stdout


def test_the_same_file_is_certified_by_the_command(folder: Path, command_environment: dict[str, str]) -> None:
    (folder / "pyproject.toml").write_text(WAIVER)
    arguments = ["--no-canaries", "--json", "--quiet", "--budget", "least"]
    done = subprocess.run(
        [sys.executable, "-m", "sinkproof", "certify", WRONG, *arguments],
        cwd=folder,
        env=command_environment,
        capture_output=True,
        text=True,
    )
    assert 1 == done.returncode, done.stderr
    assert re.search(r"^VIOLATED, \d+ waived, \d+ not$", done.stderr, re.MULTILINE), done.stderr
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


def test_kept_results_of_canaries_vouch_and_one_in_twenty_is_tried_again(tmp_path: Path) -> None:
    options = Options(shells=("simulated",), budget_seconds=0.2, store=tmp_path / "kept")
    before = [
        CanaryResult(name=canary.name, root_cause="R1", convicted=True, seconds=0.1, oracle="O2", shell="simulated")
        for canary in canaries_for("simulated")
    ]
    task = Task(locator="", shell="simulated", budget_seconds=CONTROL_SECONDS)
    with opened(options.store) as store:
        assert store.find(task, None) is None
        store.recorded(task)
        store.take(task, before, None)
        store.keep([task])
        assert [] == store.unkept
    document = certify(["memory/plain"], tmp_path / "out", options=options)
    assert {canary.name for canary in before} == {each["name"] for each in document["canaries"] if each["convicted"]}
    tried = [canary["name"] for canary in document["canaries"] if not canary["kept_since"]]
    assert len(before) / 20 <= len(tried) <= len(before) / 20 + 1


BROKEN = """
from sinkproof import Claim, certification

class Contract:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
        raise RuntimeError("no credentials")

    def committed(self, scratch):
        return []

TestBroken = certification(Contract, canaries="never")
"""


def test_a_contract_that_cannot_run_is_one_error(tmp_path: Path, command_environment: dict[str, str]) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_mine.py").write_text(BROKEN)
    said = run_pytest(tmp_path, command_environment)
    (error,) = re.findall(r"^ERROR (\S+)", said, re.MULTILINE)
    assert re.search(r"\d\d skipped, 1 error in", said), said
    assert "RuntimeError: no credentials" in said
    assert error.startswith("tests/test_mine.py::TestBroken::test_claim[")


def test_the_same_test_fails_again_when_it_is_repeated(tmp_path: Path) -> None:
    subject = {"name": "orders.py:Contract", "why": "no credentials"}
    ended = []
    for test in ("the first", "another", "the first"):
        with pytest.raises((pytest.fail.Exception, pytest.skip.Exception)) as raised:
            report_once(tmp_path / "mark", subject, test=test)
        ended.append((raised.type, str(raised.value)))
    failed = (pytest.fail.Exception, "orders.py:Contract could not be certified: no credentials")
    skipped = (pytest.skip.Exception, "orders.py:Contract could not be certified: see the first")
    assert [failed, skipped, failed] == ended


def test_options_are_those_of_the_command_line_then_of_the_class_then_of_the_file(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, asked = request.config, Asked(budget_seconds=7, shells=["process"], strict=False)
    assert (20.0, False, ("simulated", "process")) == chosen(options_for(config, Asked()))
    assert not options_for(config, Asked()).fresh
    assert options_for(config, Asked(canaries="always")).fresh
    with monkeypatch.context() as asked_for:
        asked_for.setattr(config.option, "sinkproof_fresh", True)
        assert options_for(config, Asked()).fresh
    in_file: dict[str, object] = {"sinkproof_budget": "30s", "sinkproof_shells": "simulated", "sinkproof_strict": True}
    in_file["sinkproof_certificates"], getini = "out", config.getini
    monkeypatch.setattr(config, "getini", lambda name: in_file.get(name) or getini(name))
    assert (30.0, True, ("simulated",)) == chosen(options_for(config, Asked()))
    assert options_for(config, Asked()).strict
    assert config.rootpath / "out" == certificates_folder(config)
    assert (7, False, ("process",)) == chosen(options_for(config, asked))
    assert not options_for(config, asked).strict
    for name, value in (("budget", "least"), ("shells", "simulated, spark"), ("strict", True), ("certificates", "/x")):
        monkeypatch.setattr(config.option, f"sinkproof_{name}", value)
    assert (LEAST_SECONDS, False, ("simulated", "spark")) == chosen(options_for(config, asked))
    assert options_for(config, asked).strict
    assert Path("/x") == certificates_folder(config)


def chosen(options: Options) -> tuple[float, bool, tuple[str, ...]]:
    return options.budget_seconds, options.budget_holds, tuple(options.shells)


@pytest.mark.parametrize(
    ("name", "value", "words"), [("budget", "soon", "'soon' is not a time"), ("shells", "mars", "no shell 'mars'")]
)
def test_a_setting_that_cannot_be_used_is_one_usage_error(
    name: str, value: str, words: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request.config.option, f"sinkproof_{name}", value)
    with pytest.raises(pytest.UsageError, match=words):
        check_settings(request.config)


def test_an_unknown_value_for_canaries_is_refused() -> None:
    class Mine:
        pass

    with pytest.raises(sinkproof.ContractError, match="Choose one of once, always, never"):
        sinkproof.certification(Mine, canaries="sometimes")
