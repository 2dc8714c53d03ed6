"""Lines that forked children of a process have executed: a byte of shared memory for each line of some files.

A child marks a line by one store. It needs no descriptor for it, as it may close all that it has inherited, and waits
for no other process.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Collection, Sequence
from typing import Final

from sinkproof.chaos.points import is_line, line_point

LINES_MOST: Final = 1 << 14  # of a file


class LineMarks:
    """The writer's side, for the children of this process."""

    def __init__(self, descriptor: int, files: Collection[str]) -> None:
        """`files`: names in points, in the order that the reader knows."""
        self._map = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
        os.close(descriptor)
        self._first = {_head(line_point(name, 0)): at * LINES_MOST for at, name in enumerate(files)}
        self._places: dict[str, int] = {}

    def mark(self, point: str) -> None:
        place = self._places.get(point)
        if place is None:
            place = self._places[point] = self._place(point)
        if place >= 0:
            self._map[place] = 1

    def _place(self, point: str) -> int:
        """-1: no line of these files."""
        first = self._first.get(_head(point), -1) if is_line(point) else -1
        number = int(point.rpartition(":")[2].rstrip(")")) if first >= 0 else LINES_MOST
        return first + number if number < LINES_MOST else -1


class MarkedLines:
    """The reader's side, which makes the memory; each writer needs its `descriptor`."""

    def __init__(self, files: Collection[str]) -> None:
        self.files = tuple(files)
        self.descriptor = os.memfd_create("lines")
        os.ftruncate(self.descriptor, len(self.files) * LINES_MOST)

    def points(self) -> tuple[str, ...]:
        """Of what has been marked so far."""
        found, end = [], 0
        while (begin := _next_data(self.descriptor, end)) >= 0:
            end = os.lseek(self.descriptor, begin, os.SEEK_HOLE)
            marks = os.pread(self.descriptor, end - begin, begin)
            found += [divmod(begin + at, LINES_MOST) for at, mark in enumerate(marks) if mark]
        return tuple(line_point(self.files[file], number) for file, number in found)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def marking(descriptors: Sequence[int], files: Collection[str]) -> Callable[[str], None]:
    """What children do at each point. `descriptors`: of a reader; without one nothing is to be known."""
    return LineMarks(descriptors[0], files).mark if descriptors else lambda point: None


def _head(point: str) -> str:
    return point.rpartition(":")[0]


def _next_data(descriptor: int, offset: int) -> int:
    """-1: there is none."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError:
        return -1
