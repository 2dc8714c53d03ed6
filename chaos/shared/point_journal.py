"""The journal of the points that one process reached; it survives the SIGKILL of that process.

It is shared memory (a memfd). One point is one line of text, ended by a newline; all bytes after the last newline are
zero. A point costs 0.5 us to write, a third of an `os.write`; this matters because every executed line may be a point.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from typing import Final

BYTES_AT_FIRST: Final = 1 << 20  # about 40,000 points; it doubles when it is full
BYTES_READ_FIRST: Final = 1 << 12  # a reply follows a few points; to read 64 KiB for them takes 13 us longer
STRUCK: Final = "struck at "


class Journal:
    """The writer's side. It belongs to one process: what forked children write goes to `of_children`, or nowhere."""

    def __init__(self, descriptor: int, *, of_children: Callable[[str], None] = lambda point: None) -> None:
        self._descriptor = descriptor
        self._of_children = of_children
        self._map = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
        self._store: Callable[[bytes], object] = self._map.write
        self._texts: dict[str, bytes] = {}
        os.register_at_fork(after_in_child=self._begin_child)

    def write(self, point: str) -> None:
        text = self._texts.get(point)
        if text is None:
            text = self._texts[point] = point.encode() + b"\n"
        try:
            self._store(text)
        except ValueError:  # full
            self._grow()
            self._store(text)

    def write_struck(self, line: str) -> None:
        """A fault strikes in a call that was made at this line of the sink's own code; empty: elsewhere."""
        self.write(STRUCK + line)

    def _grow(self) -> None:
        size = 2 * self._map.size()
        os.ftruncate(self._descriptor, size)
        self._map.resize(size)

    def _begin_child(self) -> None:
        setattr(self, "write", self._of_children)  # noqa: B010  # no type says that it may be replaced


class JournalReader:
    """The reader's side, which makes the journal; the writer needs its `descriptor`."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("journal")
        os.ftruncate(self.descriptor, BYTES_AT_FIRST)
        self._offset = self._end = 0
        self.struck = ""  # the line in which the last fault struck, as a point

    def new_points(self) -> list[str]:
        """The points written since the last call, without an incomplete last line."""
        whole = self._written(self._offset)
        self._offset += len(whole)
        points = whole.decode(errors="replace").split("\n")[:-1]
        for struck in [each for each in points if each.startswith(STRUCK)]:
            self.struck = struck.removeprefix(STRUCK)
            points.remove(struck)
        return points

    def points_up_to(self, end: int) -> list[str]:
        """The same, of those before this place; what follows stays for later."""
        whole = self._written(self._offset)[: max(end - self._offset, 0)]
        self._offset += len(whole)
        return [each for each in whole.decode(errors="replace").split("\n")[:-1] if not each.startswith(STRUCK)]

    def end(self) -> int:
        """The place behind the last point. Another thread than the one that reads may ask for it."""
        if self.descriptor >= 0:
            self._end += len(self._written(self._end))
        return self._end

    def _written(self, offset: int) -> bytes:
        """From there, up to the last whole line."""
        found, size = b"", BYTES_READ_FIRST
        while True:
            chunk = os.pread(self.descriptor, size, offset + len(found))
            size *= 2
            written = chunk.find(b"\0")
            found += chunk if written < 0 else chunk[:written]
            if written >= 0 or not chunk:
                return found[: found.rfind(b"\n") + 1]

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
