"""What the kernel says of a process."""

from __future__ import annotations

from pathlib import Path


def is_alive(pid: int | str) -> bool:
    """False also for a dead process that is not reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter when it ends between open and read
        return False
