"""Names that a process id makes unique are not unique in containers, where each attempt has the same one."""

from __future__ import annotations

import importlib.util
import os
from copy import copy
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.processes import seen_machine
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.feasible import impossible
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

STAGE: Final = "commits in containers, with one process id"
SINK: Final = """\
import json, os
{imported}
from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.pending, self.published = folder, [], {{}}, 0

    def open(self, context):
        self.context = context
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
            self.publish(self.context.subtask, older, self.pending.pop(older))

    def publish(self, subtask, checkpoint, rows):
        self.published += 1
        name = f"{{{unique}}}-{{self.context.generation}}-{{self.published}}"
        (self.folder / f"{{name}}.new").write_text(json.dumps([subtask, checkpoint, rows]))
        os.replace(self.folder / f"{{name}}.new", self.folder / f"{{name}}.json")


class Of:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        parts = [json.loads(file.read_text()) for file in sorted(scratch.path.glob("*.json"))]
        for rows in {{(subtask, checkpoint): rows for subtask, checkpoint, rows in parts}}.values():
            yield from rows
"""


def explored(folder: Path, unique: str) -> CampaignResults:
    imported = "from os import getpid as number" if "number" in unique else ""
    (folder / "sink_of_containers.py").write_text(SINK.format(unique=unique, imported=imported))
    (folder / "scratch").mkdir()
    contract = load(f"{folder / 'sink_of_containers.py'}:Of")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="data", path=folder / "scratch", shell="process")) as runner:
        ProcessCampaign(runner, results).carry_out([each for each in PROCESS_PLAN if each.name == STAGE])
    return results


@pytest.mark.slow
@pytest.mark.parametrize("unique", ["os.getpid()", "number()"])
def test_a_sink_that_names_files_by_its_process_is_convicted(tmp_path: Path, unique: str) -> None:
    results = explored(tmp_path, unique)
    assert "job=in-containers no-fault" in {finding.schedule for finding in results.findings}
    assert {"O1"} <= {finding.oracle for finding in results.findings}


@pytest.mark.slow
@pytest.mark.parametrize("unique", ["os.getpid()}-{self.context.subtask", "self.context.subtask"])
def test_a_sink_that_names_them_by_its_subtask_is_acquitted(tmp_path: Path, unique: str) -> None:
    """Where no process id is named there is nothing to try."""
    results = explored(tmp_path, unique)
    assert [] == results.findings
    assert results.coverage.stages[0].finished
    assert ("getpid" in unique) is (results.coverage.stages[0].run > 10)


def test_only_the_named_modules_see_it(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("import os\nfrom os import getpid as number, sep\n")
    spec = importlib.util.spec_from_file_location("in_a_container", tmp_path / "module.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(seen_machine.sys.modules, "in_a_container", module)
        seen_machine.be_in_a_container([str(tmp_path / "module.py")])
    assert (1, 1, os.sep, os.getcwd()) == (module.os.getpid(), module.number(), module.sep, module.os.getcwd())
    assert os.getpid() > 1


def test_other_shells_refuse_the_job() -> None:
    contract = load("files/two-phase")
    assert "" == impossible(parse("job=in-containers no-fault"), contract, "process")
    for shell in ("simulated", "spark"):
        assert "Replay it with --on process" in impossible(parse("job=in-containers no-fault"), contract, shell)


def test_a_command_refuses_the_job() -> None:
    contract = copy(load("files/two-phase"))
    contract.kind = "command"
    assert "sinks in Python" in impossible(parse("job=in-containers no-fault"), contract, "process")
