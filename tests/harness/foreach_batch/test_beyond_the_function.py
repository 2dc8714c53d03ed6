"""What a foreachBatch function leaves to other modules, to files and to places outside of its folder."""

from __future__ import annotations

import re
from collections.abc import Callable

from sinkproof.campaign.task import Task
from sinkproof.certifier.claim_verdicts import judge_subject
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.chaos.clock import Deadline
from sinkproof.foreach_batch.certify_function import explore
from sinkproof.foreach_batch.function_campaign import SIMULATED_FUNCTION_PLAN, SimulatedFunctionCampaign
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load

from ...support.explored_functions import FUNCTIONS, explored, wrong


def test_a_function_is_crashed_at_the_lines_of_the_modules_that_it_imports(
    query: Callable[..., SimulatedQuery],
) -> None:
    exploration = explored(query("write", module="with_helper"), sequences=False)
    lost = [schedule for schedule, oracles in wrong(exploration).items() if "O1" in oracles]
    assert [schedule for schedule in lost if "line(helper_writer.py:" in schedule]


def test_a_file_effect_is_a_point_of_its_own(query: Callable[..., SimulatedQuery]) -> None:
    exploration = explored(query("replace"), sequences=False)
    passed = {fault.point for judged in exploration.states.values() for fault in judged.crashes}
    assert {"file.create", "file.rename"} <= passed


def test_rows_that_outlive_the_folder_leave_no_verdict(query: Callable[..., SimulatedQuery]) -> None:
    simulated = query("write", module="elsewhere")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    campaign = SimulatedFunctionCampaign(simulated, results, deadline=Deadline(5))
    campaign.carry_out(SIMULATED_FUNCTION_PLAN)
    assert re.search("12 rows of an earlier run are still there.*teardown", results.unknowns[0])
    assert [] == results.findings


def test_what_teardown_removes_is_crashed_by_real_deaths_only() -> None:
    contract = load(f"{FUNCTIONS}/elsewhere_removed.py:append")
    task = Task(locator=contract.locator, shell="simulated", budget_seconds=1)
    outcome = explore(contract, task, progress=SILENT)
    assert "its state after a crash cannot be copied" in outcome.deferred
    subject = SubjectProgress(contract, [outcome.result], deferred=[outcome.deferred])
    assert "unknown" == judge_subject(subject).verdict
    assert "run it --on spark as well" in judge_subject(subject).why
