"""A target that cannot be copied, behind a client that Python does not see: real deaths and errors inside one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sinkproof.chaos.error_text import describe_error
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.schedule import COORDINATOR, Fault, parse
from sinkproof.foreach_batch import faults_at_targets
from sinkproof.foreach_batch.certify_function import refuse_other_faults
from sinkproof.foreach_batch.certifying_query import BEFORE_COMMIT, jobs_of_larger_batches
from sinkproof.foreach_batch.faults_at_targets import (
    COPIED_ERRORS_MOST,
    deaths_around_commits,
    deaths_at_edges,
    deaths_between_more,
    deaths_elsewhere,
    errors_at,
    errors_of_libraries,
)
from sinkproof.foreach_batch.followed_schedules import follow
from sinkproof.foreach_batch.function_campaign import WITHOUT_COPIES
from sinkproof.foreach_batch.function_results import INTERIOR, FunctionResults
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.foreach_batch.watched_query import CallToTarget
from sinkproof.generators.feasible import impossible
from sinkproof.reports.document import SourceLine
from sinkproof.reports.progress import SILENT
from sinkproof.subject.contract import ContractError
from sinkproof.subject.heartbeat import while_it_moves

from ...support.explored_functions import EndsWhenAsked, EndsWhenFound
from ...support.struck_functions import campaign, drivers

SEND = "syscall(sendto socket)"

needs_watch = pytest.mark.usefixtures("watch_of_system_calls")


@pytest.mark.parametrize(("rows", "keys"), [("append", {"null-keys", "shared-keys"}), ("upsert", set())])
def test_deaths_before_commits_come_where_rows_equal_earlier_ones_or_lack_keys(rows: str, keys: set[str]) -> None:
    jobs = {each.job for each in deaths_around_commits(rows) if each.faults[0].point == BEFORE_COMMIT}
    assert {"standard", "equal-rows", "outage", *keys} <= jobs
    assert keys == jobs & {"null-keys", "shared-keys"}


@pytest.mark.slow
@needs_watch
@pytest.mark.usefixtures("usual_batches_only")
@pytest.mark.parametrize(
    ("function", "found"),
    [
        ("put", set()),
        ("add_unless_there", {("O1", "kill-job"), ("O1", "error"), ("O1", "land")}),
        ("swallow", {("O1", "error")}),
        ("repeat", {("O2", "unanswered")}),
        ("add_once", {("O2", "land")}),
    ],
)
def test_deaths_and_errors_inside_a_line(
    function: str, found: set[tuple[str, str]], query: Callable[..., SimulatedQuery], tmp_path: Path
) -> None:
    results = campaign(query(function, module="with_native_client"), tmp_path)
    assert found == {(each.oracle, each.schedule.rpartition("=")[2]) for each in results.findings if each.claimed}
    outward = results.coverage.outward.document()
    assert outward is not None
    assert (0, [SEND]) == (outward.left_total, outward.names)
    assert {(SEND, "error"), (SEND, "unanswered")} <= results.coverage.calls_failed
    assert INTERIOR not in results.notes


@pytest.mark.slow
@pytest.mark.longer
@needs_watch
def test_deaths_come_between_the_calls_that_only_large_batches_need(
    query: Callable[..., SimulatedQuery], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults_at_targets, "deaths_around_commits", lambda rows: [])
    monkeypatch.setattr(faults_at_targets, "late_requests", lambda _: [])  # it is wrong there, too
    simulated = query("piped", module="with_native_client")
    results = campaign(simulated, tmp_path, ends=EndsWhenFound)
    found = [each.schedule for each in results.findings if each.claimed]
    assert found
    assert {"large-batches"} == {parse(schedule).job for schedule in found}
    with drivers(simulated, tmp_path) as inside:
        ending, state, _ = follow(simulated, parse(found[0]), inside=inside)
    assert (1, "") == (len(state.faults), ending.failure)
    assert 3 * 2400 < len(ending.committed)


@pytest.mark.slow
@pytest.mark.longer
@needs_watch
@pytest.mark.usefixtures("usual_batches_only")
def test_deaths_at_lines_that_only_many_more_batches_execute_are_real(
    query: Callable[..., SimulatedQuery], tmp_path: Path
) -> None:
    simulated = query("add_each_fifteenth", module="with_native_client")
    stages = "many more batches", "a death or an error inside one call"
    results = campaign(simulated, tmp_path, stages=stages, ends=EndsWhenFound)
    found = {parse(each.schedule): each for each in results.findings}
    ((schedule, finding),) = [(each, found[each]) for each in found if found[each].claimed]
    assert ("batches-40", "O2") == (schedule.job, finding.oracle)
    assert finding.line is not None
    assert "a sum" in finding.line.text
    with drivers(simulated, tmp_path) as inside:
        killed = inside.driver.child.pid
        ending, state, _ = follow(simulated, schedule, inside=inside)
        assert inside.driver.child.pid != killed
    assert (1, 40 + 1) == (len(state.faults), len(ending.committed))


@pytest.mark.slow
@needs_watch
def test_deaths_around_the_commit_of_any_batch_are_real(query: Callable[..., SimulatedQuery], tmp_path: Path) -> None:
    simulated = query("falsy", module="with_native_client")
    around = "micro_batch.commit.before#1=kill-job", "micro_batch.commit.after#1=lose"
    results = campaign(simulated, tmp_path, ends=lambda results: EndsWhenFound(results, *around))
    found = {each.schedule: each.oracle for each in results.findings if each.claimed}
    assert ["O2", "O2"] == [found[schedule] for schedule in around]
    with drivers(simulated, tmp_path) as inside:
        killed = inside.driver.child.pid
        schedule = parse("job=many-checkpoints micro_batch.commit.before#11=kill-job")
        ending, state, trail = follow(simulated, schedule, inside=inside)
        assert inside.driver.child.pid != killed
    assert ([], 1) == ([ending.failure] if ending.failure else [], len(state.faults))
    assert ["micro_batch.commit.before"] == [point for start, point, _ in trail if not start][-1:]
    assert len(set(ending.committed)) == len(ending.committed)


@pytest.mark.slow
@needs_watch
def test_a_death_inside_a_line_is_replayed(query: Callable[..., SimulatedQuery], tmp_path: Path) -> None:
    simulated = query("add_unless_there", module="with_native_client")
    with drivers(simulated, tmp_path) as inside:
        calls = inside.calls()
        _, last = deaths_at_edges(calls)
        ending, state, trail = follow(simulated, parse(str(last)), inside=inside)
        assert 5 == len([call for call in calls if call.death.point == SEND])  # one to count, one for each row
        assert (12 - 1, "") == (len(ending.committed), ending.failure)
        assert state.line is not None
        assert state.line.text.startswith("if LIBC.send")
        assert SEND == [point for start, point, _ in trail if start == 0][-1]
        ending, state, _ = follow(simulated, parse(f"{SEND}#99=kill-job"), inside=inside)
        assert (12, ()) == (len(ending.committed), state.faults)


@pytest.mark.slow
@needs_watch
def test_a_function_that_fails_in_a_watched_driver_leaves_unknown(
    query: Callable[..., SimulatedQuery], tmp_path: Path
) -> None:
    results = campaign(query("only_where_setup_ran", module="with_native_client"), tmp_path, is_run=False)
    (unknown,) = results.unknowns
    assert "were not examined: without any fault, with batch 0 the function raised RuntimeError" in unknown


@pytest.mark.slow
@needs_watch
@pytest.mark.usefixtures("usual_batches_only")
@pytest.mark.parametrize("holds", [False, True])
def test_deaths_at_the_edges_come_whatever_the_budget_unless_it_holds(
    holds: bool, query: Callable[..., SimulatedQuery], tmp_path: Path
) -> None:
    simulated = query("add_unless_there", module="with_native_client")
    results = campaign(simulated, tmp_path, seconds=0, ends=(lambda _: EndsWhenAsked(1)) if holds else None)
    outward = results.coverage.outward.document()
    assert outward is not None
    assert ((0, 2) if holds else (2, 0)) == (outward.killed, outward.left_total)
    assert [not holds] == [stage.finished for stage in results.coverage.stages]


@pytest.mark.parametrize("kind", ["error", "unanswered", "fail"])
def test_each_error_of_a_call_in_python_is_replayed_on_simulated_only(
    kind: str, query: Callable[..., SimulatedQuery]
) -> None:
    contract = query("put", module="with_native_client").contract
    schedule = parse(f"file.rename#1={kind}", kinds=frozenset(KINDS))
    assert "" == impossible(schedule, contract, "simulated")
    refuse_other_faults(schedule, "simulated")
    with pytest.raises(ContractError, match="may be error, fail, unanswered or refused-statement"):
        refuse_other_faults(schedule, "spark")


@pytest.mark.parametrize("kind", ["kill-job", "error", "unanswered", "land"])
def test_each_fault_inside_a_call_is_replayed_on_simulated_only(
    kind: str, query: Callable[..., SimulatedQuery]
) -> None:
    contract = query("put", module="with_native_client").contract
    schedule = parse(f"{SEND}#1={kind}", kinds=frozenset(KINDS))
    assert "" == impossible(schedule, contract, "simulated")
    assert "--on simulated, by kill-job, error, unanswered" in impossible(schedule, contract, "spark")


def test_what_only_recoveries_run_needs_no_far_larger_batches() -> None:
    names = [stage.name for stage in WITHOUT_COPIES]
    assert names.index("a death or an error inside one call") < names.index("far larger batches")


def test_lines_of_workers_are_covered(query: Callable[..., SimulatedQuery]) -> None:
    simulated = query("put", module="with_native_client")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    results.coverage.saw(["line(a.py:1)"])
    results.cover_lines_of_workers({"line(a.py:1)", "line(a.py:2)"})
    assert {"line(a.py:1)", "line(a.py:2)"} == results.coverage.lines_passed
    assert not results.coverage.examined("line(a.py:1)")
    assert results.coverage.examined("line(a.py:2)")


def test_a_long_run_is_alive_as_long_as_it_reaches_points() -> None:
    reached, reports = iter([0, 5, 5, 6, 6]), list[str]()
    report = while_it_moves(lambda: next(reached), reports.append)
    for number in range(5):
        report(f"report {number}")
    assert ["report 0", "report 1", "report 3"] == reports


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no table\nat a.java", "no table"),
        ("An exception was thrown from the worker:\n  File x\nKeyError: 'a'", "from the worker: KeyError: 'a'"),
    ],
)
def test_the_cause_of_an_error_is_shown_though_it_stands_at_its_end(message: str, shown: str) -> None:
    assert describe_error(RuntimeError(message), {}).endswith(shown)


def call(
    line: int, number: int, *, point: str = SEND, after: str = "line(a.py:1)", of_spark: bool = False
) -> CallToTarget:
    return CallToTarget(
        Fault(COORDINATOR, point, number, "kill-job"), SourceLine(file="a.py", number=line), after, of_spark=of_spark
    )


def test_deaths_strike_the_second_and_the_last_call_of_a_line_first() -> None:
    calls = [call(1, 1), *(call(2, number) for number in range(2, 10)), call(2, 1, point="syscall(write out)")]
    assert [3, 9, 1] == [fault.occurrence for fault in deaths_at_edges(calls)]
    assert "syscall(write out)" == deaths_at_edges(calls)[-1].point
    others = deaths_elsewhere(calls)
    assert {1, 2, 4, 5, 6, 7, 8} == {fault.occurrence for fault in others}
    assert 7 == len(others)


def test_with_large_batches_deaths_strike_what_is_called_more_often_there() -> None:
    usual = [call(1, 1), call(2, 2), call(2, 3)]
    larger = [call(1, 1), *(call(2, number) for number in (2, 3)), *(call(3, number) for number in range(4, 8))]
    assert [5, 7] == [fault.occurrence for fault in deaths_between_more(usual, larger)]
    assert [] == deaths_between_more(larger, larger)
    once = [*usual, call(3, 4), call(3, 1, point="syscall(rename out)")]
    assert ["syscall(rename out)"] == [fault.point for fault in deaths_between_more(usual, once)]


@pytest.mark.parametrize(
    ("code", "jobs"), [("rows = 10_000", ["large-batches", "far-larger-data"]), ("rows = 100", ["large-batches"])]
)
def test_batches_are_as_large_as_a_number_in_the_code(code: str, jobs: list[str], tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(code)
    assert jobs == jobs_of_larger_batches([str(tmp_path / "job.py")])


def test_errors_strike_what_python_does_not_see() -> None:
    calls = [call(1, 1, after="socket.send"), *(call(2, number) for number in range(2, 5))]
    failed = [(each.occurrence, each.kind) for each in errors_at(calls)]
    assert [(4, "unanswered"), (4, "error"), (2, "error")] == failed


def test_errors_of_libraries_strike_nothing_that_the_jvm_does() -> None:
    """Its jobs fail as a whole."""
    calls = [call(1, 1, of_spark=True), *(call(line, line) for line in range(2, 30))]
    failed = {each.occurrence for each in errors_of_libraries(calls)}
    assert 1 not in failed
    assert COPIED_ERRORS_MOST == len(errors_of_libraries(calls))
