"""The main command: canaries first, then every subject in every shell, and the certificate as it grows."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.clock import now
from sinkproof.contract import load
from sinkproof.judgement import Course, judge_subject
from sinkproof.reports.document import CertificateWriter, Document, plain
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.scratch import sweep_folders_of_the_dead
from sinkproof.tasks import ShellOutcome, Task
from sinkproof.verdict import Verdict, merge
from sinkproof.workers import Failure, run_tasks

SHELLS: Final = ("simulated", "process")
CANARY_SECONDS: Final = 10.0  # each; most need a tenth of a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    shells: Sequence[str] = SHELLS
    budget_seconds: float = 30.0  # per subject and shell
    seed: int = 0
    canaries: bool = True
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    hang_seconds: float = 60.0


def environment() -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "sinkproof": version("sinkproof"),
        "python": platform.python_version(),
        "optimized": bool(sys.flags.optimize),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }


def certify(
    locators: Sequence[str],
    out: Path,
    *,
    options: Options = Options(),
    progress: Progress = SILENT,
) -> Document:
    """Certifies each subject and returns the document, which is also in `out`.

    Raises ContractError for a bad subject.
    """
    sweep_folders_of_the_dead()
    courses = {locator: Course(load(locator)) for locator in locators}
    writer = CertificateWriter(out, clock=now, environment=environment())
    tasks = [
        Task(locator="", shell=shell, budget_seconds=CANARY_SECONDS) for shell in options.shells if options.canaries
    ]
    tasks += [
        Task(locator=locator, shell=shell, budget_seconds=options.budget_seconds, seed=options.seed)
        for locator in locators
        for shell in options.shells
    ]
    blind: list[str] = []
    for task, result in run_tasks(tasks, progress=progress, cores=options.cores, hang_seconds=options.hang_seconds):
        if not task.locator:
            blind += _take_canaries(writer, task, result)
        else:
            _take_subject(writer, courses[task.locator], result)
    if not options.canaries:
        writer.note("the canaries were not tried: nothing vouches for the certifier itself")
    for reason in blind:
        writer.note(reason)
    verdicts = [_conclude(writer, course, blind) for course in courses.values()]
    return writer.finish(merge(verdicts).value)


def _take_canaries(writer: CertificateWriter, task: Task, result: Any) -> list[str]:
    """Writes the kill table; returns why the certifier is blind, if it is."""
    for canary in () if isinstance(result, Failure) else result:
        writer.canary(canary)
    return blindness(task, result)


def blindness(task: Task, result: Any) -> list[str]:
    """One escaped canary or one convicted control, and nothing that this certifier upholds can be trusted."""
    if isinstance(result, Failure):
        return [f"the canaries could not be tried in the {task.shell} shell: {result.why}"]
    blind = []
    for canary in result:
        if canary.convicted is canary.control:
            what = "the correct control" if canary.control else "the canary"
            how = "was convicted" if canary.control else "escaped"
            blind.append(f"{what} {canary.name!r} {how} in the {task.shell} shell: {canary.why or 'nothing was found'}")
    return blind


def _take_subject(writer: CertificateWriter, course: Course, result: ShellOutcome | Failure) -> None:
    if isinstance(result, Failure):
        course.unknowns.append(result.why)
        if result.details:
            writer.note(result.details)
    else:
        course.shells.append(result.result)
        course.findings += result.findings
        course.unknowns += result.unknowns
        if result.never_struck and not result.unknowns:
            missed = ", ".join(result.never_struck)
            course.unknowns.append(f"in the {result.result.shell} shell no fault ever struck at {missed}")
    order = [*SHELLS]
    course.shells.sort(key=lambda shell: order.index(shell.shell))
    writer.subject(judge_subject(course))


def _conclude(writer: CertificateWriter, course: Course, blind: Sequence[str]) -> Verdict:
    """The last word on one subject. A blind certifier upholds nothing; what it saw all the same stands."""
    course.unknowns += blind
    result = judge_subject(course)
    writer.subject(result)
    return Verdict(result.verdict)


def try_canaries(
    shells: Sequence[str],
    *,
    progress: Progress = SILENT,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The kill table, and why the certifier would be blind, if it is."""
    tasks = [Task(locator="", shell=shell, budget_seconds=CANARY_SECONDS) for shell in shells]
    rows: list[dict[str, Any]] = []
    blind: list[str] = []
    for task, result in run_tasks(tasks, progress=progress, cores=os.cpu_count() or 1):
        if not isinstance(result, Failure):
            rows += [plain(canary) for canary in result]
        blind += blindness(task, result)
    return rows, blind
