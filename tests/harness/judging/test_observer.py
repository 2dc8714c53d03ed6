"""When the target is read: before each decision, and in a job with hundreds of them before some."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.judging.observer import DECISIONS_READ, Observer
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import HUNDREDS_OF_CHECKPOINTS_JOB, MANY_CHECKPOINTS_JOB
from sinkproof.workload.ledger import Identity


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "least", "most"),
    [(MANY_CHECKPOINTS_JOB, 12, 15), (HUNDREDS_OF_CHECKPOINTS_JOB, DECISIONS_READ + 60, DECISIONS_READ + 80)],
)
def test_the_target_is_read_before_decisions_but_not_before_each_of_hundreds(
    job: str, least: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, readings = Observer.read, []

    def count(observer: Observer) -> list[Identity] | None:
        rows = read(observer)
        readings.append(rows)
        return rows

    monkeypatch.setattr(Observer, "read", count)
    with ScheduleRunner(load("memory/write-ahead"), Scratch(name="read", path=tmp_path)) as runner:
        result = runner.run(Schedule(job=job))
    assert (True, ()) == (result.finished, result.anomalies)
    assert least <= len(readings) <= most
