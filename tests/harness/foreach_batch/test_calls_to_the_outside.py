"""Calls of a foreachBatch function to the outside fail: SQLite, services, and what no fault knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sinkproof.campaign.task import ShellOutcome
from sinkproof.certifier.claim_verdicts import judge_subject
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.chaos.clock import Deadline
from sinkproof.foreach_batch.function_campaign import (
    SIMULATED_FUNCTION_PLAN,
    WITHOUT_COPIES,
    SimulatedFunctionCampaign,
)
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.reports.document import SubjectResult
from sinkproof.reports.progress import SILENT
from sinkproof.subject.contract import Contract


@pytest.fixture
def campaign(query: Callable[..., SimulatedQuery]) -> Iterator[Callable[..., tuple[Contract, ShellOutcome]]]:
    used: list[SimulatedQuery] = []

    def of(function: str, *, module: str, stages: str = "") -> tuple[Contract, ShellOutcome]:
        """`stages`: how the names of those begin that are carried out."""
        simulated = query(function, module=module)
        used.append(simulated)
        contract, copies = simulated.contract, not simulated.contract.offers("teardown")
        results = FunctionResults(contract, simulated.scratch, progress=SILENT)
        plan = SIMULATED_FUNCTION_PLAN if copies else WITHOUT_COPIES
        explored = SimulatedFunctionCampaign(simulated, results, deadline=Deadline(0), copies=copies)
        explored.carry_out([stage for stage in plan if stage.name.startswith(stages)])
        return contract, results.outcome(seconds=1.0, closure=explored.closure() if copies else None)

    yield of
    for each in used:
        each.contract.call_if_there("teardown", each.scratch)


def broken(outcome: ShellOutcome) -> dict[str, str]:
    assert [] == outcome.unknowns
    return {each.schedule: each.oracle for each in outcome.findings if each.claimed}


def judged(contract: Contract, outcome: ShellOutcome) -> SubjectResult:
    subject = SubjectProgress(contract, [outcome.result], findings=outcome.findings, unknowns=outcome.unknowns)
    subject.lines_passed |= outcome.lines_passed
    subject.lines_struck |= outcome.lines_struck
    subject.add_code(outcome)
    subject.add_comparison(outcome)
    return judge_subject(subject)


def test_a_function_that_fails_without_a_fault_is_judged_no_further(
    campaign: Callable[..., tuple[Contract, ShellOutcome]],
) -> None:
    _, outcome = campaign("fail", module="without_spark")
    assert [] == list(outcome.findings)
    assert ["without any fault, with batch 1 the function raised ValueError"] == [
        why.partition(" at ")[0] for why in outcome.unknowns
    ]


@pytest.mark.slow
def test_rows_and_progress_in_one_transaction_of_sqlite_are_right(
    campaign: Callable[..., tuple[Contract, ShellOutcome]],
) -> None:
    contract, outcome = campaign("once", module="with_sqlite")
    assert {} == broken(outcome)
    assert {("file.change_rows", "error"), ("file.commit", "error")} <= outcome.calls_failed
    assert outcome.calls_passed <= outcome.calls_failed
    assert "upheld" == judged(contract, outcome).verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "schedule", "oracle"),
    [
        ("swallow_commit", "file.commit#2=error", "O1"),
        ("swallow_statement", "file.change_rows#3=error", "O1"),
        ("in_two_transactions", "file.commit#4=error", "O2"),
    ],
)
def test_what_is_wrong_when_sqlite_fails_is_found(
    campaign: Callable[..., tuple[Contract, ShellOutcome]], function: str, schedule: str, oracle: str
) -> None:
    _, outcome = campaign(function, module="with_sqlite", stages="errors")
    assert oracle == broken(outcome)[schedule]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "oracles"),
    [
        ("put", {}),
        ("put_unchecked", {"unavailable": {"O1"}, "throttled": {"O1"}}),
        ("swallow", {kind: {"O1"} for kind in ("error", "unanswered", "unavailable", "throttled", "closed")}),
        ("post", {kind: {"O2"} for kind in ("unanswered", "gateway-timeout", "bad-gateway")}),
    ],
)
def test_requests_to_a_service_fail_before_and_after_they_are_carried_out(
    campaign: Callable[..., tuple[Contract, ShellOutcome]], function: str, oracles: dict[str, set[str]]
) -> None:
    _, outcome = campaign(function, module="with_service", stages="errors")
    found: dict[str, set[str]] = {}
    for schedule, oracle in broken(outcome).items():
        if schedule.startswith("socket.send#"):
            found.setdefault(schedule.rpartition("=")[2], set()).add(oracle)
    assert oracles == found
    assert {("socket.send", "error"), ("socket.send", "unanswered")} <= outcome.calls_failed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "verdict", "why"),
    [
        pytest.param("raise_errors", "upheld", "", marks=pytest.mark.longer),
        pytest.param("clean_up", "upheld", "", marks=pytest.mark.longer),
        ("handle_errors", "unknown", "line(with_programs.py:24), which handles an error and raises none, never ran"),
        pytest.param(
            "suppress_errors", "unknown", "line(with_programs.py:29) suppresses errors", marks=pytest.mark.longer
        ),
        ("leave_large_batches", "unknown", "no run has executed with_programs.py:48"),
    ],
)
def test_what_no_run_has_shown_of_a_function_leaves_it_unknown(
    campaign: Callable[..., tuple[Contract, ShellOutcome]], function: str, verdict: str, why: str
) -> None:
    contract, outcome = campaign(function, module="with_programs")
    result = judged(contract, outcome)
    assert {} == broken(outcome)
    assert why in result.why
    assert verdict == result.verdict, result.why


@pytest.mark.slow
def test_a_real_query_alone_tries_no_error(campaign: Callable[..., tuple[Contract, ShellOutcome]]) -> None:
    contract, outcome = campaign("once", module="with_sqlite")
    result = judged(contract, replace(outcome, calls_failed=frozenset()))
    assert "unknown" == result.verdict
    assert "no error was tried before the call at file.change_rows and 1 more; run it --on simulated" in result.why
