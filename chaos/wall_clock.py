"""What the wall clock of an attempt shows, and the times of files that it writes; moved_clock.py moves it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Final

DAY_SECONDS: Final = 86400.0
YEAR_SECONDS: Final = 366 * DAY_SECONDS


@dataclass(frozen=True, slots=True)
class WallClock:
    """What an attempt's wall clock shows: `start` (seconds since 1970) and what its `context.clock` shows.

    `zone`: the time zone, as POSIX writes it, so that no database of time zones is needed; "": the machine's own.
    """

    start: float
    zone: str = ""

    def near(self, now: float) -> WallClock:
        """The same time of day, at most a day after `now`: what a service has dated must not come from years ahead."""
        return replace(self, start=self.start + max(ceil((now - self.start) / DAY_SECONDS), 0) * DAY_SECONDS)

    def date_files(self, folder: Path, seconds: float) -> None:
        """Gives the moved time to files that bear the true one: what was written since the last call."""
        shown = self.start + seconds
        shift_file_times(folder, shown - time.time(), newer_than=shown + YEAR_SECONDS)


def shift_file_times(folder: Path, seconds: float, *, newer_than: float = 0.0) -> None:
    """Adds `seconds` to the times of all files and folders that were modified after `newer_than`."""
    found = ((parent, *(os.path.join(parent, name) for name in names)) for parent, _, names in os.walk(folder))
    for path in chain.from_iterable(found):
        with suppress(FileNotFoundError):
            there = os.stat(path, follow_symlinks=False)
            if there.st_mtime > newer_than:
                times = there.st_atime + seconds, there.st_mtime + seconds
                os.utime(path, times, follow_symlinks=False)
