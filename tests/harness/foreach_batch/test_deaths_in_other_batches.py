"""Which other batches come where the code has certain numbers or names, and which deaths are tried in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sinkproof.campaign.stage import Stage
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.points import line_point
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.foreach_batch.certifying_query import OTHER_ORDER_JOB, jobs_for
from sinkproof.foreach_batch.deaths_in_other_batches import (
    deaths_at_each_line,
    deaths_at_values_and_orders,
    deaths_in_other_batches,
    deaths_in_second_turns,
)
from sinkproof.foreach_batch.followed_schedules import follow
from sinkproof.foreach_batch.function_campaign import SIMULATED_FUNCTION_PLAN, SimulatedFunctionCampaign
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.reports.progress import SILENT
from sinkproof.workload.job_names import EDGE_CASE_VALUES_JOB, EQUAL_ROWS_JOB, LARGE_BATCHES_JOB

from ...support.explored_functions import FUNCTIONS


def trail(*batches: str) -> list[tuple[int, str, int]]:
    """A letter is a line."""
    return [(0, line_point("f.py", ord(letter)), batch) for batch, letters in enumerate(batches) for letter in letters]


def places(usual: list[tuple[int, str, int]], other: list[tuple[int, str, int]], *, chunks: bool) -> list[str]:
    found = deaths_in_other_batches(usual, other, chunks=chunks)
    return [f"{chr(int(fault.point[10:-1]))}#{fault.occurrence}" for fault in found]


@pytest.mark.parametrize(
    ("other", "chunks", "expected"),
    [
        (("abd", "abd"), True, []),
        (("abd", "axd"), False, ["x#1"]),  # a new line
        (("abd", "ayzyzyzd"), False, ["y#1", "z#1", "y#2", "z#2"]),  # before its second turn there is something
        (("abd", "abcbcd"), False, ["c#1", "c#2"]),
        (("abab", "ababd"), False, []),
        (("abab", "ababd"), True, ["a#4", "b#4"]),  # a second turn, in the second batch
    ],
)
def test_new_lines_and_further_turns_are_struck(other: tuple[str, ...], chunks: bool, expected: list[str]) -> None:
    assert expected == places(trail("abd", "abd", "abd"), trail(*other), chunks=chunks)


def test_each_line_of_the_last_batch_is_struck_once_where_only_values_are_other_ones() -> None:
    faults = deaths_at_each_line(trail("abd", "abbd"))
    assert {"a#2", "b#2", "d#2"} == {f"{chr(int(fault.point[10:-1]))}#{fault.occurrence}" for fault in faults}


@pytest.mark.parametrize("job", [EDGE_CASE_VALUES_JOB, EQUAL_ROWS_JOB])
def test_each_line_is_struck_where_rows_are_unusual_or_equal_earlier_ones(job: str) -> None:
    deaths = [*deaths_at_values_and_orders({job: trail("abd", "abd"), LARGE_BATCHES_JOB: trail("abd", "abd")})]
    assert [(job, 2)] * 3 == [(each.job, each.faults[0].occurrence) for each in deaths]


@pytest.mark.slow
@pytest.mark.parametrize("function", ["keep_five", "compare_as_text", "compact_by_fives"])
def test_what_is_wrong_from_the_sixth_batch_on_is_found(function: str, query: Callable[..., SimulatedQuery]) -> None:
    simulated = query(function, module="many_batches")
    _, _, usual = follow(simulated, Schedule())
    ending, _, trail_of_many = follow(simulated, Schedule(job="many-checkpoints"))
    deaths = deaths_in_other_batches(usual, trail_of_many, chunks=True)
    endings = [ending, *(follow(simulated, Schedule((each,), job="many-checkpoints"))[0] for each in deaths)]
    wrong = sum(
        sorted(each.committed) != [(split, offset) for split in (0, 1) for offset in range(24)] for each in endings
    )
    assert wrong


def test_loops_are_left_in_the_second_turn_of_the_second_batch() -> None:
    faults = deaths_in_second_turns(trail("abb", "abcbbcd", "abbab"))
    assert ["b#4", "c#2"] == [f"{chr(int(fault.point[10:-1]))}#{fault.occurrence}" for fault in faults]


@pytest.mark.parametrize(("module", "is_named"), [("resuming", True), ("replacing", False)])
def test_rows_come_in_another_order_where_code_names_a_shuffle(module: str, is_named: bool) -> None:
    assert is_named is (OTHER_ORDER_JOB in jobs_for([str(FUNCTIONS / f"{module}.py")]))


@pytest.mark.parametrize("shuffle", ["sortBy(key)", "sortByKey()"])
def test_so_they_do_where_it_sorts_an_rdd(shuffle: str, tmp_path: Path) -> None:
    (tmp_path / "function.py").write_text(f"df.rdd.{shuffle}.zipWithIndex()")
    assert OTHER_ORDER_JOB in jobs_for([str(tmp_path / "function.py")])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "found"), [("by_count", {"O1", "O2"}), pytest.param("by_row", set(), marks=pytest.mark.longer)]
)
def test_after_a_shuffle_rows_come_in_another_order(
    function: str, found: set[str], query: Callable[..., SimulatedQuery]
) -> None:
    simulated = query(function, module="resuming")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    order = Stage(name="order", schedules=lambda campaign: [Schedule(job=OTHER_ORDER_JOB)])
    deaths = [stage for stage in SIMULATED_FUNCTION_PLAN if stage.name.startswith("deaths where only")]
    SimulatedFunctionCampaign(simulated, results, deadline=Deadline(60)).carry_out([order, *deaths])
    claimed = [each for each in results.findings if each.claimed]
    assert found == {each.oracle for each in claimed}
    assert {OTHER_ORDER_JOB} == {parse(each.schedule).job for each in claimed} or not found
    assert results.coverage.stages[1].run >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "function", "wrong"),
    [
        ("chunks_of_batches", "name_without_separator", {("O1", "made-twelve-times-84")}),
        pytest.param("chunks_of_batches", "name_with_separator", set(), marks=pytest.mark.longer),
        ("lines_and_numbers", "rewrite_by_splitlines", {("O1", "line-separators")}),
        pytest.param("lines_and_numbers", "rewrite_by_newlines", set(), marks=pytest.mark.longer),
        ("lines_and_numbers", "number_by_shift", {("O1", "made-apart-4294967296")}),
        pytest.param("lines_and_numbers", "number_by_both", set(), marks=pytest.mark.longer),
    ],
)
def test_batches_are_such_that_numbers_and_names_in_the_code_matter(
    module: str, function: str, wrong: set[tuple[str, str]], query: Callable[..., SimulatedQuery]
) -> None:
    simulated = query(function, module=module)
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    campaign = SimulatedFunctionCampaign(simulated, results, deadline=Deadline(60))
    jobs = jobs_for(simulated.contract.given.files)
    campaign.carry_out([Stage(name="by the code", schedules=lambda campaign: [Schedule(job=job) for job in jobs])])
    assert {job for _, job in wrong} <= {*jobs} <= {schedule.job for schedule in campaign.other_batches()}
    assert wrong == {(each.oracle, parse(each.schedule).job) for each in results.findings if each.claimed}
