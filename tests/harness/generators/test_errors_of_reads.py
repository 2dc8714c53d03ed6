"""What cannot be read is not what is not there: reads fail, in a usual run and after the job has died."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.feasible import impossible
from sinkproof.generators.rare import errors_of_reads
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

from ...support.traces_of_calls import run_of

SUBJECTS = Path(__file__).parents[2] / "support/unread_tables.py"
STAGES = [stage for stage in PROCESS_PLAN if stage.name == "errors of reads, in a recovery, too"]
READ = ("line(table.py:7)", "file.read", "line(table.py:8)")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "found"), [("Unread", {"O1"}), ("Read", set())])
def test_an_error_of_a_read_is_not_an_empty_table(name: str, found: set[str], tmp_path: Path) -> None:
    with process_runner(load(f"{SUBJECTS}:{name}"), Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results).carry_out(STAGES)
        usual = runner.run(Schedule(), trace_lines=True)
    assert found == {finding.oracle for finding in results.findings}
    assert results.coverage.stages[0].run == 6, "two traced runs, and four errors"
    assert "file.read" not in {point for _, point in usual.trace}


def test_each_line_that_reads_fails_the_first_time_and_the_last_one() -> None:
    death = parse("job=failing-reads checkpoint.persist.after#2=kill-job").faults[0]

    def run(schedule: Schedule) -> RunResult:
        usual = replace(run_of(*READ, *READ, *READ, "line(table.py:9)", "file.read"), schedule=schedule)
        if not schedule.faults:
            return usual
        killed = run_of(*READ, *READ, *READ)
        at_death = (len(killed.names), death.point)
        names = [*killed.names, death.actor]
        trace = [*killed.trace[:3], at_death, at_death, *killed.trace[3:]]
        return replace(killed, schedule=schedule, names=names, trace=trace)

    campaign: Any = SimpleNamespace(run_traced=run)
    assert {
        *("job=failing-reads sink[0].file.read#1=error", "job=failing-reads sink[0].file.read#3=error"),
        "job=failing-reads sink[0].file.read#4=error",
        f"job=failing-reads {death} sink[0].file.read#2=error",
        f"job=failing-reads {death} sink[0].file.read#3=error",
    } == {str(schedule) for schedule in errors_of_reads(campaign)}


@pytest.mark.parametrize(("shell", "is_possible"), [("process", True), ("simulated", False), ("spark", False)])
def test_only_processes_have_reads_that_fail(shell: str, is_possible: bool) -> None:
    contract = load(f"{SUBJECTS}:Read")
    assert is_possible is not bool(impossible(parse("job=failing-reads sink[0].file.read#1=error"), contract, shell))
