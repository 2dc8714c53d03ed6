"""A call fails as often as a sink tries it: what it does when it gives up."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.repeated_errors import errors_and_retries
from sinkproof.generators.single_faults import errors
from sinkproof.subject.loading import load
from sinkproof.subject.names_in_code import tries_again
from sinkproof.subject.scratch import Scratch

SINKS: Final = Path(__file__).parents[2] / "support" / "tried_again.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tries", "most"), [("GivesUp", {3}, 3), ("Raises", set(), 3), ("TakesForDone", {1}, 1)]
)
def test_what_gives_up_without_a_word_loses_rows(name: str, tries: set[int], most: int, tmp_path: Path) -> None:
    with process_runner(load(f"{SINKS}:{name}"), Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: False)
        campaign.carry_out([Stage(name="errors", schedules=errors_and_retries)])
        run = {len(schedule.faults) for schedule in errors_and_retries(campaign)}
        assert all(len(schedule.faults) == 1 for schedule in errors(campaign))
    found = [finding for finding in results.findings if finding.claimed]
    assert ({"O1"} if tries else set()) == {finding.oracle for finding in found}
    assert tries == {len(parse(finding.schedule).faults) for finding in found}
    assert {1, most} == run


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("for _ in range(3):\n    try:\n        put()\n    except OSError:\n        pass", True),
        (
            "while True:\n    if ready:\n        try:\n            put()\n        except OSError:\n            wait()",
            True,
        ),
        ("import tenacity", True),
        ("try:\n    put()\nexcept OSError:\n    for row in rows:\n        undo(row)", False),
    ],
)
def test_code_that_tries_again_is_known(code: str, expected: bool, tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(code)
    assert expected is tries_again([str(file)])
