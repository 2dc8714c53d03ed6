"""A real folder for checkpoints, deleted when the demonstration is over."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sinkproof.subject.scratch import fresh_folder


@contextmanager
def scratch_folder() -> Iterator[Path]:
    folder = fresh_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def listing(folder: Path, *, pattern: str) -> list[str]:
    """Paths of the files in it, relative to it, sorted; without the digests in the names of states."""
    found = (path.relative_to(folder).as_posix() for path in folder.glob(pattern))
    return sorted(name.rpartition("-")[0] + ".state" if name.endswith(".state") else name for name in found)
