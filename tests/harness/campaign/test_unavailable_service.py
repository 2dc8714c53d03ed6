"""A reply of HTTP says by its status that a request was not carried out, or that this is not known: no client raises
for that by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.campaign.outward_calls_plan import NATIVE_CODE
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.faults.refused_statement import REFUSED_STATEMENT
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.single_faults import refused_requests
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SUBJECTS = Path(__file__).parents[2] / "support/http_client.py"


REFUSALS = {
    *("unavailable", "throttled", "gateway-timeout", "bad-gateway", "items-rejected", "some-rejected"),
    *("reply-cut", "request-delayed"),
}
STAGE = next(stage for stage in PROCESS_PLAN if stage.name.startswith("refused requests"))
RUNS_LEAST = 10


def refused(*kinds: str) -> Stage:
    def schedules(campaign: CampaignView) -> Iterator[Schedule]:
        yield from (each for each in refused_requests(campaign) if each.faults[-1].kind in kinds)

    return Stage(name="refused", schedules=schedules)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "stage", "found"),
    [
        ("Unchecked", STAGE, {"O1"}),
        pytest.param("CheckedForErrorsOfTheServer", refused("throttled"), {"O1"}, marks=pytest.mark.longer),
        ("UncheckedFirst", refused("unavailable"), {"O2"}),
        pytest.param("CheckedThenSentAgain", refused("gateway-timeout"), {"O2"}, marks=pytest.mark.longer),
        pytest.param("InBulkUnchecked", refused("items-rejected"), {"O1"}, marks=pytest.mark.longer),
        ("LastAgain", refused("items-rejected", "some-rejected"), {"O1"}),
        pytest.param("RejectedAgain", refused("items-rejected", "some-rejected"), set(), marks=pytest.mark.longer),
        pytest.param("InBulk", refused("items-rejected"), set(), marks=pytest.mark.longer),
        pytest.param("Checked", refused(*REFUSALS), set(), marks=pytest.mark.longer),
        ("CheckedThenSentAgain", refused("bad-gateway"), {"O2"}),
        ("ListedByLine", refused("reply-cut"), {"O2"}),
        pytest.param("ListedAsAWhole", refused("reply-cut"), set(), marks=pytest.mark.longer),
        ("PutAgainAsAWhole", refused("request-delayed"), {"O1"}),
        pytest.param("PutAgain", refused("request-delayed", "bad-gateway"), set(), marks=pytest.mark.longer),
        pytest.param("CheckedFirst", refused("unavailable", "gateway-timeout"), set(), marks=pytest.mark.longer),
    ],
)
def test_what_is_refused_is_sent_again_or_lost(name: str, stage: Stage, found: set[str], tmp_path: Path) -> None:
    contract = load(f"{SUBJECTS}:{name}")
    results = CampaignResults(contract=contract, shell="process")

    def is_found(results: CampaignResults) -> bool:
        return bool(results.findings) and results.coverage.runs > RUNS_LEAST

    with process_runner(contract, Scratch(name="refused", path=tmp_path, shell="process")) as runner:
        campaign = ProcessCampaign(runner, results, should_stop=is_found)
        campaign.carry_out([stage])
    assert (stage is STAGE) is any(fault.kind == "closed" for tried in campaign.tried for fault in tried.faults)
    assert found == {finding.oracle for finding in results.findings}
    assert REFUSALS >= {parse(finding.schedule).faults[-1].kind for finding in results.findings}
    assert results.coverage.runs > RUNS_LEAST
    assert ([], []) == (results.unknowns, results.coverage.unfired)


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.parametrize(("name", "found"), [("PutByProgram", {"O1"}), ("PutByProgramChecked", set())])
def test_requests_of_programs_are_refused_too(name: str, found: set[str], tmp_path: Path) -> None:
    contract = load(f"{SUBJECTS.with_name('http_by_program.py')}:{name}")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="refused", path=tmp_path, shell="process")) as runner:
        campaign = ProcessCampaign(runner, results)
        campaign.carry_out([NATIVE_CODE[0]])
        campaign.run_schedules([each for each in campaign.late_calls if each.faults[-1].kind == REFUSED_STATEMENT.word])
        tried = [each for each in campaign.tried if each.faults and each.faults[-1].kind == REFUSED_STATEMENT.word]
    assert found == {finding.oracle for finding in results.findings}
    assert len(tried) > 2
    assert [] == results.coverage.unfired
