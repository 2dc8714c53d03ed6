"""Points that only threads of a sink pass: the simulated shell takes no crash there, and leaves them to processes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.campaign_budget import conclude
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.simulated_plan import FIRST
from sinkproof.certifier.not_examined import not_examined
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SINK: Final = """\
import json, os
from concurrent.futures import ThreadPoolExecutor
from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.pool = folder, ThreadPoolExecutor(1)

    def is_committed(self, part):
        return (self.folder / f"{{part}}.json").exists()

    def publish(self, part, rows):
        rows = [[row.split, row.offset] for row in rows]
        {call}

    def put(self, part, rows):
        temporary = self.folder / f"{{part}}.new"
        temporary.write_text(json.dumps(rows))
        os.rename(temporary, self.folder / f"{{part}}.json")

    def record(self, part):
        pass


class Of:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        for file in scratch.path.glob("*.json"):
            yield from json.loads(file.read_text())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "in_threads"),
    [
        ("self.put(part, rows)", []),
        ("self.pool.submit(self.put, part, rows).result()", ["file.create", "file.rename"]),
    ],
)
def test_what_only_threads_pass_is_left_to_the_process_shell(call: str, in_threads: list[str], tmp_path: Path) -> None:
    (tmp_path / "pooled.py").write_text(SINK.format(call=call))
    (tmp_path / "scratch").mkdir()
    contract = load(f"{tmp_path / 'pooled.py'}:Of")
    results = CampaignResults(contract=contract, shell="simulated")
    with ScheduleRunner(contract, Scratch(name="data", path=tmp_path / "scratch")) as runner:
        SimulatedCampaign(runner, results, mixed_seconds=1.0).carry_out(FIRST)
    assert in_threads == results.coverage.only_in_threads()
    assert {"file.create", "file.rename"}.isdisjoint(results.coverage.never_struck())
    outcome = conclude(results, seconds=1.0, closure=None)
    subject = SubjectProgress(contract, [outcome.result], deferred=[outcome.deferred] if outcome.deferred else [])
    assert bool(in_threads) is (
        "which only threads of the sink's own pass; run it --on process" in not_examined(subject)
    )
