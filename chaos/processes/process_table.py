"""Which processes there are, below which others, and in which session: read from /proc."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def descendants(root: int, parents: dict[int, int]) -> list[int]:
    """Every process below the root, nearest first."""
    found, level = [], [root]
    while level:
        level = [pid for pid, parent in parents.items() if parent in level and pid not in found]
        found += level
    return found


def parents_of_all() -> dict[int, int]:
    """pid -> parent, of every process there is."""
    return {pid: parent for pid, (parent, _) in _relations()}


def members_of(session: int) -> list[int]:
    """Every process of a session (as in setsid), those that are dead and not reaped included."""
    return [pid for pid, (_, its) in _relations() if its == session]


def _relations() -> Iterator[tuple[int, tuple[int, int]]]:
    """(pid, (parent, session)) of every process there is."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            yield int(entry.name), (int(fields[1]), int(fields[3]))
