"""What a run has made is gone after it, although it was frozen: dead objects that refer to each other, too."""

from __future__ import annotations

import gc
from pathlib import Path

from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.schedule_runner import OBJECTS_MOST, ScheduleRunner, objects
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch


def leave_dead_objects(number: int) -> None:
    for _ in range(number):
        own: list[object] = []
        own.append(own)


def test_dead_objects_are_collected_when_a_runner_ends(tmp_path: Path) -> None:
    with ScheduleRunner(load("memory/two-phase"), Scratch(name="left", path=tmp_path)) as runner:
        runner.run(Schedule())
    gc.collect()
    before = objects()
    with ScheduleRunner(load("memory/two-phase"), Scratch(name="left", path=tmp_path)) as runner:
        runner.run(Schedule())
        gc.disable()
        try:
            leave_dead_objects(2 * OBJECTS_MOST)
            gc.freeze()  # as each run does
        finally:
            gc.enable()
        assert objects() > before + OBJECTS_MOST
    assert objects() < before + OBJECTS_MOST // 2
