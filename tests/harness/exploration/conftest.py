"""Schedule runners for exploration."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder

SINKS = Path(__file__).parents[2] / "support" / "explored_sinks.py"


@pytest.fixture
def runner() -> Iterator[Callable[[str], ScheduleRunner]]:
    """Makes schedule runners, of registry names or of contracts in explored_sinks.py."""
    opened: list[ScheduleRunner] = []

    def make(subject: str) -> ScheduleRunner:
        contract = load(subject if "/" in subject else f"{SINKS}:{subject}")
        opened.append(ScheduleRunner(contract, Scratch(name="explored", path=fresh_folder())).__enter__())
        return opened[-1]

    yield make
    for each in opened:
        each.__exit__()
        shutil.rmtree(each.scratch.path)
