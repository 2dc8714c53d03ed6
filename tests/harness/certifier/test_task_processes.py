"""When a worker process counts as hung."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from sinkproof.campaign.task import Task
from sinkproof.certifier.task_processes import Worker


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
