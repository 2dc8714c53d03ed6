"""A library that can be used once in a process: the simulated shell leaves such a sink to real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.campaign_budget import conclude
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SINKS = """
import json
from sinkproof import Claim

OPEN = []

class Once:
    def __init__(self, folder):
        self.folder = folder

    def is_committed(self, part):
        self.begin()
        return (self.folder / f"{part}.json").exists()

    def begin(self):
        if OPEN and OPEN[0] is not self:
            raise RuntimeError("already open in this process")
        OPEN[:] = [self]

    def publish(self, part, rows):
        self.begin()
        temporary = self.folder / f"{part}.new"
        temporary.write_text(json.dumps([[row.split, row.offset] for row in rows]))
        temporary.rename(self.folder / f"{part}.json")

    def record(self, part):
        "Nothing: the file is the mark."

class Never(Once):
    def begin(self):
        raise RuntimeError("never open")

class InOneProcess:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES | Claim.NO_EARLY_ROWS
    made = Once

    def sink(self, scratch):
        return self.made(scratch.path)

    def committed(self, scratch):
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())

class Nowhere(InOneProcess):
    made = Never
"""


@pytest.mark.parametrize(
    ("name", "in_processes"),
    [
        ("InOneProcess", []),
        ("Nowhere", ["without any fault the job came to nothing: SinkError: RuntimeError: never open"]),
    ],
)
def test_what_only_a_simulation_cannot_run_is_left_to_processes(
    name: str, in_processes: list[str], tmp_path: Path
) -> None:
    file = tmp_path / f"{name.lower()}.py"
    file.write_text(SINKS)
    contract, results = load(f"{file}:{name}"), {}
    for shell in ("simulated", "process"):
        (tmp_path / shell).mkdir()
        scratch = Scratch(name="once", path=tmp_path / shell, shell=shell)
        results[shell] = CampaignResults(contract=contract, shell=shell)
        if shell == "simulated":
            with ScheduleRunner(contract, scratch) as simulated:
                SimulatedCampaign(simulated, results[shell]).carry_out([])
        else:
            with process_runner(contract, scratch) as processes:
                ProcessCampaign(processes, results[shell]).carry_out([])
    outcome = conclude(results["simulated"], seconds=1.0, closure=None)
    assert ([], []) == (outcome.unknowns, outcome.findings)
    assert outcome.deferred.startswith("the simulated shell could not crash it: without any fault the job came to")
    assert in_processes == results["process"].unknowns
