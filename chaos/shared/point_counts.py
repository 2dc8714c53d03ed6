"""Counts how often each point was passed, in shared memory that survives the SIGKILL of its writer.

One file per actor, used by its attempts one after another: occurrences are counted over all of them. A slot is a count
and a name; a name is stored when its point is first passed, and never moves.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import Counter
from pathlib import Path
from typing import Final

SLOT: Final = struct.Struct("<Q248s")
SLOTS: Final = 4096  # named points are a few dozen; a sink's own code rarely has more lines than that
COUNT: Final = struct.Struct("<Q")


class PointCounts:
    """`path`: the file, made when it is missing. Processes that the actor forks must not write to it."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, SLOT.size * SLOTS)
            self._map = mmap.mmap(descriptor, SLOT.size * SLOTS)
        finally:
            os.close(descriptor)
        self._at: dict[str, int] = {name: at for at, (name, _) in enumerate(_slots(self._map))}

    def add(self, point: str) -> int:
        """Counts one more; returns the new count."""
        at = self._at.get(point)
        if at is None:
            at = self._new_slot(point)
        (count,) = COUNT.unpack_from(self._map, at * SLOT.size)
        COUNT.pack_into(self._map, at * SLOT.size, count + 1)
        return int(count) + 1

    def _new_slot(self, point: str) -> int:
        at = self._at[point] = min(len(self._at), SLOTS - 1)
        SLOT.pack_into(self._map, at * SLOT.size, 0, point.encode())
        return at


def read_counts(path: Path) -> Counter[str]:
    """The counts of the actor's attempts so far, in the order of first passage; empty if there was no attempt."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Counter()
    return Counter(dict(_slots(content)))


def _slots(content: bytes | mmap.mmap) -> list[tuple[str, int]]:
    found = []
    for at in range(len(content) // SLOT.size):
        count, name = SLOT.unpack_from(content, at * SLOT.size)
        if not name[0]:
            break
        found.append((name.rstrip(b"\0").decode(), int(count)))
    return found
