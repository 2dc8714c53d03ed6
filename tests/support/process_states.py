"""What the kernel says of a process: whether it lives, and which process has begun it."""

from __future__ import annotations

from pathlib import Path


def is_alive(pid: int | str) -> bool:
    """False also for a dead process that is not reaped yet."""
    try:
        return _after_name(pid)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter when it ends between open and read
        return False


def parent_of(pid: int) -> int:
    return int(_after_name(pid)[1])


def _after_name(pid: int | str) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
