"""A branch that only far more data reaches is executed, and faults strike there."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

pytestmark = pytest.mark.slow
STAGES = ("one whole-job kill in each job", "far larger data, while statements never ran")
SINK = """\
import json, os
from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.pending = folder, [], {{}}

    def open(self, context):
        self.context = context
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish(f"{{subtask}}-{{checkpoint}}", rows)

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]
        {branch}

    def many(self):
        {when_many}

    def snapshot(self, checkpoint_id):
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id):
        for older in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(f"{{self.context.subtask}}-{{older}}", self.pending.pop(older))

    def publish(self, name, rows):
        temporary = self.folder / f"temp-{{self.context.subtask}}-{{self.context.generation}}"
        temporary.write_text(json.dumps(rows))
        os.replace(temporary, self.folder / f"{{name}}.json")


class Of:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())
"""


def explored(folder: Path, *, branch: str, when_many: str = "self.large = True") -> tuple[CampaignResults, list[str]]:
    """The results of recoveries and of that stage, and the statements that have not run after them."""
    file = folder / f"sink_of_{folder.name}.py"
    file.write_text(SINK.format(branch=branch, when_many=when_many))
    contract = load(f"{file}:Of")
    (folder / "scratch").mkdir()
    scratch = Scratch(name="data", path=folder / "scratch", shell="process")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, scratch) as runner:
        campaign = ProcessCampaign(runner, results)
        campaign.carry_out([stage for stage in PROCESS_PLAN if stage.name in STAGES])
    return results, [statement.point for statement in campaign.unexecuted]


def test_a_branch_behind_many_rows_runs_and_its_lines_are_struck(tmp_path: Path) -> None:
    results, unexecuted = explored(tmp_path, branch="if len(self.rows) > 15000: self.many()")
    assert [] == unexecuted
    assert [] == results.findings
    line = next(line for line in results.coverage.lines_passed if line.endswith(":20)"))
    assert all(line in lines for lines in results.coverage.lines_by_kind.values())


def test_what_is_wrong_behind_many_rows_is_convicted(tmp_path: Path) -> None:
    results, _ = explored(tmp_path, branch="if len(self.rows) > 15000: self.many()", when_many="self.rows.pop()")
    assert {"O1"} == {finding.oracle for finding in results.findings}
    assert all("job=far-larger-data" in finding.schedule for finding in results.findings)


def test_a_sink_without_such_a_branch_is_not_given_more_data(tmp_path: Path) -> None:
    results, unexecuted = explored(tmp_path, branch="self.many()")
    assert [] == unexecuted
    assert 0 == results.coverage.stages[1].run
