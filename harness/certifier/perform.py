"""What one worker process does: one subject, or all canaries, or one replay, in one shell.

A subject's code runs in here, so it may hang, exit, or use up all memory without taking the certificate with it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from sinkproof.campaign.run import run_campaign, within_budget
from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.reports.document import CanaryResult
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import fresh_folder


def explore_subject(task: Task, *, progress: Progress = SILENT, contract: Contract | None = None) -> ShellOutcome:
    """One subject in one shell, until everything in the bound was tried or the budget is spent."""
    contract = contract or load(task.locator)
    if contract.kind == "foreach_batch":
        from sinkproof.foreach_batch.certify_function import explore

        return explore(contract, task, progress=progress)
    folder = fresh_folder()
    try:
        return run_campaign(contract, task, folder=folder, progress=progress, should_stop=within_budget(task))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def try_canaries(task: Task, *, progress: Progress = SILENT) -> Sequence[CanaryResult]:
    """Every canary and every control in one shell."""
    from sinkproof.canaries.try_canaries import try_all

    return try_all(task.shell, progress=progress, control_seconds=task.budget_seconds)


def perform(task: Task, progress: Progress) -> Any:
    if task.schedule:
        from sinkproof.certifier.rerun import try_again

        return try_again(task, progress=progress)
    return explore_subject(task, progress=progress) if task.locator else try_canaries(task, progress=progress)
