"""Calls of a user's sink into the client of Kafka can fail: an attempt then fails in the middle of a commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.client_calls import POINT, REQUEST
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.fault_sites import first_of_each_call, passes
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.workload.job_names import REUSED_PROCESS_JOB

from ...support.real_services import end_own_services

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.usefixtures("started_for_contracts")]
SINKS = Path(__file__).parents[2] / "support/kafka_sinks.py"
CALLED_IN_COMMITS = ("begin_transaction", " producer.produce", "commit_transaction")


@pytest.fixture
def started_for_contracts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SINKPROOF_KAFKA", raising=False)
    yield
    end_own_services("kafka")


def calls_of_clients(baseline: RunResult) -> Iterator[tuple[Fault, str]]:
    """Of the first call from each line: the fault, and the text of the line."""
    lines, at = SINKS.read_text().splitlines(), dict[str, str]()
    chosen = {fault for fault in first_of_each_call(baseline, "error") if fault.point in (POINT, REQUEST)}
    for actor, point, occurrence in passes(baseline):
        if is_line(point):
            at[actor] = lines[int(point.rpartition(":")[2][:-1]) - 1]
        elif (fault := Fault(actor, point, occurrence, "error")) in chosen:
            yield fault, at[actor]


@pytest.mark.parametrize(
    ("name", "is_right"), [pytest.param("Marked", True, marks=pytest.mark.longer), ("RemembersBefore", False)]
)
def test_an_error_in_a_commit_convicts_what_the_process_remembers(name: str, is_right: bool) -> None:
    failed: dict[str, bool] = {}
    scratch = Scratch(name="errors", path=fresh_folder(), shell="process")
    with process_runner(load(f"{SINKS}:{name}"), scratch) as runner:
        baseline = runner.run(Schedule(), trace_lines=True)
        assert not baseline.anomalies
        for fault, line in calls_of_clients(baseline):
            result = runner.run(Schedule((fault,), job=REUSED_PROCESS_JOB))
            assert result.finished
            assert result.restarts == 1
            failed[line] = not result.anomalies
    in_commits = {line: right for line, right in failed.items() if any(word in line for word in CALLED_IN_COMMITS)}
    assert 4 == len(in_commits) < len(failed)
    assert {is_right} == set(in_commits.values())
    assert all(right for line, right in failed.items() if line not in in_commits)


@pytest.mark.parametrize(
    ("name", "restarts", "is_right"),
    [("SendsAgain", 0, False), pytest.param("Marked", 1, True, marks=pytest.mark.longer)],
)
def test_a_lost_reply_to_a_commit_convicts_what_sends_its_rows_again(name: str, restarts: int, is_right: bool) -> None:
    scratch = Scratch(name="lost", path=fresh_folder(), shell="process")
    with process_runner(load(f"{SINKS}:{name}"), scratch) as runner:
        baseline = runner.run(Schedule(), trace_lines=True)
        assert not baseline.anomalies
        lost = next(fault for fault in first_of_each_call(baseline, "unanswered") if fault.point == REQUEST)
        result = runner.run(Schedule((lost,)))
    assert result.finished
    assert restarts == result.restarts
    assert is_right == (not result.anomalies)
