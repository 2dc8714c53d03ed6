"""TCP may bring a reply in pieces: a client that reads once has a part of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.rare import replies_in_pieces
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SESSIONS: Final = Path(__file__).parents[2] / "support" / "fenced_sessions.py"
WHOLE_LINE: Final = "self.answers.readline()"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "is_right"),
    [pytest.param(WHOLE_LINE, True, marks=pytest.mark.longer), ("self.connection.recv(4096)", False)],
)
def test_a_reply_that_is_read_once_is_not_whole(read: str, is_right: bool, tmp_path: Path) -> None:
    file, folder = tmp_path / "sessions.py", tmp_path / "scratch"
    shutil.copy(SESSIONS, file)
    shutil.copy(SESSIONS.with_name("own_server.py"), tmp_path)
    file.write_text(file.read_text().replace(WHOLE_LINE, read))
    folder.mkdir()
    with process_runner(load(f"{file}:GreetsAgain"), Scratch(name="pieces", path=folder, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: False)
        campaign.carry_out([Stage(name="replies in pieces", schedules=replies_in_pieces)])
    assert is_right is not any(finding.claimed for finding in results.findings)
    assert 5 == len([schedule for schedule in campaign.tried if "pieces" in schedule.job])
