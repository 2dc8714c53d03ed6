"""A subject in the simulated shell, in a folder that is removed in the end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder


@contextmanager
def opened(locator: str) -> Iterator[ScheduleRunner]:
    folder = fresh_folder()
    with ScheduleRunner(load(locator), Scratch(name="first", path=folder)) as made:
        yield made
    shutil.rmtree(folder)
