"""Subjects are tried before the canaries, a budget that holds is never exceeded, and seconds are those of the wall."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from sinkproof.campaign import campaign_budget
from sinkproof.campaign.campaign_budget import run_campaign, within_budget
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.task import Task
from sinkproof.certifier import certify
from sinkproof.certifier.certify import CANARIES_UNTRIED, Options, _take_subject, _tasks
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.reports.certificate_file import CertificateWriter
from sinkproof.reports.certificate_file import load as load_certificate
from sinkproof.reports.document import Finding
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.subject.loading import load

ZOO = Path(__file__).parents[2] / "zoo"
LOCATOR = f"{ZOO / 'sqlite_tables.py'}:RowsAndMarker"
FINDING = Finding(oracle="O1", claimed=True, shell="process", schedule="no-fault", why="seen", replay="-")


@pytest.mark.parametrize(
    ("claims", "rows", "also", "said"),
    [
        ("EFFECTIVELY_ONCE | Claim.NO_RESIDUE", "append", "", ["NO_RESIDUE", "no residue(scratch)"]),
        ("EXACTLY_ONCE", "upsert", "", ["NO_DUPLICATES", "offer `seen`"]),
        ("EXACTLY_ONCE", "upsert", "def seen(self, scratch): return []", []),
        ("EXACTLY_ONCE", "append", "", []),
    ],
)
def test_what_no_run_can_show_is_said_before_the_first_run(
    claims: str, rows: str, also: str, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "sinks.py"
    module.write_text(
        "from sinkproof import Claim\n"
        f"class Mine:\n    claims = Claim.{claims}\n    rows = {rows!r}\n    def sink(self, scratch): ...\n"
        f"    def committed(self, scratch): return []\n    {also}\n"
    )
    sentences: list[str] = []

    class Saying(Progress):
        def say(self, text: str) -> None:
            sentences.append(text)

    def nothing_ran(*_: object, **__: object) -> list[str]:
        sentences.append("the runs")
        return []

    monkeypatch.setattr(certify, "_try_everything", nothing_ran)
    certify.certify([f"{module}:Mine"], tmp_path / "out", options=Options(canaries=False), progress=Saying())
    assert "the runs" == sentences.pop()
    assert bool(said) is bool(sentences)
    assert all(part in sentence for sentence in sentences for part in said)


def test_subjects_come_before_canaries() -> None:
    tasks = _tasks(["memory/two-phase", "memory/plain"], Options())
    assert ["memory/two-phase"] * 2 + ["memory/plain"] * 2 + ["canaries"] * 2 == [task.name for task in tasks]


@pytest.mark.parametrize("canaries", [True, False])
def test_tasks_say_whether_canaries_of_functions_are_tried(canaries: bool) -> None:
    tasks = _tasks(["memory/plain"], Options(canaries=canaries))
    assert {canaries} == {task.canaries for task in tasks if task.locator}


@pytest.mark.parametrize(
    ("cores", "holds", "seconds"), [(2, True, 30.0), (1, True, 15.0), (2, False, 30.0), (1, False, 30.0)]
)
def test_a_budget_that_holds_is_shared_by_shells_that_run_one_after_the_other(
    cores: int, holds: bool, seconds: float
) -> None:
    tasks = _tasks(["memory/plain"], Options(budget_seconds=30, budget_holds=holds, cores=cores, canaries=False))
    assert [(seconds, holds)] * 2 == [(task.budget_seconds, task.budget_holds) for task in tasks]


@pytest.mark.parametrize(("method", "shared"), [("setup", True), ("teardown", True), ("residue", False)])
def test_shells_that_may_meet_at_what_setup_makes_run_one_after_the_other(
    method: str, shared: bool, tmp_path: Path
) -> None:
    module = tmp_path / "sinks.py"
    module.write_text(
        "class Mine:\n    claims = 'NO_LOSS'\n    def sink(self, scratch): ...\n    def committed(self, scratch): ...\n"
        f"    def {method}(self, scratch): ...\n"
    )
    tasks = _tasks([f"{module}:Mine"], Options(budget_seconds=30, budget_holds=True, cores=2, canaries=False))
    assert [(str(module), 15.0) if shared else ("", 30.0)] * 2 == [
        (task.shares_state, task.budget_seconds) for task in tasks
    ]


@pytest.mark.parametrize(
    ("holds", "shell", "is_convicted", "ends_after"),
    [
        (True, "process", False, 10.0),
        (True, "process", True, 10.0),
        (True, "simulated", True, 7.5),  # its findings are still to be confirmed
        (False, "process", True, 5.0),
        (False, "process", False, 600.0),  # much is missing that a verdict needs
    ],
)
def test_when_a_campaign_ends(
    holds: bool, shell: str, is_convicted: bool, ends_after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(campaign_budget, "now", lambda: clock[0])
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    results = CampaignResults(contract=load(LOCATOR), shell=shell)
    results.findings += [FINDING] if is_convicted else []
    should_stop = within_budget(Task(locator=LOCATOR, shell=shell, budget_seconds=10, budget_holds=holds))
    clock[0] = ends_after - 0.1
    assert not should_stop(results)
    clock[0] = ends_after + 0.1
    assert should_stop(results)


@pytest.mark.parametrize(
    ("shell", "is_convicted", "ends_after"),
    [("process", False, 90.0), ("process", True, 5.0), ("simulated", False, 10.0)],
)
def test_time_for_the_whole_plan_is_that_of_real_deaths_and_ends_with_a_conviction(
    shell: str, is_convicted: bool, ends_after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(campaign_budget, "now", lambda: clock[0])
    monkeypatch.setattr(campaign_budget, "has_least", lambda results, task: True)
    results = CampaignResults(contract=load(LOCATOR), shell=shell)
    results.findings += [FINDING] if is_convicted else []
    should_stop = within_budget(Task(locator=LOCATOR, shell=shell, budget_seconds=10, plan_seconds=90))
    clock[0] = ends_after - 0.1
    assert not should_stop(results)
    clock[0] = ends_after + 0.1
    assert should_stop(results)


def test_only_sinks_of_users_have_time_for_the_whole_plan() -> None:
    tasks = _tasks(["memory/two-phase", LOCATOR], Options(plan_seconds=90, canaries=False))
    assert [0.0, 0.0, 90.0, 90.0] == [task.plan_seconds for task in tasks]


@pytest.mark.parametrize(("is_convicted", "ends_after"), [(True, 5.0), (False, 600.0)])
def test_a_simulation_ends_early_where_real_faults_have_convicted_the_subject(
    is_convicted: bool, ends_after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shared(Progress):
        def is_convicted_elsewhere(self) -> bool:
            return is_convicted

    clock = [0.0]
    monkeypatch.setattr(campaign_budget, "now", lambda: clock[0])
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    results = CampaignResults(contract=load(LOCATOR), shell="simulated", progress=Shared())
    should_stop = within_budget(Task(locator=LOCATOR, shell="simulated", budget_seconds=10))
    clock[0] = ends_after - 0.1
    assert not should_stop(results)
    clock[0] = ends_after + 0.1
    assert should_stop(results)


@pytest.mark.slow
@pytest.mark.parametrize("holds", [True, False])
def test_a_campaign_that_ends_before_a_required_stage_leaves_unknown_whether_its_budget_was_named_or_not(
    holds: bool, tmp_path: Path
) -> None:
    task = Task(locator=LOCATOR, shell="process", budget_seconds=0, budget_holds=holds)
    outcome = run_campaign(
        load(LOCATOR), task, folder=tmp_path, progress=SILENT, should_stop=lambda results: bool(results.coverage.runs)
    )
    assert "zombies within commits" == outcome.ended_before
    subject = SubjectProgress(load(LOCATOR))
    writer = CertificateWriter(tmp_path, clock=lambda: 0.0)
    _take_subject(writer, subject, outcome, doubts=[CANARIES_UNTRIED])
    (written,) = load_certificate(tmp_path)["subjects"]
    assert written["why"].endswith(CANARIES_UNTRIED)
    assert CANARIES_UNTRIED not in subject.unknowns
    assert re.search(r"before its stage 'zombies within commits'.*--budget: \d+s should", written["why"])


def test_seconds_of_shells_that_ran_at_the_same_time_count_once() -> None:
    subject = SubjectProgress(load(LOCATOR))
    for until, seconds in ((10.0, 6.0), (12.0, 10.0), (20.0, 3.0)):
        subject.ran(until=until, seconds=seconds)
    assert 10.0 + 3.0 == subject.seconds
