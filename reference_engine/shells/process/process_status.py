"""What the kernel says of a process: how busy it was, which signals it handles."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

HANDLED: Final = ("SigCgt:", "SigBlk:")  # a thread of the process may wait for a signal that is blocked


def busy_seconds(pid: int) -> float:
    """How long the threads of a process have run or waited for a core, in all; 0.0 where the kernel does not say."""
    nanoseconds = 0
    with suppress(OSError):  # the process has ended
        for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # the thread has ended
                nanoseconds += sum(map(int, file.read_text().split()[:2]))
    return nanoseconds / 1e9


def seconds_without_core(*, of: Path = Path("/proc/thread-self/schedstat")) -> float:
    """How long this thread has waited for a core; 0.0 where the kernel does not say."""
    with suppress(OSError):
        return int(of.read_text().split()[1]) / 1e9
    return 0.0


def handles(pid: int, number: int) -> bool:
    """Whether the process does something of its own when it gets this signal."""
    with suppress(OSError):  # the process has ended
        masks = [line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if _is_mask(line)]
        return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
    return False


def _is_mask(line: str) -> bool:
    return line.startswith(HANDLED)
