"""A runner of the process shell, with a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder


@contextmanager
def made_folder() -> Iterator[Path]:
    folder = fresh_folder()
    yield folder
    shutil.rmtree(folder)


@contextmanager
def opened(locator: str) -> Iterator[ProcessRunner]:
    with (
        made_folder() as folder,
        process_runner(load(locator), Scratch(name="first", path=folder, shell="process")) as made,
    ):
        yield made
