"""Sinks in Python that commit by native code: killed inside of it; and their right siblings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.baseline import why_not_watched
from sinkproof.campaign.loop import ShouldStop
from sinkproof.campaign.outward_calls_plan import NATIVE_CODE
from sinkproof.campaign.outward_coverage import OutwardCoverage
from sinkproof.campaign.process_campaign import LARGE_CALLS_SECONDS_MOST, ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Plan
from sinkproof.certifier.claim_verdicts import judge_subject
from sinkproof.certifier.not_examined import beside_upheld, not_examined
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.chaos.system_calls.supervisor import UNREADABLE
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.fault_sites import KINDS_AT_CALLS
from sinkproof.generators.native_calls import (
    after_new_calls,
    bursts,
    distinct,
    edges_of,
    kills_in_native_code,
    unexplained,
)
from sinkproof.judging.oracle import Anomaly
from sinkproof.reports.coverage_text import code_lines
from sinkproof.reports.document import OutwardCalls, ShellResult
from sinkproof.reports.json_files import plain
from sinkproof.subject.claims import Claim
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder

from ...support.traces_of_calls import SYNC, WRITE, run_of

SINKS = Path(__file__).parents[2] / "support/native_commits.py"
CLIENTS = SINKS.with_name("native_client.py")
COMMITS = SINKS.with_name("disturbed_commits.py")
needs_watch = pytest.mark.usefixtures("watch_of_system_calls")


@contextmanager
def runner_of(name: str, *, sinks: Path = SINKS) -> Iterator[ProcessRunner]:
    contract = load(f"{sinks}:{name}")
    with (
        scratch_folder() as folder,
        process_runner(contract, Scratch(name="native", path=folder, shell="process"), hang_seconds=600) as runner,
    ):
        yield runner


def oracles(result: RunResult) -> set[str]:
    assert result.fired, result.schedule
    return {anomaly.oracle for anomaly in result.anomalies}


@needs_watch
@pytest.mark.slow
def test_a_commit_without_a_journal_is_wrong_between_two_calls_of_one_line_only() -> None:
    with runner_of("NoJournal") as runner:
        number = next(at for at, text in enumerate(SINKS.read_text().splitlines(), 1) if '"COMMIT"' in text)
        before, first, within = (
            runner.run(parse(schedule))
            for schedule in (
                f"sink[0].line(native_commits.py:{number})#1=kill",
                "sink[0].syscall(pwrite64 store.db)#1=kill",
                "sink[0].syscall(pwrite64 store.db)#3=kill",
            )
        )
    assert [set(), set()] == [oracles(before), oracles(first)]
    assert {"O1", "O2"} & oracles(within)
    assert within.struck_line is not None
    assert ("native_commits.py", number) == (within.struck_line.file, within.struck_line.number)
    assert 1 == within.kills


def campaign(
    runner: ProcessRunner, *, plan: Plan = NATIVE_CODE[:3], should_stop: ShouldStop = lambda results: False
) -> CampaignResults:
    results = CampaignResults(contract=runner.contract, shell="process")
    ProcessCampaign(runner, results, should_stop=should_stop).carry_out(plan)
    return results


@needs_watch
@pytest.mark.slow
def test_a_campaign_finds_a_copy_that_is_there_before_it_is_whole() -> None:
    with runner_of("Copied") as runner:
        results = campaign(runner)
    document = results.coverage.outward.document()
    assert document is not None
    assert ["syscall(sendfile rows-*-*)", "syscall(write staged-*-*)"] == document.names
    assert ("O1", "sink[0].syscall(sendfile rows-*-*)#1=kill") == (
        results.findings[0].oracle,
        results.findings[0].schedule,
    )


@needs_watch
@pytest.mark.slow
@pytest.mark.parametrize(("name", "found"), [("SharedLog", True), ("SharedLogInOnePiece", False)])
def test_a_campaign_pauses_between_the_pieces_that_only_large_batches_are_written_in(name: str, found: bool) -> None:
    def is_found(results: CampaignResults) -> bool:
        lost = {finding.schedule for finding in results.findings if finding.oracle == "O1"}
        return "job=large-batches sink[0].syscall(write log)#2=pause" in lost

    with runner_of(name, sinks=COMMITS) as runner:
        [large] = [stage for stage in NATIVE_CODE if "outward calls of large batches" in stage.name]
        results = campaign(runner, plan=[NATIVE_CODE[0], large], should_stop=is_found)
    assert found == is_found(results)
    assert found == bool(results.findings)


@needs_watch
@pytest.mark.slow
def test_its_right_sibling_is_killed_held_back_and_failed_there_and_stays_right() -> None:
    place = "sink[1].syscall(write staged-*-*)#1"
    with runner_of("Renamed") as runner:
        results = campaign(runner)
        struck = [runner.run(parse(f"{place}={kind}")) for kind in ("stop", "land", "pause", "error")]
    assert [] == results.findings
    assert [set()] * 4 == list(map(oracles, struck))
    document = results.document(seconds=1.0)
    assert document.outward is not None
    assert (2, 2, 4) == (document.outward.calls, document.outward.killed, document.outward.calls_alike)
    subject = SubjectProgress(runner.contract, shells=[document])
    (sentence,) = code_lines(plain(judge_subject(subject)))
    assert sentence.startswith("killed before each of 2 outward calls made by native code (4 more are the same ones")


@needs_watch
@pytest.mark.slow
def test_nothing_is_struck_where_each_line_makes_one_call() -> None:
    with runner_of("Forced") as runner:
        results = campaign(runner)
        watched = runner.run_watched(Schedule())
    looked, killed, failed = results.coverage.stages
    assert (1, 0) == (looked.run, killed.run)
    assert [] == results.findings
    assert ("syscall(fsync staged-*-*)", "error") in results.coverage.calls_failed
    assert "explained by a line" in killed.skipped
    assert failed.run == 12  # the first and the last write, fsync of the file, and of the folder; in a recovery, too
    assert results.coverage.outward.document() is None
    calls = {point for _, point in watched.trace if point.startswith("syscall(")}
    assert "syscall(rename rows-*-*)" in calls
    assert not [call for call in calls if "socket" in call]  # the replies of the attempt itself


@needs_watch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("", set(), marks=pytest.mark.longer),
        ("Swallowed", {("O1", "error")}),
        pytest.param("Repeated", {("O2", "unanswered")}, marks=pytest.mark.longer),
    ],
)
def test_requests_of_a_client_in_c_fail_before_and_after_their_effect(name: str, found: set[tuple[str, str]]) -> None:
    with runner_of(f"OnServer{name}", sinks=CLIENTS) as runner:
        results = campaign(runner)
    assert found == {(each.oracle, each.schedule.rpartition("=")[2]) for each in results.findings}
    assert {("syscall(sendto socket)", kind) for kind in KINDS_AT_CALLS} <= results.coverage.calls_failed
    failed = results.coverage.stages[-1]
    assert (True, "") == (failed.finished, failed.skipped)


@needs_watch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("LogsErrors", {"job=sparse sink[0].syscall(write log-*-*)#1=error checkpoint.persist.after#2=kill-job"}),
        ("RaisesErrors", set()),
    ],
)
def test_a_write_that_fails_and_is_kept_in_memory_alone_is_lost_with_a_later_death(name: str, found: set[str]) -> None:
    with runner_of(name) as runner:
        results = campaign(runner)
    assert found == {finding.schedule for finding in results.findings}


def test_the_first_call_after_a_point_is_explained_by_it_and_no_other() -> None:
    result = run_of("line(a.py:1)", WRITE, "line(a.py:2)", WRITE, WRITE, SYNC, "write.after", SYNC)
    assert {("sink[0]", WRITE, 3), ("sink[0]", SYNC, 1)} == unexplained(result)


def test_no_point_explains_a_call_of_another_thread() -> None:
    result = run_of("line(a.py:1)", WRITE, "line(a.py:2)", WRITE, "line(a.py:3)", WRITE, apart=2)
    assert {("sink[0]", WRITE, 2)} == unexplained(result)


def test_of_the_same_calls_after_the_same_line_the_first_and_the_last_are_struck() -> None:
    once = ("line(a.py:1)", WRITE, WRITE, SYNC)
    result = run_of(*once, *once, "line(a.py:1)", WRITE, WRITE, WRITE, WRITE, SYNC)
    assert [1, 3] == [number for number, burst in enumerate(bursts(result), 1) if burst in distinct(bursts(result))]
    kills = kills_in_native_code(result)
    assert [(WRITE, 2), (WRITE, 6), (SYNC, 1), (WRITE, 7), (WRITE, 8), (SYNC, 3)] == [
        (kill.point, kill.occurrence) for kill in kills
    ]
    assert {(WRITE, 2), (WRITE, 6), (SYNC, 1), (WRITE, 8), (SYNC, 3)} == {
        (kill.point, kill.occurrence) for kill in kills_in_native_code(result, edges=True)
    }


def test_edges_are_the_first_and_the_last_of_calls_with_one_name() -> None:
    places = [(WRITE, 1), (WRITE, 2), (WRITE, 3), (SYNC, 1), (WRITE, 4)]
    assert [(WRITE, 1), (WRITE, 3), (SYNC, 1), (WRITE, 4)] == edges_of(places)


@pytest.mark.parametrize(
    ("recorded", "why"),
    [
        ({}, ""),
        ({"unwatched": "the kernel lacks it"}, "the kernel lacks it"),
        ({"unseen": ("it maps rows into its memory",)}, ""),
        ({"unseen": (f"{UNREADABLE}: no right",)}, f"{UNREADABLE}: no right"),
        (
            {"finished": False, "failure": "no sudo"},
            "under the watch a run without faults fails: without ",
        ),
        (
            {"anomalies": (Anomaly(oracle="O1", why="4 rows lost"),)},
            "under the watch a run without faults fails: 4 rows lost",
        ),
        ({"anomalies": (Anomaly(oracle="O3", why="no claim"),)}, ""),
    ],
)
def test_a_run_without_faults_that_fails_under_the_watch_convicts_nothing(recorded: dict[str, Any], why: str) -> None:
    said = why_not_watched(replace(run_of(WRITE), **{"rows_committed": 24, **recorded}), claims=Claim.AT_LEAST_ONCE)
    assert said.startswith(why)
    assert bool(why) is bool(said)


def test_faults_come_between_and_after_the_calls_that_only_larger_batches_lead_to() -> None:
    usual = run_of("line(a.py:1)", WRITE, "line(a.py:2)", WRITE, WRITE, "line(a.py:3)", SYNC)
    longer = (
        "line(a.py:1)",
        WRITE,
        "line(a.py:2)",
        WRITE,
        WRITE,
        WRITE,
        "line(a.py:2)",
        SYNC,
        SYNC,
        "line(a.py:3)",
        SYNC,
    )
    larger = replace(run_of(*longer), schedule=Schedule(job="large-batches"))
    found = [str(schedule) for schedule in after_new_calls(larger, usual)]
    assert found == [
        f"job=large-batches sink[0].{SYNC}#{occurrence}={kind}"
        for occurrence in (2, 3)
        for kind in ("kill", "pause", "stop")
    ]
    assert [] == after_new_calls(usual, usual)
    opened = run_of("open.before", "line(a.py:2)", WRITE, WRITE)
    assert [f"sink[0].{WRITE}#2=kill"] == list(map(str, after_new_calls(opened, usual, kinds=("kill",))))


def judged(**outward: object) -> SubjectProgress:
    shell = ShellResult(
        shell="process",
        schedules_run=1,
        schedules_in_bound=1,
        kills=1,
        seconds=1.0,
        outward=OutwardCalls(native=True, **outward),  # type: ignore[arg-type]
    )
    return SubjectProgress(load(f"{SINKS}:Renamed"), shells=[shell])


def test_where_no_call_is_watched_only_native_code_of_the_users_own_is_unknown() -> None:
    assert "" == not_examined(judged(unwatched="the kernel lacks it"))
    assert "interior of native code not explored: the kernel lacks it" in list(
        beside_upheld(judged(unwatched="the kernel lacks it"))
    )
    why = "interior of native code not explored (my_sink._core), because the kernel lacks it"
    assert why == not_examined(judged(unwatched="the kernel lacks it", native_modules=["my_sink._core"]))


def test_kills_in_native_code_that_are_missing_leave_unknown() -> None:
    why = not_examined(judged(calls=9, killed=2, left=["sink[0].syscall(write rows)#2=kill"], left_total=7))
    assert why.startswith("7 of 9 kills before outward calls of native code did not strike, such as sink[0]")


@needs_watch
@pytest.mark.slow
def test_the_server_of_a_sink_in_python_is_named_with_what_was_not_examined_of_it() -> None:
    """Deduplication by a marker that expires at the server is right in every run: no fault moves that clock."""
    contract = load(f"{SINKS.parents[1] / 'zoo/own_service.py'}:Puts")
    with scratch_folder() as folder:
        scratch = Scratch(name="native", path=folder, shell="process")
        with process_runner(contract, scratch, hang_seconds=600) as runner:
            shell = campaign(runner).document(seconds=1.0)
    assert shell.outward is not None
    assert 1 <= len(shell.outward.peers)
    assert all(peer.startswith("127.0.0.1:") for peer in shell.outward.peers)
    said = list(beside_upheld(SubjectProgress(contract, shells=[shell])))
    assert [each for each in said if f"{shell.outward.peers[0]}" in each and "its clock was not moved" in each]


@needs_watch
@pytest.mark.slow
def test_as_many_new_calls_of_large_batches_are_struck_as_fit_by_their_own_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[float, float]] = []

    def none_fits(_: object, schedules: object, seconds: float, *, each: float | None = None) -> list[Schedule]:
        if each is not None:
            asked.append((seconds, each))
        return []

    monkeypatch.setattr(ProcessCampaign, "_in_time", none_fits)
    with runner_of("NoJournal") as runner:
        campaign = ProcessCampaign(runner, CampaignResults(contract=runner.contract, shell="process"))
        campaign.carry_out([])  # the baseline
        campaign.strike_new_calls()
    [(seconds, each)] = asked
    assert LARGE_CALLS_SECONDS_MOST == seconds
    assert 0 < each


def test_a_server_that_each_run_starts_at_another_port_is_named_once() -> None:
    coverage = OutwardCoverage()
    for peers in (("127.0.0.1:4001",), ("127.0.0.1:4002",), ("127.0.0.1:4003", "10.0.0.5:5432"), ()):
        coverage.add(replace(run_of(), peers=peers))
    assert ("127.0.0.1:4003", "10.0.0.5:5432") == coverage.peers
