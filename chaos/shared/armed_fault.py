"""Which fault strikes next, in shared memory: written by who runs the experiment, read at every point by everybody.

The faults of a schedule are armed one after another; whoever strikes moves on to the next one *before* it does so, so
that its successor cannot strike the same one again.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sinkproof.chaos.schedule import Fault, Schedule, parse

HEADER: Final = struct.Struct("<QQ")  # version of the list, faults of it that have struck
BYTES: Final = 1 << 16


class Armed:
    """`path`: the file, made when it is missing."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, BYTES)
            self._map = mmap.mmap(descriptor, BYTES)
        finally:
            os.close(descriptor)
        self._known = (-1, -1)
        self._faults: tuple[Fault, ...] = ()
        self._next: Fault | None = None

    def arm(self, faults: Sequence[Fault]) -> None:
        """These instead of what was armed before. Readers see the old list or the new one: the version comes last."""
        text = str(Schedule(tuple(faults))).encode()
        if len(text) >= BYTES - HEADER.size:
            raise ValueError(f"{len(faults)} faults are too many to be armed at once: at most {BYTES} bytes of text")
        version = self.position[0]
        self._map[HEADER.size : HEADER.size + len(text) + 1] = text + b"\0"
        HEADER.pack_into(self._map, 0, version + 1, 0)

    @property
    def position(self) -> tuple[int, int]:
        """(version of the list, how many of it have struck)."""
        version, struck = HEADER.unpack_from(self._map, 0)
        return int(version), int(struck)

    def next(self) -> Fault | None:
        """The fault that waits for its place; read anew only when something has changed."""
        position = HEADER.unpack_from(self._map, 0)
        if position != self._known:
            self._read(position)
        return self._next

    def _read(self, position: tuple[int, ...]) -> None:
        version, struck = position
        if version != self._known[0]:
            text = self._map[HEADER.size : self._map.find(b"\0", HEADER.size)].decode()
            self._faults = parse(text).faults if version else ()
        self._known = (version, struck)
        self._next = self._faults[struck] if struck < len(self._faults) else None

    def take(self) -> Fault:
        """The next fault, which will not strike again."""
        fault = self.next()
        assert fault is not None
        version, struck = self._known
        HEADER.pack_into(self._map, 0, version, struck + 1)
        return fault
