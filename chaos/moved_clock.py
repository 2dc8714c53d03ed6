"""Moves the wall clock of this process. The monotonic clock goes on undisturbed, unless time goes by in an attempt.

Python code sees the moved clock, in `time`, `datetime` and `uuid`, and in SQLite by connections of Python. Other native
code and other processes see the true one.
Fork servers import this module, so that attempts need not.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType
from typing import Any

from sinkproof.chaos.replaced_functions import SECOND_NS, STEADY_CLOCKS, ClocksAhead, replace_everywhere
from sinkproof.chaos.wall_clock import YEAR_SECONDS, Moved, WallClock

imported = sys.modules.get("pytest")
sys.modules["pytest"] = imported  # type: ignore[assignment]  # None: not found; only a plugin imports it, for long
from time_machine import escape_hatch, travel  # noqa: E402

if imported is None:
    del sys.modules["pytest"]


class MovedClock:
    """The wall clock of this process, from now on."""

    def __init__(self, clock: WallClock, seconds: float, *, for_life: bool = False) -> None:
        """`for_life`: of this process, which is an attempt's."""
        if clock.zone:
            os.environ["TZ"] = clock.zone
            time.tzset()
        self._start, self._shown = clock.start, seconds
        self._travel = travel(clock.start + seconds, tick=True)
        self._traveller = self._travel.start()
        texts_of_moved_time()
        if for_life:
            times_of_files_as_moved()
        self._steady = ClocksAhead(STEADY_CLOCKS) if clock.passes and for_life else None
        Moved.is_moved = True

    def stop(self) -> None:
        """The true clock, from now on; the time zone stays."""
        self._travel.stop()
        Moved.is_moved = False

    def show(self, seconds: float) -> None:
        """The clock ticks on by itself between two calls, so it goes back only if `seconds` do."""
        shown, self._shown = self._shown, seconds
        then = self._start + seconds
        ahead = then - time.time()
        if seconds < shown or ahead > 0:
            self._traveller.move_to(then)
        if self._steady is not None and ahead > 0:
            self._steady.seconds += ahead


def texts_of_moved_time() -> None:
    """`time.ctime` and `time.asctime` read the machine's clock where they are given no time."""
    if isinstance(time.ctime, BuiltinFunctionType):
        ctime, asctime = time.ctime, time.asctime
        replace_everywhere("ctime", ctime, lambda seconds=None: ctime(time.time() if seconds is None else seconds))
        replace_everywhere("asctime", asctime, lambda parts=None: asctime(time.localtime() if parts is None else parts))


def times_of_files_as_moved() -> None:
    """For the rest of this process, `os.stat`, `lstat` and `fstat` show the moved time of files that bear the true
    one: what it has written since its last reply. Imports compare true times.
    """
    for name in ("stat", "lstat", "fstat"):
        look = getattr(os, name)
        shown = partial(_stat, look)
        replace_everywhere(name, look, shown)
        setattr(sys.modules[os.name], name, look)
        for able in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
            able.update({shown} if look in able else ())


def _stat(look: Callable[..., os.stat_result], *place: Any, **named: Any) -> os.stat_result:
    status, shown = look(*place, **named), time.time()
    seconds = shown - escape_hatch.time.time()
    if status.st_mtime <= shown + YEAR_SECONDS:
        return status
    fields = {each: getattr(status, each) for each in dir(status) if each.startswith("st_")}
    for each in ("st_atime", "st_mtime", "st_ctime"):
        fields |= {each: fields[each] + seconds, f"{each}_ns": fields[f"{each}_ns"] + int(seconds * SECOND_NS)}
    return os.stat_result((*status[:7], *(int(fields[f"st_{each}time"]) for each in "amc")), fields)
