"""Whether cores of this machine have nothing to do: while runs wait for locks, say, more of them can overlap; or more
than they can.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from sinkproof.chaos.clock import now

LOOKED_SECONDS: Final = 1.5  # by then a worker that has just been started has made its first runs
IDLE_LEAST: Final = 0.9  # cores
IDLE_FIELDS: Final = slice(4, 6)  # of the first line of /proc/stat: idle, and waiting for a disk


class IdleCores:
    """Looks again and again, each time from the end of the last look on."""

    def __init__(self) -> None:
        self.began, self.idle = now(), idle_seconds()

    def found(self) -> bool:
        """Whether a core, or more, was idle since the last look. False until that was long enough ago."""
        seconds = now() - self.began
        if seconds < LOOKED_SECONDS:
            return False
        idle = idle_seconds() - self.idle
        self.look_again()
        return idle / seconds >= IDLE_LEAST

    def look_again(self) -> None:
        self.began, self.idle = now(), idle_seconds()


def runnable_per_core() -> float:
    """Processes, over the last minute."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def times_as_long() -> float:
    """What a run takes on a busy machine, at least once as long as on an idle one."""
    return max(1.0, runnable_per_core())


def idle_seconds(*, stat: Path = Path("/proc/stat")) -> float:
    """Of all cores together, since the machine was started; 0.0 where the system does not tell."""
    try:
        fields = stat.read_text(encoding="ascii").partition("\n")[0].split()[IDLE_FIELDS]
    except OSError:
        return 0.0
    return sum(map(int, fields)) / os.sysconf("SC_CLK_TCK")
