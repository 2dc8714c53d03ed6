"""No number of a certificate is more than what was run; a campaign that ends sooner says that it left out more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.campaign_budget import conclude
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.simulated_plan import SIMULATED_PLAN
from sinkproof.campaign.stage import Plan
from sinkproof.campaign.task import ShellOutcome
from sinkproof.chaos.points import is_line
from sinkproof.chaos.shared.event_log import Happening
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.reports.coverage_text import caveats
from sinkproof.reports.document import Document
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder

from ...support.logged_runs import certificate, logged, numbers_beyond
from ...support.zoo_campaigns import Stopping

SINKS = Path(__file__).parents[2] / "support" / "explored_sinks.py"
OF_EACH_KIND = (
    "recovery from each checkpoint alone",
    "whole-job crash at each step and line",
    "kill at each step",
    "error at each step",
    "concurrent reader",
    "closure of whole-job crashes",
    "kill, zombie and pause at lines",
    "ordered pairs of faults",
)
SHORT: Plan = [stage for stage in SIMULATED_PLAN if stage.name in OF_EACH_KIND]
LINES_AND_PAIRS: Plan = SHORT[-2:]
IN_PROCESSES: Plan = [stage for stage in PROCESS_PLAN if stage.name.startswith(("kill at each", "pause at each"))]
WHOLE = 10**6


@contextmanager
def scratch(shell: str) -> Iterator[Scratch]:
    folder = fresh_folder()
    yield Scratch(name=f"numbers-{shell}", path=folder, shell=shell)
    shutil.rmtree(folder)


def simulated(subject: str, plan: Plan, *, asked_most: int) -> ShellOutcome:
    """Ends when it has been asked this often whether it should."""
    contract = load(subject)
    with scratch("simulated") as place, ScheduleRunner(contract, place) as runner:
        results = CampaignResults(contract=contract, shell="simulated")
        stopping = Stopping(lambda results, asked: asked >= asked_most)
        campaign = SimulatedCampaign(runner, results, should_stop=stopping)
        campaign.carry_out(plan)
        results.closures += campaign.closures.other_summaries()
        return conclude(results, seconds=1.0, closure=campaign.closures.summary())


def in_processes(subject: str, *, of_each: int) -> ShellOutcome:
    """So many schedules of each list."""
    contract = load(subject)
    with scratch("process") as place, process_runner(contract, place) as runner:
        results = CampaignResults(contract=contract, shell="process")
        run_all: Any = lambda schedules, trace_lines, run: map(run, islice(schedules, of_each))  # noqa: E731
        ProcessCampaign(runner, results, run_all=run_all).carry_out(IN_PROCESSES)
        return conclude(results, seconds=1.0, closure=None)


def lines_beyond(document: Document, log: Sequence[Happening]) -> list[str]:
    """The same for the lines of the sink's own code."""
    hit = [(point, kind) for each in log if each["what"] == "run" for point, kind in each["struck"]]
    hit += [(each["point"], "kill-job") for each in log if each["what"] == "crash"]
    passed = {point for each in log if each["what"] == "run" for point in each["points"] if is_line(point)}
    kinds = {"killed": ("kill", "kill-job"), "stopped": ("stop",), "paused": ("pause",)}
    found = {word: {point for point, kind in hit if kind in those and is_line(point)} for word, those in kinds.items()}
    found |= {"executed": passed, "covered": passed - found["killed"]}
    totals = {word: sum(file[word] for file in document["code"]) for word in found}
    return [
        f"{word}: {totals[word]}, logged {len(lines)}" for word, lines in found.items() if totals[word] > len(lines)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("plan", "asked_most"), [(SHORT, 20), (SHORT, 320), (LINES_AND_PAIRS, 420)])
def test_no_number_of_a_simulated_campaign_is_more_than_what_the_log_adds_up_to(
    plan: Plan, asked_most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends while it crashes at each step and line, within a closure, or within faults at lines."""
    subject = f"{SINKS}:CarefulContract"
    with logged(tmp_path / "runs", monkeypatch) as reader:
        document = certificate(subject, simulated(subject, plan, asked_most=asked_most))
        log = reader.new()
    (shell,) = document["shells"]
    assert [] == numbers_beyond(shell, log) + lines_beyond(document, log)
    assert shell["schedules_run"] >= asked_most // 2
    assert shell["lines_covered"] + shell["lines_reached"] > 10
    assert len([each for each in log if each["what"] == "crash"]) > 5 or plan is LINES_AND_PAIRS


@pytest.mark.slow
def test_no_number_of_a_campaign_in_processes_is_more_than_what_the_log_adds_up_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = "files/two-phase"
    with logged(tmp_path / "runs", monkeypatch) as reader:
        document = certificate(subject, in_processes(subject, of_each=3))
        log = reader.new()
    (shell,) = document["shells"]
    assert [] == numbers_beyond(shell, log) + lines_beyond(document, log)
    assert 9 <= shell["schedules_run"] <= len(log)
    assert shell["kills"] >= 3
    assert (2, 2, 24) == tuple(shell["bounds"][key] for key in ("sources", "sinks", "rows"))


@pytest.mark.slow
def test_a_campaign_that_ends_sooner_has_all_caveats_of_a_longer_one_and_more() -> None:
    subject = f"{SINKS}:CarefulContract"
    asked = (20, 60, 120, WHOLE)
    plan = SHORT[:4]
    left = [{*caveats(certificate(subject, simulated(subject, plan, asked_most=most)))} for most in asked]
    for sooner, later in pairwise(left):
        assert sooner >= later
    assert len(left[0]) > len(left[2]) > 0
    assert set() == left[-1]
