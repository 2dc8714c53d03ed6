"""Tries all canaries without any subject, for `sinkproof canaries`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from sinkproof.certifier.certify import CONTROL_SECONDS_IN_FULL, blindness, canary_task
from sinkproof.certifier.task_processes import Failure, run_tasks
from sinkproof.reports.document import plain
from sinkproof.reports.progress import SILENT, Progress


def try_canaries(
    shells: Sequence[str],
    *,
    progress: Progress = SILENT,
) -> tuple[list[dict[str, Any]], list[str]]:
    """(The kill table, why the certifier is blind: empty if it is not.)"""
    tasks = [canary_task(shell, control_seconds=CONTROL_SECONDS_IN_FULL) for shell in shells]
    rows: list[dict[str, Any]] = []
    blind: list[str] = []
    with closing(run_tasks(tasks, progress=progress, cores=os.cpu_count() or 1)) as results:
        for task, result in results:
            if not isinstance(result, Failure):
                rows += [plain(canary) for canary in result]
            blind += blindness(task, result)
    return rows, blind
