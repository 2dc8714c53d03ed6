"""A sink that acknowledges many rows of a checkpoint, and raises an error whenever it is to commit them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.judging.fault_allowances import refused_although_acknowledged
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SINK = """
import json

from sinkproof import Claim

MOST = 8000

class Parts:
    def __init__(self, folder): self.folder, self.rows, self.pending = folder, [], {}
    def open(self, context):
        self.me = context.subtask
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish(f"part-{subtask}-{checkpoint}.json", rows)
    def write(self, batch):
        self.rows += [(row.split, row.offset, row.key, row.value) for row in batch]
    def snapshot(self, checkpoint):
        if IN_SNAPSHOT and len(self.rows) > MOST:
            raise ValueError("too many rows of one checkpoint")
        self.pending[checkpoint], self.rows = self.rows, []
        return json.dumps([*self.pending.items()]).encode()
    def notify_complete(self, checkpoint):
        for ready in [each for each in self.pending if each <= checkpoint]:
            self.publish(f"part-{self.me}-{ready}.json", self.pending.pop(ready))
    def publish(self, name, rows):
        if len(rows) > MOST:
            raise ValueError("too many results to unpack")
        temporary = self.folder / f"{name}.{self.me}.new"
        temporary.write_text(json.dumps(rows))
        temporary.rename(self.folder / name)

class Of:
    claims = Claim.EXACTLY_ONCE
    def sink(self, scratch): return Parts(scratch.path)
    def committed(self, scratch):
        for file in scratch.path.glob("*.json"):
            yield from json.loads(file.read_text())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("in_snapshot", "is_unknown"), [(False, True), (True, False)])
def test_it_leaves_the_claims_unknown(in_snapshot: bool, is_unknown: bool, tmp_path: Path) -> None:
    file, scratch = tmp_path / "parts.py", Scratch(name="data", path=tmp_path / "scratch", shell="process")
    file.write_text(SINK.replace("IN_SNAPSHOT", str(in_snapshot)))
    scratch.path.mkdir()
    with process_runner(load(f"{file}:Of"), scratch) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        for job in ("standard", "one-large-checkpoint"):
            results.add(runner.run(parse(f"job={job}")))
    assert [] == results.findings
    assert is_unknown is bool(results.unknowns)
    if is_unknown:
        (why,) = results.unknowns
        assert why.startswith(
            "with 20,000 rows of 100 characters for each sink in one checkpoint the sink acknowledged"
        )
        assert "ValueError: too many results to unpack" in why
        assert f"'job=one-large-checkpoint no-fault' {file}:Of --on process" in why


def history(*events: tuple[str, Any]) -> list[tuple[Any, ...]]:
    return [(1.0, "sink[0]", 1, what, detail) for what, detail in events]


@pytest.mark.parametrize(
    ("events", "refused"),
    [
        ([("complete", 1), ("raised", "SinkError: a"), ("raised", "SinkError: b")], "SinkError: b"),
        ([("raised", "SinkError: a"), ("acknowledged", 1)], ""),
        ([("raised", "SinkError: a"), ("complete", 1)], ""),
        ([("complete", 1), ("raised", "SinkError: a"), ("raised", "AttemptEnded: no reply within 10 s")], ""),
    ],
)
def test_it_counts_only_after_a_checkpoint_and_if_each_attempt_has_raised(
    events: list[tuple[str, Any]], refused: str
) -> None:
    assert refused == refused_although_acknowledged(history(*events))
