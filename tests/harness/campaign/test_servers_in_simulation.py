"""A server goes on with its own files when a copy has replaced them: deaths of its sinks are left to processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.simulated_plan import FIRST
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

Command = Callable[..., subprocess.CompletedProcess[str]]
SUBJECT = Path(__file__).parents[2] / "support/journal_in_folder.py"


@pytest.mark.slow
def test_a_right_sink_of_a_server_with_files_in_the_folder_has_no_finding(tmp_path: Path) -> None:
    contract = load(f"{SUBJECT}:Journaled")
    results = CampaignResults(contract=contract, shell="simulated")
    with ScheduleRunner(contract, Scratch(name="data", path=tmp_path)) as runner:
        SimulatedCampaign(runner, results, mixed_seconds=1.0).carry_out(FIRST)
    assert "a run from a copy ended otherwise than the first one: 24 of 24 rows lost" in (
        results.steering.deferred_to_processes
    )
    assert ([], []) == (results.findings, results.unknowns)


@pytest.mark.slow
def test_a_simulated_replay_of_a_crash_is_left_to_processes(sinkproof_command: Command) -> None:
    death = "checkpoint.persist.after#1=kill-job"
    done = sinkproof_command("replay", death, f"{SUBJECT}:Journaled")
    assert 3 == done.returncode
    assert "cannot copy this target (a run from a copy ended otherwise" in done.stderr
    assert "Replay it with --on process" in done.stderr
    assert 0 == sinkproof_command("replay", death, f"{SUBJECT}:Journaled", "--on", "process").returncode
