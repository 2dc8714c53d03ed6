"""What a foreachBatch function does when a call fails, and with other batches and at another time than usual."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.stage import Plan, Stage
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.points import line_point
from sinkproof.chaos.schedule import Schedule, ScheduleError, parse
from sinkproof.foreach_batch import function_campaign
from sinkproof.foreach_batch.certify_function import refuse_other_faults
from sinkproof.foreach_batch.certifying_query import QUERIES, named_query
from sinkproof.foreach_batch.failing_jobs import lines_with_jobs
from sinkproof.foreach_batch.followed_schedules import follow
from sinkproof.foreach_batch.function_campaign import SIMULATED_FUNCTION_PLAN, SimulatedFunctionCampaign
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.reports.document import Finding
from sinkproof.reports.progress import SILENT
from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import function_anew
from sinkproof.workload.job_names import EDGE_CASE_VALUES_JOB

from ...support.explored_functions import FUNCTIONS, EndsWhenAsked

Findings = dict[str, str]  # schedule -> oracle
ERRORS: Plan = [stage for stage in SIMULATED_FUNCTION_PLAN if stage.name.startswith("errors")]
OTHER_BATCHES: Plan = [stage for stage in SIMULATED_FUNCTION_PLAN if stage.name.startswith(("empty", "a day"))]
UNUSUAL_VALUES: Plan = [
    Stage(name="unusual values", schedules=lambda campaign: campaign._of_other(EDGE_CASE_VALUES_JOB)),
    *(stage for stage in SIMULATED_FUNCTION_PLAN if stage.name.startswith("deaths where")),
]
ONLY_FAR_LARGER: Final = "empty batches", "far larger"  # they take as long as all other stages
MANY_BATCHES: Plan = [stage for stage in SIMULATED_FUNCTION_PLAN if not stage.name.startswith(ONLY_FAR_LARGER)]


FIRST_ERRORS = tuple(f"file.{call}#1={kind}" for call in ("create", "rename") for kind in ("error", "fail"))


@pytest.fixture
def found_by(query: Callable[..., SimulatedQuery]) -> Callable[..., list[Finding]]:
    """What a campaign finds that breaks a claim, in all stages or in those that a test is about."""

    def by_a_campaign(
        function: str, *, module: str = "without_spark", plan: Plan = SIMULATED_FUNCTION_PLAN
    ) -> list[Finding]:
        simulated = query(function, module=module)
        results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
        SimulatedFunctionCampaign(simulated, results, deadline=Deadline(60)).carry_out(plan)
        assert [] == results.unknowns
        assert len(plan) == len(results.coverage.stages) > 0
        return [each for each in results.findings if each.claimed]

    return by_a_campaign


@pytest.fixture
def found(found_by: Callable[..., list[Finding]]) -> Callable[..., Findings]:
    return lambda function, **options: {each.schedule: each.oracle for each in found_by(function, **options)}


@pytest.fixture
def function_file() -> list[str]:
    return (FUNCTIONS / "without_spark.py").read_text().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("times", "left_out"),
    [
        (0, "a crash at every point and line of every batch"),
        (5, "a crash at every point and line of every batch"),
        (16, "errors, after which the same driver starts the query again"),
    ],
)
def test_a_budget_that_holds_ends_after_any_schedule_and_what_it_left_out_is_named(
    times: int, left_out: str, query: Callable[[str], SimulatedQuery]
) -> None:
    simulated = query("replace")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    ends = EndsWhenAsked(times)
    campaign = SimulatedFunctionCampaign(simulated, results, deadline=Deadline(60), ends=ends)
    campaign.carry_out(SIMULATED_FUNCTION_PLAN)
    assert left_out == campaign.left_out()
    runs = sum(stage.run for stage in results.coverage.stages)
    assert runs <= times
    assert (times == 5) == (0 < runs <= 5)


@pytest.mark.slow
@pytest.mark.longer
def test_a_function_that_raises_what_fails_is_right_with_any_batches(query: Callable[[str], SimulatedQuery]) -> None:
    simulated = query("replace")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    campaign = SimulatedFunctionCampaign(simulated, results, deadline=Deadline(60), ends=EndsWhenAsked(1000))
    campaign.carry_out(SIMULATED_FUNCTION_PLAN)
    assert ([], []) == ([each for each in results.findings if each.claimed], results.unknowns)
    assert "" == campaign.left_out()
    assert len(SIMULATED_FUNCTION_PLAN) == len(results.coverage.stages)


@pytest.mark.slow
def test_an_error_that_is_swallowed_loses_the_batch(found: Callable[..., Findings]) -> None:
    assert {
        "micro_batch.batch.before#2=error": "O1",
        "file.create#2=error": "O1",
        "file.create#2=unanswered": "O1",
        "file.rename#2=error": "O1",
    } == found("swallow", plan=ERRORS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("give_up", {"file.create#2=fail", "file.rename#2=fail"}),
        ("raise_at_last", set()),
        ("forgive_the_first", {*FIRST_ERRORS, "file.create#1=unanswered"}),  # a rename has been done when it fails
    ],
)
def test_errors_come_as_often_as_it_tries_again_and_in_a_first_batch_with_lines_of_its_own(
    function: str, expected: set[str], found: Callable[..., Findings]
) -> None:
    assert dict.fromkeys(expected, "O1") == found(function, plan=ERRORS, module="tried_again")


@pytest.mark.slow
def test_what_a_module_remembers_of_a_failed_batch_is_found_and_a_new_driver_remembers_nothing(
    found: Callable[..., Findings],
) -> None:
    schedules = found("remember", plan=ERRORS)
    assert "file.create#2=error" in schedules
    assert {"error", "unanswered"} == {schedule.rpartition("=")[2] for schedule in schedules}


@pytest.mark.slow
def test_the_second_job_of_a_batch_fails_too_after_the_first_has_left_something(
    found: Callable[..., Findings], function_file: list[str]
) -> None:
    second = next(number for number, text in enumerate(function_file, 1) if "df.count()" in text)
    assert "O2" == found("gather", plan=ERRORS)[f"line(without_spark.py:{second})#2=error"]
    assert {} == found("gather_anew", plan=ERRORS)


@pytest.mark.slow
def test_a_death_at_a_line_that_does_something_for_unusual_values_only_is_found(found: Callable[..., Findings]) -> None:
    wrong = found("bury", plan=UNUSUAL_VALUES)
    assert {"O2"} == set(wrong.values())
    assert {"job=edge-case-values", "kill-job"} == {part for each in wrong for part in (each.split()[0], each[-8:])}
    assert {} == found("bury_by_batch", plan=UNUSUAL_VALUES)


def test_statements_that_run_jobs_are_known_by_the_methods_that_they_call(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text(
        "def write_batch(df, batch_id):\n"
        "    kept = df.select('key')\n"
        "    if kept.isEmpty():\n"
        "        return\n"
        "    rows = [row for row in kept.collect()]\n"
        "    (kept.write\n"
        "        .mode('append').parquet('out'))\n"
    )
    assert {f"line(f.py:{number})" for number in (3, 5, 6)} == lines_with_jobs({str(file): "f.py"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "schedule", "oracle", "contents"),
    [
        ("keep_sixteen", "job=batches-40 no-fault", "O1", "0:0 k0=v0.0"),
        ("compact", "job=batches-40 line(windows_of_batches.py:25)#17=kill-job", "O1", "1:7 k11=v1.7"),
        pytest.param("compact_and_keep", "", "", "", marks=pytest.mark.longer),
    ],
)
def test_what_is_wrong_only_after_as_many_batches_as_a_number_says_is_found(
    function: str, schedule: str, oracle: str, contents: str, found_by: Callable[..., list[Finding]]
) -> None:
    findings = {each.schedule: each for each in found_by(function, module="windows_of_batches", plan=MANY_BATCHES)}
    assert bool(findings) == bool(schedule)
    if schedule:
        finding = findings[str(parse(schedule))]
        assert (oracle, contents) == (finding.oracle, finding.contents[0])


@pytest.mark.slow
@pytest.mark.parametrize(("seconds_of_batch", "jobs"), [(0.001, ["batches-40"]), (10.0, [])])
def test_many_more_batches_are_given_up_where_each_takes_long(
    seconds_of_batch: float,
    jobs: list[str],
    campaign_on: Callable[[str, str], SimulatedFunctionCampaign],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(function_campaign, "times_as_long", lambda: 1.0)
    campaign = campaign_on("keep_sixteen", "windows_of_batches")
    campaign.seconds_of_batch = seconds_of_batch
    assert jobs == [schedule.job for schedule in campaign.long_queries()]
    assert bool(jobs) != bool(campaign.stage.cut)


@pytest.fixture
def campaign_on(query: Callable[..., SimulatedQuery]) -> Callable[[str, str], SimulatedFunctionCampaign]:
    def of(function: str, module: str) -> SimulatedFunctionCampaign:
        simulated = query(function, module=module)
        results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
        return SimulatedFunctionCampaign(simulated, results, deadline=Deadline(60))

    return of


def test_the_seconds_of_a_batch_are_measured(
    campaign_on: Callable[[str, str], SimulatedFunctionCampaign], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([10.0, 16.0])
    monkeypatch.setattr(function_campaign, "now", lambda: next(clock))
    campaign = campaign_on("keep_sixteen", "windows_of_batches")
    assert campaign.prepare()
    assert 2.0 == campaign.seconds_of_batch


@pytest.mark.slow
def test_a_batch_that_is_counted_in_a_byte_gets_hundreds_after_it(
    campaign_on: Callable[[str, str], SimulatedFunctionCampaign],
) -> None:
    campaign = campaign_on("name_by_a_byte", "counted_in_bytes")
    *_, schedule = campaign.long_queries()
    ending, _, _ = follow(campaign.query, schedule)
    assert ("batches-500", 256) == (schedule.job, len(ending.committed))


@pytest.mark.slow
def test_a_batch_with_a_digit_more_than_its_name_is_padded_to_is_not_the_newest_by_name(
    campaign_on: Callable[[str, str], SimulatedFunctionCampaign],
) -> None:
    campaign = campaign_on("name_by_two_digits", "padded_batches")
    committed = {}
    for schedule in campaign.long_queries():
        ending, _, _ = follow(campaign.query, schedule)
        committed[schedule.job] = len(ending.committed)
    assert {"batch-ids-98": 8, "batches-150": 100} == committed


@pytest.mark.parametrize(
    ("width", "jobs"),
    [
        (1, ["batch-ids-8"]),
        (2, ["batch-ids-98", "batches-150"]),
        (3, ["batch-ids-998", "batches-1020"]),
        (4, ["batch-ids-9998"]),
    ],
)
def test_so_many_batches_come_that_a_padded_number_has_a_digit_more(
    width: int,
    jobs: list[str],
    campaign_on: Callable[[str, str], SimulatedFunctionCampaign],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(function_campaign, "widths_of_padded_numbers", lambda files: [width])
    campaign = campaign_on("name_by_two_digits", "padded_batches")
    assert jobs == [schedule.job for schedule in campaign.long_queries()]


def test_a_line_that_many_batches_execute_is_struck_in_the_shortest_query(
    campaign_on: Callable[[str, str], SimulatedFunctionCampaign],
) -> None:
    campaign = campaign_on("compact", "windows_of_batches")
    campaign.usual.trail = [(0, line_point("f.py", 1), batch) for batch in range(3)]
    longer = [(0, line_point("f.py", number), batch) for batch in range(20) for number in (1, 2)]
    campaign.trails = {"batches-150": longer, "many-checkpoints": longer, "batches-40": longer}
    struck = [(schedule.job, schedule.faults[0].point) for schedule in campaign.deaths_in_other_batches()]
    assert [("many-checkpoints", line_point("f.py", 2))] == struck
    campaign.trails = {"batches-40": longer, "batches-150": longer}
    assert ["batches-40"] == [schedule.job for schedule in campaign.deaths_in_other_batches()]


@pytest.mark.longer
def test_a_query_that_fails_again_is_started_by_another_driver(found: Callable[..., Findings]) -> None:
    assert {} == found("stay_broken")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("take_a_thousand", {"job=large-batches": "O1"}),
        ("name_by_day", {"job=outage": "O2"}),
        pytest.param("name_by_day_of_import", {"job=outage": "O2"}, marks=pytest.mark.longer),
        pytest.param("write_commas", {"job=edge-case-values": "O12"}, marks=pytest.mark.longer),
        pytest.param("name_by_content", {"job=equal-rows": "O1"}, marks=pytest.mark.longer),
        ("leave_out_known_offsets", {"job=shared-keys": "O1"}),
        pytest.param("append_new_keys", {"job=null-keys": "O2"}, marks=pytest.mark.longer),
    ],
)
def test_what_is_wrong_with_other_batches_or_on_another_day_is_found_there(
    found: Callable[..., Findings], function: str, expected: Findings
) -> None:
    assert expected == {schedule.split()[0]: oracle for schedule, oracle in found(function, plan=OTHER_BATCHES).items()}


@pytest.mark.slow
def test_an_empty_batch_is_one_that_a_function_may_not_expect(found: Callable[..., Findings]) -> None:
    assert {"O1", "O6"} & {
        oracle for schedule, oracle in found("need_a_row", plan=OTHER_BATCHES).items() if "empty-batches" in schedule
    }


def test_the_read_of_an_empty_batch_does_not_fail(query: Callable[[str], SimulatedQuery]) -> None:
    schedule = parse("job=empty-batches micro_batch.batch.before#2=error")
    ending, state, _ = follow(query("replace"), schedule)
    assert (0, ()) == (len(ending.failure), state.faults)


def test_a_function_made_anew_comes_from_the_same_file(query: Callable[[str], SimulatedQuery]) -> None:
    contract = query("remember").contract
    first, second = function_anew(contract), function_anew(contract)
    assert first.__code__.co_filename == second.__code__.co_filename == contract.given.write_batch.__code__.co_filename
    assert first.__globals__["BEGUN"] is not second.__globals__["BEGUN"]


@pytest.mark.parametrize("job", QUERIES)
def test_the_batches_of_a_query_hold_each_row_of_its_ledger_once(job: str) -> None:
    query = named_query(job)
    rows = [row for batch in range(len(query.batches)) for row in query.identities(batch)]
    assert query.ledger.expected == sorted(rows)


def test_a_reader_of_sparks_json_may_split_its_lines() -> None:
    """What JSON escapes is left in the values; separators of Unicode it does not."""
    texts = [json.dumps(row.value, ensure_ascii=False) for row in named_query("edge-case-values").ledger.rows.values()]
    assert all(1 == len(text.splitlines()) for text in texts)
    assert any("\\n" in text for text in texts)


def test_what_no_query_has_is_refused() -> None:
    with pytest.raises(ScheduleError, match="known: standard, empty-batches"):
        named_query("sparse")
    with pytest.raises(ContractError, match="runs --on simulated only"):
        refuse_other_faults(Schedule(job="outage"), "spark")
    with pytest.raises(ContractError, match="the last fault may be error"):
        refuse_other_faults(parse("file.create#1=error micro_batch.commit.before#1=kill-job"), "simulated")
