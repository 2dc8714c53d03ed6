"""A call fails, or attempts die, as often as a sink tries: what it does when it gives up."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.spark_plan import SPARK_PLAN
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.combinations import crash_loops, crash_loops_at_lines
from sinkproof.generators.repeated_errors import repeated_errors
from sinkproof.generators.single_faults import errors
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.static_analysis.names_in_code import tries_again

SINKS: Final = Path(__file__).parents[2] / "support" / "tried_again.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found_by", "times"),
    [
        ("GivesUp", {3}, {3}),
        pytest.param("Raises", set(), {3}, marks=pytest.mark.longer),
        ("TakesForDone", {1}, set()),
        pytest.param("BreaksForGood", {3}, {3, 4}, marks=pytest.mark.longer),
    ],
)
def test_what_gives_up_without_a_word_loses_rows(
    name: str, found_by: set[int], times: set[int], tmp_path: Path
) -> None:
    with process_runner(load(f"{SINKS}:{name}"), Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: False)
        stages = {"error at each call": errors, "repeated errors": repeated_errors}
        campaign.carry_out([Stage(name=name, schedules=schedules) for name, schedules in stages.items()])
        repeated = {len(schedule.faults) for schedule in repeated_errors(campaign)}
        assert all(len(schedule.faults) == 1 for schedule in errors(campaign))
    found = [finding for finding in results.findings if finding.claimed]
    assert ({"O1"} if found_by else set()) == {finding.oracle for finding in found}
    assert found_by == {len(parse(finding.schedule).faults) for finding in found}
    assert times == repeated


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"), [("PassesOver", {"O1"}), pytest.param("CountsOnly", set(), marks=pytest.mark.longer)]
)
def test_what_attempts_have_died_with_is_not_given_up(name: str, found: set[str], tmp_path: Path) -> None:
    with process_runner(load(f"{SINKS}:{name}"), Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: False)
        loops = [Stage(name=each.__name__, schedules=each) for each in (crash_loops, crash_loops_at_lines)]
        campaign.carry_out(loops)
    assert found == {finding.oracle for finding in results.findings}
    deaths = [parse(finding.schedule).faults[-1].point for finding in results.findings]
    assert all(is_line(point) for point in deaths)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"),
    [("GivesUpAfterFiveTimes", {"O1"}), pytest.param("TriedFiveTimes", set(), marks=pytest.mark.longer)],
)
def test_a_service_refuses_a_request_until_the_sink_gives_up_though_that_waits_longer_each_time(
    name: str, found: set[str], tmp_path: Path
) -> None:
    sinks = SINKS.with_name("http_client.py")
    with process_runner(load(f"{sinks}:{name}"), Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: False)
        campaign.carry_out([Stage(name="repeated errors", schedules=repeated_errors)])
    assert found == {finding.oracle for finding in results.findings}
    kinds = [{fault.kind for fault in parse(finding.schedule).faults} for finding in results.findings]
    assert ([{"unavailable"}, {"throttled"}] if found else []) == kinds


def test_errors_are_repeated_only_where_traces_are_in_the_order_of_time() -> None:
    assert [repeated_errors in [stage.schedules for stage in plan] for plan in (PROCESS_PLAN, SPARK_PLAN)] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("for _ in range(3):\n    try:\n        put()\n    except OSError:\n        pass", True),
        (
            "while True:\n    if ready:\n        try:\n            put()\n        except OSError:\n            wait()",
            True,
        ),
        ("while True:\n    if put().status_code < 500:\n        break", True),
        ("import tenacity", True),
        ("try:\n    put()\nexcept OSError:\n    for row in rows:\n        undo(row)", False),
    ],
)
def test_code_that_tries_again_is_known(code: str, expected: bool, tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(code)
    assert expected is tries_again([str(file)])
