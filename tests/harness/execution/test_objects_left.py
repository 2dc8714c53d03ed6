"""What a run has made is gone after it, although it was frozen: dead objects that refer to each other, too."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.schedule_runner import GROWN_MOST, ScheduleRunner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch


class Own:
    """Refers to itself."""

    def __init__(self, size: int) -> None:
        self.own, self.filling = self, bytes([1]) * size


def left_after_a_runner(folder: Path, *, size: int) -> bool:
    """Whether a dead object is still there that was frozen, as each run freezes all."""
    with ScheduleRunner(load("memory/two-phase"), Scratch(name="left", path=folder)) as runner:
        runner.run(Schedule())
        gc.disable()
        try:
            dead = weakref.ref(Own(size))
            gc.freeze()
        finally:
            gc.enable()
        assert dead() is not None
    return dead() is not None


def test_dead_objects_are_collected_when_a_runner_ends_and_the_process_has_grown(tmp_path: Path) -> None:
    assert not left_after_a_runner(tmp_path, size=2 * GROWN_MOST)
    assert left_after_a_runner(tmp_path, size=1)
