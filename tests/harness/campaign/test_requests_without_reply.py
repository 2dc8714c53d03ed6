"""A request is carried out, or lost, and nothing comes back: clients with a timeout go on, others are killed later."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkproof.campaign.outward_calls_plan import NATIVE_CODE
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage, StageCoverage
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.feasible import impossible
from sinkproof.generators.native_calls import requests_without_reply
from sinkproof.generators.single_faults import refused_requests
from sinkproof.reference_engine.shells.process import attempt_host
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.static_analysis.reachable_lines import handles_timeouts

from ...support.traces_of_calls import run_of

SUBJECTS = Path(__file__).parents[2] / "support/timed_client.py"
STAGES = [
    stage for stage in NATIVE_CODE if stage.name in ("outward calls that no line explains", "requests without reply")
]
SENT = "syscall(sendto socket)"


@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("SentUnderAnotherName", {"O2"}),
        ("TakenForDone", {"O1"}),
        pytest.param("SentAgain", set(), marks=pytest.mark.longer),
    ],
)
def test_what_is_sent_again_when_its_timeout_is_over_is_there_once_or_twice(
    name: str, found: set[str], tmp_path: Path
) -> None:
    contract, scratch = load(f"{SUBJECTS}:{name}"), Scratch(name="timed", path=tmp_path, shell="process")
    with process_runner(contract, scratch) as runner:
        results = CampaignResults(contract=contract, shell="process")
        ProcessCampaign(runner, results).carry_out(STAGES)
    assert len(STAGES) == 2
    assert found == {finding.oracle for finding in results.findings}
    assert results.coverage.stages[1].run > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"), [("LateRepliesTaken", {"O1"}), pytest.param("LateRepliesLeft", set(), marks=pytest.mark.longer)]
)
def test_a_connection_that_goes_on_after_a_timeout_has_the_replies_of_other_requests(
    name: str, found: set[str], tmp_path: Path
) -> None:
    contract, scratch = load(f"{SUBJECTS}:{name}"), Scratch(name="late", path=tmp_path, shell="process")
    late = Stage(
        name="late",
        schedules=lambda campaign: (
            schedule for schedule in refused_requests(campaign) if schedule.faults[-1].kind == "late-reply"
        ),
    )
    with process_runner(contract, scratch) as runner:
        results = CampaignResults(contract=contract, shell="process")
        ProcessCampaign(runner, results).carry_out([late])
    assert found == {finding.oracle for finding in results.findings}
    assert ([], []) == (results.unknowns, results.coverage.unfired)
    assert results.coverage.stages[0].run > 3


@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["silent", "black-hole"])
def test_an_attempt_that_waits_without_a_timeout_is_killed_and_replaced(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_host, "IN_VAIN_SECONDS", 0.5)
    contract = load(f"{SUBJECTS}:SentWithoutTimeout")
    with process_runner(contract, Scratch(name="waits", path=tmp_path, shell="process")) as runner:
        result = runner.run(parse(f"sink[0].{SENT}#1={kind}"))
    assert (True, True, (), 1) == (result.fired, result.finished, result.anomalies, result.kills)


def test_the_last_call_of_a_request_has_no_reply_first_in_commits() -> None:
    request = ("line(client.py:7)", SENT, SENT)
    writes = ("write.before", *request, "write.after")
    commits = ("notify_complete.before", "line(client.py:8)", SENT, SENT, SENT, "notify_complete.after")
    schedules = list(map(str, requests_without_reply(run_of(*writes, *commits))))
    assert [f"sink[0].{SENT}#{time}={kind}" for time in (5, 2) for kind in ("silent", "black-hole")] == schedules


@pytest.mark.parametrize(
    "kind", ["silent", "black-hole", "refused-statement", "lock-timeout", "short-write", "kill-program"]
)
def test_they_strike_at_system_calls_only(kind: str) -> None:
    contract = load(f"{SUBJECTS}:SentWithoutTimeout")
    assert "strikes at system calls" in impossible(parse(f"sink[0].socket.send#1={kind}"), contract, "process")
    at_a_call = f"sink[0].syscall({'write out' if kind == 'short-write' else 'sendto socket'})#1={kind}"
    assert "" == impossible(parse(at_a_call), contract, "process")


def test_of_files_no_request_is_known() -> None:
    assert [] == requests_without_reply(run_of("notify_complete.before", "syscall(write out)", "notify_complete.after"))


@pytest.mark.parametrize(
    ("clause", "names_one"),
    [
        ("except TimeoutError:", True),
        ("except (ValueError, requests.ReadTimeout):", True),
        ("except OperationTimedOut:", True),
        ("except socket.timeout as error:", True),
        ("except OSError:", False),
        ("except:", False),
    ],
)
def test_clauses_that_name_a_timeout_are_known(clause: str, names_one: bool, tmp_path: Path) -> None:
    file = tmp_path / "client.py"
    file.write_text(f"try:\n    pass\n{clause}\n    pass\n")
    assert names_one is handles_timeouts([str(file)])


@pytest.mark.parametrize(
    ("call", "goes_on"),
    [
        ("done, pending = await asyncio.wait(tasks, timeout=5)", True),
        ("self.flushed.wait(timeout=5)", True),
        ("left = producer.flush(timeout=5)", True),
        ("if not self.sender.flush(1.0): pass", True),
        ("self.changed.wait_for(self.is_done, self.timeout)", True),
        ("thread.join(WAIT_SECONDS)", True),
        ("producer.poll(0)", False),
        ("','.join(names)", False),
        ("await asyncio.wait(tasks)", False),
        ("connect(timeout=5)", False),
    ],
)
def test_calls_that_return_when_their_timeout_is_over_are_known(call: str, goes_on: bool, tmp_path: Path) -> None:
    file = tmp_path / "client.py"
    file.write_text(f"async def send():\n    {call}\n")
    assert goes_on is handles_timeouts([str(file)])


def test_where_none_is_known_the_stage_says_why() -> None:
    (stage,) = (each for each in STAGES if each.name == "requests without reply")
    campaign: Any = SimpleNamespace(unanswered_for_long=[], stage=StageCoverage(name=stage.name))
    assert [] == [*stage.schedules(campaign)]
    assert "time limit" in campaign.stage.skipped
    campaign = SimpleNamespace(unanswered_for_long=[Schedule()], stage=StageCoverage(name=stage.name))
    assert ([Schedule()], "") == ([*stage.schedules(campaign)], campaign.stage.skipped)
