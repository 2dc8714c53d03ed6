"""What the wall clock of an attempt shows, and the times of files that it writes; moved_clock.py moves it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from sinkproof.chaos.clock import utc_now

DAY_SECONDS: Final = 86400.0
HALF_AN_HOUR_SECONDS: Final = 1800.0
YEAR_SECONDS: Final = 366 * DAY_SECONDS


class Moved:
    """Whether Python shows another time in this process than the machine does."""

    is_moved = False


@dataclass(frozen=True, slots=True)
class WallClock:
    """What an attempt's wall clock shows: `start` (seconds since 1970) and what its `context.clock` shows.

    `zone`: the time zone, as POSIX writes it, so that no database of time zones is needed; "": the machine's own.
    `passes`: time goes by while attempts live, so that their monotonic clocks show it, too.
    """

    start: float
    zone: str = ""
    passes: bool = False

    def date_files(self, folder: Path, seconds: float) -> None:
        """Gives the moved time to files that bear the true one: what was written since the last call."""
        shown = self.start + seconds
        shift_file_times(folder, shown - time.time(), newer_than=shown + YEAR_SECONDS)


def half_an_hour_before_midnight() -> WallClock:
    """The true time, in a zone where that is the time of day: for attempts beside a service, which refuses or misses
    what is dated far ahead.
    """
    now = utc_now().timestamp()
    ahead = (DAY_SECONDS - HALF_AN_HOUR_SECONDS - now) % DAY_SECONDS
    ahead -= DAY_SECONDS if ahead > DAY_SECONDS / 2 else 0.0
    minutes, seconds = divmod(int(abs(ahead)), 60)
    sign = "-" if ahead > 0 else "+"  # POSIX counts to the west
    return WallClock(start=now, zone=f"LOCAL{sign}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}")


def shift_file_times(folder: Path, seconds: float, *, newer_than: float = 0.0) -> None:
    """Adds `seconds` to the times of all files and folders that were modified after `newer_than`."""
    found = ((parent, *(os.path.join(parent, name) for name in names)) for parent, _, names in os.walk(folder))
    for path in chain.from_iterable(found):
        with suppress(FileNotFoundError):
            there = os.stat(path, follow_symlinks=False)
            if there.st_mtime > newer_than:
                times = there.st_atime + seconds, there.st_mtime + seconds
                os.utime(path, times, follow_symlinks=False)
