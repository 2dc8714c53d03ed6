"""Moves the wall clock of this process. The monotonic clock goes on undisturbed, unless time goes by in an attempt.

Python code sees the moved clock, in `time`, `datetime` and `uuid`, and in SQLite by connections of Python. Other native
code and other processes see the true one.
Fork servers import this module, so that attempts need not.
"""

from __future__ import annotations

import os
import sys
import time
from types import BuiltinFunctionType

from sinkproof.chaos.replaced_functions import STEADY_CLOCKS, ClocksAhead, replace_everywhere
from sinkproof.chaos.wall_clock import Moved, WallClock

imported = sys.modules.get("pytest")
sys.modules["pytest"] = imported  # type: ignore[assignment]  # None: not found; only a plugin imports it, for long
from time_machine import travel  # noqa: E402

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
