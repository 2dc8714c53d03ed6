"""What an attempt keeps in a folder for temporary files is not there for its successor on another host."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.processes.files_of_hosts import CACHES, on_own_host
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.feasible import impossible
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.static_analysis.names_in_code import sees_its_host

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("watch_of_system_calls")]
SINKS_OF_HOSTS: Final = Path(__file__).parents[2] / "support/sinks_of_hosts.py"
TWO_PAUSES: Final = "two pauses within commits"
STAGE: Final = "restarts on other hosts, without files of the first ones"
SINK: Final = """\
import json, os, shutil, tempfile
from pathlib import Path
from sinkproof import Claim

STAGED, TARGET = {staged}, {target}


class Sink:
    def __init__(self, folder):
        self.folder, self.staged, self.rows, self.pending = folder, Path(STAGED or folder), [], {{}}

    def open(self, context):
        self.context = context
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish(f"{{subtask}}-{{checkpoint}}", rows)

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        with tempfile.NamedTemporaryFile("w", dir="{temporary}") as spooled:  # right: it is gone before the vote
            json.dump(self.rows, spooled)
        if (noted := Path("{temporary}") / "of-others").exists():
            with noted.open("a") as notes:
                notes.write("voted")
        rows, self.rows = self.rows, []
        if STAGED:
            (self.staged / f"{{self.context.subtask}}-{{checkpoint_id}}.staged").write_text(json.dumps(rows))
            rows = None
        self.pending[checkpoint_id] = rows
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id):
        for older in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(f"{{self.context.subtask}}-{{older}}", self.pending.pop(older))

    def publish(self, name, rows):
        staged, final = self.staged / f"{{name}}.staged", self.folder / f"{{name}}.json"
        if rows is not None:
            staged.write_text(json.dumps(rows))
        if staged.exists():
            shutil.copyfile(staged, self.folder / f"{{name}}.new")
            os.replace(self.folder / f"{{name}}.new", final)
            staged.unlink()


class Of:
    claims = Claim.EXACTLY_ONCE

    def setup(self, scratch):
        for file in (*Path(STAGED or scratch.path).glob("*.staged"), *Path(TARGET or scratch.path).glob("*.json")):
            file.unlink()

    def sink(self, scratch):
        return Sink(Path(TARGET or scratch.path))

    def committed(self, scratch):
        for file in sorted(Path(TARGET or scratch.path).glob("*.json")):
            yield from json.loads(file.read_text())
"""


@pytest.fixture
def local() -> Iterator[Path]:
    """A folder that each host has for itself."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    shutil.rmtree(folder)


def explored(
    folder: Path, *, staged: Path | None = None, target: Path | None = None, temporary: Path
) -> CampaignResults:
    given = {name: repr(str(path) if path else "") for name, path in (("staged", staged), ("target", target))}
    (folder / "sink_of_hosts.py").write_text(SINK.format(**given, temporary=temporary))
    (folder / "scratch").mkdir()
    contract = load(f"{folder / 'sink_of_hosts.py'}:Of")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="data", path=folder / "scratch", shell="process")) as runner:
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings))
        campaign.carry_out([each for each in PROCESS_PLAN if each.name == STAGE])
    return results


def test_a_sink_that_promises_a_file_on_its_own_host_loses_it(tmp_path: Path, local: Path) -> None:
    results = explored(tmp_path, staged=local, temporary=local)
    assert {"O1"} <= {finding.oracle for finding in results.findings}
    assert all("job=other-hosts" in finding.schedule for finding in results.findings)


def test_a_file_that_is_gone_before_the_vote_is_right(tmp_path: Path, local: Path) -> None:
    (local / "of-others").write_text("kept")
    results = explored(tmp_path, temporary=local)
    (stage,) = results.coverage.stages
    assert [] == results.findings
    assert stage.finished
    assert stage.run > 4
    assert ["of-others"] == os.listdir(local)  # it was there before
    assert (local / "of-others").read_text().startswith("keptvoted")


def test_a_sink_without_such_files_is_not_tried(tmp_path: Path) -> None:
    results = explored(tmp_path, temporary=tmp_path / "scratch")
    assert (0, True) == (results.coverage.stages[0].run, results.coverage.stages[0].finished)


@pytest.mark.parametrize("staged_there", [True, False])
def test_a_target_in_such_a_folder_is_taken_for_one_that_all_hosts_see(
    tmp_path: Path, local: Path, staged_there: bool
) -> None:
    results = explored(tmp_path, staged=local if staged_there else None, target=local, temporary=local)
    assert [] == results.findings
    assert "its target lies in a folder for temporary files" in results.coverage.stages[0].cut


def test_only_what_no_other_host_sees_is_named(tmp_path: Path) -> None:
    here, deep = f"{tempfile.gettempdir()}/a", f"{tempfile.gettempdir()}/a/b"
    others = [str(tmp_path), f"{tmp_path}/rows", "/srv/rows", f"{here}/__pycache__/sink.pyc"]
    assert [Path(deep), Path(here)] == on_own_host([here, deep, *others], tmp_path)


@pytest.mark.parametrize("cache", [*CACHES, "/var/cache"])
def test_a_cache_is_that_of_a_host_and_a_home_may_be_that_of_all(cache: str, tmp_path: Path) -> None:
    there, home = f"{os.path.realpath(cache)}/rows", "/home/user/rows"
    assert [Path(there)] == on_own_host([there, home], tmp_path)


def test_other_shells_refuse_the_job() -> None:
    contract = load("files/two-phase")
    assert "" == impossible(parse("job=other-hosts no-fault"), contract, "process")
    for shell in ("simulated", "spark"):
        assert "Replay it with --on process" in impossible(parse("job=other-hosts no-fault"), contract, shell)


def test_a_command_refuses_the_job() -> None:
    contract = copy(load("files/two-phase"))
    contract.kind = "command"
    assert "sinks in Python" in impossible(parse("job=other-hosts no-fault"), contract, "process")


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        *(("ByHost", "O2"), ("ByImportedHost", "O2"), ("ByLocalDay", "O2"), ("LockedOnOneHost", "O1")),
        *(("ByCore", "O2"), ("ByMachine", "O2"), ("ByMachineId", "O2"), ("ByUptime", "O1")),
        ("ByCheckpoint", ""),
        *(
            pytest.param(name, "", marks=pytest.mark.longer)
            for name in ("ByDayOfUtc", "LockedForAll", "WithItsAddress")
        ),
    ],
)
def test_what_only_one_host_sees_is_another_thing_on_another(name: str, oracle: str, tmp_path: Path) -> None:
    contract = load(f"{SINKS_OF_HOSTS}:{name}")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="data", path=tmp_path, shell="process")) as runner:
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings))
        campaign.carry_out([each for each in PROCESS_PLAN if each.name == STAGE])
    assert ({oracle} if oracle else set()) == {finding.oracle for finding in results.findings}
    assert all("other-hosts" in finding.schedule for finding in results.findings)
    assert results.coverage.stages[0].run > 0


@pytest.mark.parametrize(
    ("code", "sees_it"),
    [
        ("from socket import gethostname", True),
        ("os.uname().nodename", True),
        ("max(1, os.cpu_count() - 1)", True),
        ("os.environ['HOSTNAME']", True),
        ("open('/proc/sys/kernel/random/boot_id')", True),
        ("datetime.fromtimestamp(seconds)", True),
        ("time.monotonic_ns()", True),
        ("os.replace(a, b)", False),
    ],
)
def test_code_that_may_see_its_host_is_known(code: str, sees_it: bool, tmp_path: Path) -> None:
    (tmp_path / "sink.py").write_text(code)
    assert sees_it is sees_its_host([str(tmp_path / "sink.py")])


@pytest.mark.parametrize(("name", "is_wrong"), [("LockedByWhatIsReplaced", True), ("LockedForAll", False)])
def test_a_lock_on_a_file_that_is_replaced_is_two_locks(name: str, is_wrong: bool, tmp_path: Path) -> None:
    """The second subtask waits for a lock, and has it as soon as it is free, before the first one locks again."""
    contract = load(f"{SINKS_OF_HOSTS}:{name}")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="data", path=tmp_path, shell="process")) as runner:
        ProcessCampaign(runner, results).carry_out([each for each in PROCESS_PLAN if each.name == TWO_PAUSES])
    assert ({"O1"} if is_wrong else set()) == {finding.oracle for finding in results.findings}
    assert all("checkpoint.notify#2=lose sink[0]" in finding.schedule for finding in results.findings)
