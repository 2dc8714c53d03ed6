"""What a target may refuse: statements of a function, and rows that it has no room for. What is passed over is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.stage import Stage
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.faults.refused_statement import REFUSED_STATEMENT
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule, parse
from sinkproof.foreach_batch.certifying_query import ROWS, jobs_for, needs_far_larger_batches
from sinkproof.foreach_batch.faults_at_targets import refused_statements
from sinkproof.foreach_batch.followed_schedules import follow
from sinkproof.foreach_batch.function_campaign import (
    ERRORS_ELSEWHERE,
    OUTAGES_LEAST,
    SIMULATED_FUNCTION_PLAN,
    SimulatedFunctionCampaign,
)
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.foreach_batch.streaming_driver_supervisor import Experiment
from sinkproof.foreach_batch.watched_query import CallToTarget
from sinkproof.reports.document import SourceLine
from sinkproof.reports.progress import SILENT
from sinkproof.workload.job_names import LARGE_BATCHES_JOB, REFUSABLE_ROWS

from ...support.struck_functions import campaign, drivers

SEND = "syscall(sendto socket)"
REFUSED = REFUSED_STATEMENT.word
ROWS_THAT_MAY_BE_REFUSED: Final = Stage(
    name="rows that may be refused",
    schedules=lambda campaign: [each for each in campaign.other_batches() if each.job in REFUSABLE_ROWS],
)

RARE: Final = [
    Stage(
        name="rows", schedules=lambda campaign: [each for each in campaign.other_batches() if each.job == "null-keys"]
    ),
    *(stage for stage in SIMULATED_FUNCTION_PLAN if stage.name.startswith(("a day", "a smaller"))),
]


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.usefixtures("usual_batches_only")
@pytest.mark.parametrize(
    ("function", "found"), [pytest.param("insert", set(), marks=pytest.mark.longer), ("pass_over", {("O1", REFUSED)})]
)
def test_a_database_refuses_statements(
    function: str, found: set[tuple[str, str]], query: Callable[..., SimulatedQuery], tmp_path: Path
) -> None:
    simulated = query(function, module="with_statements")
    results = campaign(simulated, tmp_path)
    claimed = [each for each in results.findings if each.claimed]
    assert found == {(each.oracle, each.schedule.rpartition("=")[2]) for each in claimed}
    assert [] == results.coverage.unfired
    with drivers(simulated, tmp_path) as inside:
        refused = [Schedule((fault,)) for fault in refused_statements(inside.calls())]
        endings = [follow(simulated, schedule, inside=inside) for schedule in refused]
    assert [1, 1, 1] == [len(state.faults) for _, state, _ in endings]
    assert {'self.connection.sendall(b"".join(map(_command, commands)))'} == {
        state.line and state.line.text for _, state, _ in endings
    }
    assert [""] * 3 == [ending.failure for ending, _, _ in endings]
    assert {ROWS - len(found)} == {len({*ending.committed}) for ending, _, _ in endings}


def test_some_statements_of_each_line_are_refused() -> None:
    sent = [call(line, time, is_statement=time != 2) for line, time in ((3, 1), (3, 2), (3, 3), (3, 4), (3, 5), (8, 6))]
    assert [1, 6, 3, 5] == [fault.occurrence for fault in refused_statements(sent)]
    assert {REFUSED} == {fault.kind for fault in refused_statements(sent)}


@pytest.mark.parametrize(("function", "found"), [("keep_255_characters", ["O12"]), ("refuse_long_values", [])])
def test_long_values_are_kept_or_refused_aloud(
    function: str, found: list[str], query: Callable[..., SimulatedQuery]
) -> None:
    simulated = query(function, module="long_values")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    SimulatedFunctionCampaign(simulated, results, deadline=Deadline(60)).carry_out([ROWS_THAT_MAY_BE_REFUSED])
    assert found == [each.oracle for each in results.findings if each.claimed]
    assert all(each.schedule == "job=long-values no-fault" for each in results.findings if each.claimed)
    assert [] == results.unknowns
    assert [len(REFUSABLE_ROWS)] == [stage.run for stage in results.coverage.stages]


@pytest.mark.parametrize(
    ("function", "found"),
    [
        ("named_by_host", {("smaller-cluster", "O2")}),
        ("with_key", {("null-keys", "O1")}),
        pytest.param("leave_out_null", set(), marks=pytest.mark.longer),
        ("fresh_and_late", {("outage", "O2")}),
        pytest.param("fresh_and_late_by_one", set(), marks=pytest.mark.longer),
    ],
)
def test_rows_without_a_key_rows_that_grow_old_and_another_host(
    function: str, found: set[tuple[str, str]], query: Callable[..., SimulatedQuery]
) -> None:
    simulated = query(function, module="rare_rows")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    SimulatedFunctionCampaign(simulated, results, deadline=Deadline(60)).carry_out(RARE)
    assert found == {(parse(each.schedule).job, each.oracle) for each in results.findings if each.claimed}
    assert [] == results.unknowns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "found"), [("smaller_chunks", {("large-batches", "O2", "unanswered")}), ("same_chunks", set())]
)
def test_errors_come_where_only_large_batches_make_several_calls(
    function: str, found: set[tuple[str, str, str]], query: Callable[..., SimulatedQuery]
) -> None:
    simulated = query(function, module="rare_rows")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    large = Stage(name="large", schedules=lambda campaign: [Schedule(job=LARGE_BATCHES_JOB)])
    SimulatedFunctionCampaign(simulated, results, deadline=Deadline(60)).carry_out([large, ERRORS_ELSEWHERE])
    claimed = [(parse(each.schedule), each.oracle) for each in results.findings if each.claimed]
    assert found == {(schedule.job, oracle, schedule.faults[0].kind) for schedule, oracle in claimed}
    assert results.coverage.stages[1].run >= 8


def test_code_that_names_partitions_or_caches_gets_their_queries(tmp_path: Path) -> None:
    texts = "df.collect()", "F.monotonically_increasing_id()", "df.persist().glom()"
    found = []
    for number, text in enumerate(texts):
        file = tmp_path / f"function{number}.py"
        file.write_text(text)
        found.append(jobs_for([str(file)]))
    assert [[], ["many-partitions"], ["many-partitions", "lost-blocks"]] == found


def test_blocks_are_lost_where_code_caches_tables(tmp_path: Path) -> None:
    file = tmp_path / "function.py"
    for text in ("spark.catalog.cacheTable('rows')", "spark.sql('CACHE LAZY TABLE rows AS SELECT 1')"):
        file.write_text(text)
        assert ["lost-blocks"] == jobs_for([str(file)])


@pytest.mark.parametrize(
    ("text", "shuffles"),
    [
        ("df.orderBy('key')", True),
        ("df.sort('key', F.desc('value'))", True),
        ("df.join(known, 'key')", True),
        ("df.drop_duplicates(['key'])", True),
        ("spark.sql('SELECT key FROM rows GROUP BY key')", True),
        ("df.selectExpr('row_number() OVER (PARTITION BY split ORDER BY offset)')", True),
        ("spark.sql('SELECT 1 FROM a LEFT JOIN b USING (key)')", True),
        ("try:\n    rows.sort(key=len); rows.sort()\nexcept OSError:\n    pass", False),
        ("','.join(map(str, rows)); os.path.join(folder, name)", False),
        ("database.execute('SELECT * FROM rows ORDER BY id')", False),
    ],
)
def test_rows_come_in_another_order_where_code_shuffles(text: str, shuffles: bool, tmp_path: Path) -> None:
    file = tmp_path / "function.py"
    file.write_text(text)
    assert shuffles is ("other-shuffle-order" in jobs_for([str(file)]))


@pytest.mark.parametrize(("text", "needs"), [("F.hash('split')", True), ("rows[:5000]", True), ("rows[:50]", False)])
def test_digests_and_large_numbers_need_far_larger_batches(text: str, needs: bool, tmp_path: Path) -> None:
    file = tmp_path / "function.py"
    file.write_text(text)
    assert needs is needs_far_larger_batches([str(file)])


@pytest.mark.parametrize("function", ["fresh_and_late", "fresh_and_late_in_turn"])
def test_deaths_before_an_outage_come_whatever_the_budget(function: str, query: Callable[..., SimulatedQuery]) -> None:
    simulated = query(function, module="rare_rows")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    outages = [stage for stage in SIMULATED_FUNCTION_PLAN if stage.name.startswith("a day")]
    SimulatedFunctionCampaign(simulated, results, deadline=Deadline(0)).carry_out(outages)
    assert [OUTAGES_LEAST] == [stage.run for stage in results.coverage.stages]
    claimed = [each for each in results.findings if each.claimed]
    assert {"O2"} == {each.oracle for each in claimed}
    assert "job=outage file.create#4=kill-job" in {each.schedule for each in claimed}, "before the second output"


def test_before_an_outage_the_last_time_of_a_line_comes_early() -> None:
    lines = [f"line(a.py:{line})" for line in (2, 3, 3)]  # of a function that comes to its third line twice
    trail = [(0, point, batch) for batch in (0, 1) for point in lines]
    deaths = Experiment(trail=trail, passed=Counter(lines + lines)).experiments_and_last_times()
    assert ["line(a.py:3)#3", "line(a.py:3)#4"] == [f"{each.point}#{each.occurrence}" for each in deaths[2:4]]


def call(line: int, number: int, *, is_statement: bool) -> CallToTarget:
    death, made_by = Fault(COORDINATOR, SEND, number, "kill-job"), SourceLine(file="a.py", number=line)
    return CallToTarget(death, made_by, f"line(a.py:{line})", of_spark=False, is_statement=is_statement)
