"""All sinks of one generation die before they have fenced anything: the next one has two generations to fence. Or one
of them fences for all, and opens last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.zombies_and_deaths import successors_that_all_die
from sinkproof.generators.zombies_beside_successors import zombies_beside_openings
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SINK = """
import json

from sinkproof import Claim, Fenced

class Staged:
    def __init__(self, folder): self.folder, self.rows = folder, []
    def open(self, context):
        self.me, self.generation = context.subtask, context.generation
        for generation in {REVOKED} if {REVOKES} else []:
            (self.folder / f"revoked-{{generation}}").touch()
        for file in self.folder.glob(f"staged-*-{{self.me}}-*"):
            _, checkpoint, _, generation = file.name.split("-")
            if int(checkpoint) > (context.checkpoint_id_restored or 0) and int(generation) < self.generation:
                file.unlink(missing_ok=True)
        self.show(context.checkpoint_id_restored or 0)
    def write(self, batch): self.rows += [(row.split, row.offset) for row in batch]
    def snapshot(self, checkpoint):
        self.check()
        (self.folder / f"staged-{{checkpoint}}-{{self.me}}-{{self.generation}}").write_text(json.dumps(self.rows))
        self.rows = []
        return b""
    def check(self):
        if (self.folder / f"revoked-{{self.generation}}").exists():
            raise Fenced
    def notify_complete(self, checkpoint):
        self.check()
        self.show(checkpoint)
    def show(self, checkpoint): (self.folder / f"shown-{{checkpoint}}").touch()

class Of:
    claims = Claim.EXACTLY_ONCE
    def sink(self, scratch): return Staged(scratch.path)
    def committed(self, scratch):
        shown = max((int(file.name.split("-")[1]) for file in scratch.path.glob("shown-*")), default=0)
        for file in scratch.path.glob("staged-*"):
            if int(file.name.split("-")[1]) <= shown:
                yield from json.loads(file.read_text())
"""
LAST_ALONE = "[self.generation - 1]"
ALL = "range(self.generation - 3, self.generation)"


def results_of(
    source: str, schedules: Callable[[ProcessCampaign], Iterable[Schedule]], folder: Path
) -> list[RunResult]:
    (folder / "staging.py").write_text(source)
    (folder / "scratch").mkdir()
    contract = load(f"{folder / 'staging.py'}:Of")
    with process_runner(contract, Scratch(name="data", path=folder / "scratch", shell="process")) as runner:
        campaign = ProcessCampaign(runner, CampaignResults(contract=contract, shell="process"))
        campaign.prepare()
        return [runner.run(schedule) for schedule in schedules(campaign)]


@pytest.mark.slow
@pytest.mark.parametrize(("revoked", "found"), [(LAST_ALONE, {"O2"}), (ALL, set())])
def test_only_the_last_generation_is_fenced(revoked: str, found: set[str], tmp_path: Path) -> None:
    source = SINK.format(REVOKED=revoked, REVOKES=True)
    results = results_of(source, successors_that_all_die, tmp_path)
    assert 9 == len(results)
    assert all(len(result.schedule.faults) == 1 + 2 for result in results)
    assert all(result.fired and result.finished for result in results)
    oracles = {anomaly.oracle for result in results for anomaly in result.anomalies}
    assert found == oracles - {"O3", "O9"}
    assert bool(found) == bool(oracles)


@pytest.mark.slow
@pytest.mark.parametrize(("revokes", "found"), [("self.me == 0", {"O2"}), (True, set())])
def test_one_subtask_fences_for_all_and_opens_last(revokes: object, found: set[str], tmp_path: Path) -> None:
    """The zombie is suspended before its look at the fence; behind that look both would be wrong."""
    source = SINK.format(REVOKED=ALL, REVOKES=revokes)
    results = results_of(source, lambda campaign: islice(zombies_beside_openings(campaign), 1), tmp_path)
    assert [("open",)] == [result.schedule.orders for result in results]
    assert all(result.fired and result.finished for result in results)
    assert found == {anomaly.oracle for result in results for anomaly in result.anomalies}
