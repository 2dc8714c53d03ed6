"""When a worker process counts as hung, and what it learns of the others."""

from __future__ import annotations

import os
from contextlib import suppress
from io import StringIO
from math import inf
from pathlib import Path
from threading import Event
from typing import Any, Final, cast

import pytest

from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.certifier import task_processes
from sinkproof.certifier.task_processes import Reporting, Worker, run_tasks
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes import given_up
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.reports.document import Finding
from sinkproof.reports.progress import SILENT, open_progress

CONVICTED: Final = "sinks.py:Convicted"
HANGS, FORGETS = "sinks.py:Hangs", "sinks.py:Forgets"
PATIENCE_SECONDS: Final = 1.0  # of a worker that learns nothing


@pytest.mark.parametrize(
    ("shell", "schedule", "seconds"),
    [
        ("process", "no-fault", inf),
        ("spark", "no-fault", inf),
        ("simulated", "no-fault", 30.0),
        ("process", "", 120.0),
    ],
)
def test_a_run_alone_may_be_long_where_its_shell_gives_up_calls_that_hang(
    shell: str, schedule: str, seconds: float
) -> None:
    nothing: Any = None  # no process is started
    task = Task(locator="sinks.py:Sink", shell=shell, budget_seconds=0, schedule=schedule, hang_seconds=10.0)
    assert seconds == Worker(task, nothing, nothing, nothing, nothing).silence_seconds


def work(inside: Inside, task: Task) -> None:
    """The entry of a worker: the one with a schedule ends when it learns of a conviction, or gives up."""
    reporting, deadline = Reporting(inside), Deadline(30.0 if task.locator == CONVICTED else PATIENCE_SECONDS)
    if task.schedule:
        while not (reporting.is_convicted_elsewhere() or deadline.over):
            Event().wait(0.01)
            reporting.step("waiting", 0)
        reporting.send("result", reporting.is_convicted_elsewhere())
    else:
        reporting.found(1, "")
        reporting.send("result", "done")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("locator", "shell", "other", "learns"),
    [
        (CONVICTED, "process", CONVICTED, True),
        (CONVICTED, "process", "sinks.py:Another", False),
        ("sinks.py:Another", "simulated", "sinks.py:Another", False),
        ("", "process", "", False),
    ],
)
def test_others_learn_that_real_faults_have_convicted_their_subject(
    locator: str, shell: str, other: str, learns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_processes, "ENTRY", f"{Path(__file__).stem}:work")
    monkeypatch.setattr(task_processes, "PRELOAD", [__file__])
    tasks = [
        Task(locator=other, shell="process", budget_seconds=0, schedule="waits"),
        Task(locator=locator, shell=shell, budget_seconds=0),
    ]
    results = {task.schedule: result for task, result in run_tasks(tasks, progress=SILENT, cores=2)}
    assert {"waits": learns, "": "done"} == results


def end_with_a_finding(inside: Inside, task: Task) -> None:
    """The entry of a worker; the process shell waits for the result of the simulated one."""
    if task.shell == "process":
        work(inside, task)
        return
    claimed = task.locator == CONVICTED
    finding = Finding(oracle="O1", claimed=claimed, shell=task.shell, schedule="no-fault", why="seen", replay="-")
    no_counts: Any = None
    outcome = ShellOutcome(result=no_counts, findings=[finding], unknowns=(), never_struck=())
    Reporting(inside).send("result", outcome)


@pytest.mark.slow
@pytest.mark.parametrize(("locator", "learns"), [(CONVICTED, True), ("sinks.py:Unclaimed", False)])
def test_what_a_simulation_has_found_in_the_end_is_confirmed_and_others_learn_of_it(
    locator: str, learns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_processes, "ENTRY", f"{Path(__file__).stem}:end_with_a_finding")
    monkeypatch.setattr(task_processes, "PRELOAD", [__file__])
    tasks = [
        Task(locator=locator, shell="process", budget_seconds=0, schedule="waits"),
        Task(locator=locator, shell="simulated", budget_seconds=0),
    ]
    results = {task.shell: result for task, result in run_tasks(tasks, progress=SILENT, cores=2)}
    assert learns is results["process"]


def end_after_a_finding(inside: Inside, task: Task) -> None:
    """The entry of a worker. It may forget what it has found: the run without faults was no basis."""
    given_up.listen()
    reporting, no_counts = Reporting(inside), cast("Any", None)
    finding = Finding(oracle="O1", claimed=True, shell="process", schedule="no-fault", why="seen", replay="-")
    reporting.found(1, "")
    reporting.keep(ShellOutcome(result=no_counts, findings=[finding], unknowns=(), never_struck=()))
    if task.locator == FORGETS:
        reporting.found(0, "")
    if task.locator == HANGS:
        Event().wait(60)
    os._exit(3)


def task_after_a_finding(locator: str, monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.setattr(task_processes, "ENTRY", f"{Path(__file__).stem}:end_after_a_finding")
    monkeypatch.setattr(task_processes, "PRELOAD", [__file__])
    return Task(locator=locator, shell="process", budget_seconds=0, hang_seconds=0.05)


@pytest.mark.parametrize(
    ("locator", "stays", "why"),
    [(CONVICTED, True, "ended its process"), (HANGS, True, "hung: no message"), (FORGETS, False, "ended its process")],
)
def test_what_real_faults_have_found_is_not_lost_with_the_worker(
    locator: str, why: str, monkeypatch: pytest.MonkeyPatch, *, stays: bool
) -> None:
    task = task_after_a_finding(locator, monkeypatch)
    ((_, result),) = run_tasks([task], progress=SILENT, cores=1)
    assert stays is isinstance(result, ShellOutcome)
    assert stays is not isinstance(result, task_processes.Failure)
    assert why in (result.unknowns[0] if stays else result.why)
    assert not stays or ["O1"] == [each.oracle for each in result.findings]


def interrupt_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first message is awaited."""
    wait, waits = task_processes._await_message, []

    def interrupted(*arguments: Any, **limits: Any) -> None:
        waits.append(arguments)
        if len(waits) == 1:
            raise KeyboardInterrupt
        wait(*arguments, **limits)

    monkeypatch.setattr(task_processes, "_await_message", interrupted)


def end_when_interrupted(inside: Inside, task: Task) -> None:
    """The entry of a worker: it ends when it learns of an interruption, or gives up."""
    reporting, deadline = Reporting(inside), Deadline(30.0)
    while not ((reporting.is_interrupted() and not task.schedule) or deadline.over):
        Event().wait(0.01)
        reporting.step("waiting", 0)
    reporting.send("result", "so far")


@pytest.mark.parametrize(("schedule", "given"), [("", {CONVICTED: "so far"}), ("takes no notice", {})])
def test_an_interruption_is_raised_after_the_results_that_subjects_have_by_then(
    schedule: str, given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_processes, "ENTRY", f"{Path(__file__).stem}:end_when_interrupted")
    monkeypatch.setattr(task_processes, "PRELOAD", [__file__])
    if schedule:
        monkeypatch.setattr(task_processes, "ENDING_SECONDS", 0.1)
    interrupt_once(monkeypatch)
    tasks = [Task(locator=each, shell="process", budget_seconds=0, schedule=schedule) for each in (CONVICTED, "")]
    results = {}
    with pytest.raises(KeyboardInterrupt):
        results.update((task.locator, result) for task, result in run_tasks(tasks, progress=SILENT, cores=2))
    assert given == results


def test_an_interruption_leaves_what_real_faults_have_found(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_after_a_finding(HANGS, monkeypatch)
    monkeypatch.setattr(task_processes, "SILENCES", {"process": 1000})
    monkeypatch.setattr(task_processes, "ENDING_SECONDS", 1.0)
    interrupt_once(monkeypatch)
    results = []
    with pytest.raises(KeyboardInterrupt):
        results.extend(result for _, result in run_tasks([task], progress=SILENT, cores=1))
    assert ["O1"] == [each.oracle for result in results for each in result.findings]
    assert "was interrupted" in results[0].unknowns[0]


def end_when_given_up(inside: Inside, task: Task) -> None:
    """The entry of a worker, which has begun with what takes long."""
    given_up.listen()
    with suppress(given_up.GivenUp), given_up.given_up_on_signal():
        Event().wait(60)
    Reporting(inside).send("result", "so far")


def test_what_takes_long_is_given_up_so_that_the_results_until_then_are_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_processes, "ENTRY", f"{Path(__file__).stem}:end_when_given_up")
    monkeypatch.setattr(task_processes, "PRELOAD", [__file__])
    monkeypatch.setattr(task_processes, "ENDING_SECONDS", 30.0)
    interrupt_once(monkeypatch)
    results, begun = {}, Task(locator=CONVICTED, shell="process", budget_seconds=0)
    with pytest.raises(KeyboardInterrupt):
        results.update((task.locator, result) for task, result in run_tasks([begun], progress=SILENT, cores=2))
    assert {CONVICTED: "so far"} == results


def tell_budget(inside: Inside, task: Task) -> None:
    """The entry of a worker."""
    Reporting(inside).send("result", task.budget_seconds)


@pytest.mark.parametrize(
    ("holds", "other", "more"), [(True, CONVICTED, True), (True, "sinks.py:Other", False), (False, CONVICTED, False)]
)
def test_what_one_shell_leaves_of_a_budget_is_given_to_the_next(
    holds: bool, other: str, more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_processes, "ENTRY", f"{Path(__file__).stem}:tell_budget")
    monkeypatch.setattr(task_processes, "PRELOAD", [__file__])
    tasks = [
        Task(locator=each, shell=shell, budget_seconds=1000, budget_holds=holds, shares_state="one")
        for each, shell in ((CONVICTED, "simulated"), (other, "process"))
    ]
    results = {task.shell: result for task, result in run_tasks(tasks, progress=SILENT, cores=2)}
    assert 1000 == results["simulated"]
    assert more is (1000 < results["process"] <= 2000)


def say_something(inside: Inside, task: Task) -> None:
    """The entry of a worker."""
    Reporting(inside).say("its runs do not overlap")
    Reporting(inside).send("result", "done")


def test_what_a_worker_says_to_the_user_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_processes, "ENTRY", f"{Path(__file__).stem}:say_something")
    monkeypatch.setattr(task_processes, "PRELOAD", [__file__])
    shown = StringIO()
    task = Task(locator=CONVICTED, shell="process", budget_seconds=0)
    assert [(task, "done")] == [*run_tasks([task], progress=open_progress(shown, clock=lambda: 0.0), cores=1)]
    assert f"{CONVICTED}: its runs do not overlap\n" in shown.getvalue()


FAILING: Final = """
from sinkproof import Claim

class Kept:
    def __init__(self, file): self.file, self.rows, self.pending = file, [], {}
    def open(self, context): self.file.touch()
    def write(self, batch): self.rows += [f"{row.split} {row.offset}" for row in batch]
    def snapshot(self, checkpoint):
        self.pending[checkpoint], self.rows = self.rows, []
        return b""
    def notify_complete(self, checkpoint):
        with self.file.open("a") as file:
            file.write("".join(f"{row}\\n" for row in self.pending.pop(checkpoint)))

class Failing:
    claims = Claim.NO_DUPLICATES
    made = 0
    def setup(self, scratch):
        Failing.made += 1
        if Failing.made > 12:
            raise RuntimeError("too many clients")
    def sink(self, scratch): return Kept(scratch.path / "rows")
    def committed(self, scratch): return [tuple(map(int, row.split())) for row in (scratch.path / "rows").open()]
"""


@pytest.mark.slow
def test_what_was_run_before_the_contract_failed_is_counted(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    task = Task(locator=f"{tmp_path / 'failing.py'}:Failing", shell="process", budget_seconds=30.0, cores=1)
    ((_, result),) = run_tasks([task], progress=SILENT, cores=1)
    assert isinstance(result, ShellOutcome), result
    assert 12 > result.result.schedules_run > 6  # some of those that were made find out what the reader shows
    assert [True] == ["too many clients" in unknown for unknown in result.unknowns]
