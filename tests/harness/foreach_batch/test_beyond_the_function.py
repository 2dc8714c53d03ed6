"""What a foreachBatch function leaves to other modules, to files and to places outside of its folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.task import Task
from sinkproof.certifier.claim_verdicts import judge_subject
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.chaos.clock import Deadline
from sinkproof.foreach_batch.certify_function import explore, prepared_scratch
from sinkproof.foreach_batch.function_campaign import SIMULATED_FUNCTION_PLAN, SimulatedFunctionCampaign
from sinkproof.foreach_batch.function_canaries import NAMES, blind_to_users, laid_out
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.reference_engine.shells.spark.java_installation import SparkUnavailable
from sinkproof.reports.progress import SILENT
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

from ...support.explored_functions import FUNCTIONS, Frame, explored, wrong


@pytest.mark.slow
def test_a_function_is_crashed_at_the_lines_of_the_modules_that_it_imports(
    query: Callable[..., SimulatedQuery],
) -> None:
    exploration = explored(query("write", module="with_helper"), sequences=False)
    lost = [schedule for schedule, oracles in wrong(exploration).items() if "O1" in oracles]
    assert [schedule for schedule in lost if "line(helper_writer.py:" in schedule]


@pytest.mark.slow
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


@pytest.mark.longer
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # PySpark 4.0 closes no such socket
def test_what_teardown_removes_is_crashed_by_real_deaths_only() -> None:
    contract = load(f"{FUNCTIONS}/elsewhere_removed.py:append")
    task = Task(locator=contract.locator, shell="simulated", budget_seconds=1)
    outcome = explore(contract, task, progress=SILENT)
    assert "its state after a crash cannot be copied" in outcome.deferred
    subject = SubjectProgress(contract, [outcome.result], deferred=[outcome.deferred])
    assert "unknown" == judge_subject(subject).verdict
    assert "run it --on spark as well" in judge_subject(subject).why


# -- canaries of the same kind, which are tried before each certificate of a function ----------------


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Tries them without Spark, after `change` was applied to their contracts."""
    scratch = Scratch(name="canaries", path=tmp_path / "scratch")
    scratch.path.mkdir()
    monkeypatch.chdir(scratch.path)
    session: Any = Frame(range(0))

    def blind(*, change: Callable[[dict[str, Contract]], None] = lambda contracts: None) -> list[str]:
        contracts = laid_out(tmp_path / "canaries")
        change(contracts)
        return blind_to_users(scratch, session, contracts)

    return blind


@pytest.mark.slow
def test_canaries_in_code_of_users_are_judged_as_they_are(canaries: Callable[..., list[str]]) -> None:
    assert [] == canaries()


@pytest.mark.slow
def test_without_points_in_a_helper_the_shell_is_blind(canaries: Callable[..., list[str]]) -> None:
    def only_its_own_file(contracts: dict[str, Contract]) -> None:
        for contract in contracts.values():
            contract.given.files = {str(contract.given.file): "canary_functions.py"}

    assert ["canary marks_in_helper_first was not crashed", "control marks_in_helper_last was not crashed"] == [
        " ".join(reason.split()[1:6]) for reason in canaries(change=only_its_own_file)
    ]


@pytest.mark.slow
def test_rows_that_are_not_seen_after_a_run_make_the_shell_blind(canaries: Callable[..., list[str]]) -> None:
    def reads_the_folder_only(contracts: dict[str, Contract]) -> None:
        contracts[NAMES[2]].given.committed = lambda scratch: ()

    (reason,) = canaries(change=reads_the_folder_only)
    assert "left outside of the folder were not seen" in reason


@pytest.mark.parametrize("ends", [nullcontext, partial(pytest.raises, ContractError)])
def test_what_setup_has_made_is_removed_in_the_end(
    ends: Callable[[], AbstractContextManager[object]], query: Callable[..., SimulatedQuery]
) -> None:
    contract = query("put", module="with_native_client").contract
    servers = sys.modules[contract.given.write_batch.__module__].SERVERS
    task = Task(locator=contract.locator, shell="simulated", budget_seconds=0)
    with ends() as fails, prepared_scratch(contract, task, progress=SILENT) as scratch:
        contract.call_if_there("setup", scratch)
        assert 1 == len(servers)
        if fails is not None:
            raise SparkUnavailable("no JVM")
    assert [] == servers
