"""A simulated query of a function, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.foreach_batch import faults_at_targets
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, clear_folder

from ...support.explored_functions import FUNCTIONS, Frame


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SimulatedQuery]:
    def of(function: str, *, module: str = "without_spark") -> SimulatedQuery:
        folder = tmp_path / "scratch"
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        clear_folder(folder)
        contract = load(f"{FUNCTIONS}/{module}.py:{function}")
        session: Any = Frame(range(0))
        return SimulatedQuery(contract, Scratch(name=function, path=folder), session)

    return of


@pytest.fixture
def usual_batches_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each death takes a driver of its own, and the calls of large batches take seconds to record."""
    monkeypatch.setattr(faults_at_targets, "jobs_of_larger_batches", lambda files: [])
    monkeypatch.setattr(faults_at_targets, "deaths_around_commits", lambda rows: [])
    monkeypatch.setattr(faults_at_targets, "deaths_between_more", lambda usual, larger: [])
