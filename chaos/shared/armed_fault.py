"""Holds in shared memory which fault is injected next: the driver writes it, every process reads it at each point.

The faults of a schedule are armed one after another. A process moves on to the next fault *before* it injects the
current one, so that its successor cannot inject the same fault again.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sinkproof.chaos.schedule import Fault, Schedule, parse

HEADER: Final = struct.Struct("<QQ")  # version of the list, number of its faults that were injected
BYTES: Final = 1 << 16


class ArmedFaults:
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
        """Replaces the list. Readers see the old list or the new one: the version is written last."""
        text = str(Schedule(tuple(faults))).encode()
        if len(text) >= BYTES - HEADER.size:
            raise ValueError(f"{len(faults)} faults are too many to be armed at once: at most {BYTES} bytes of text")
        version = self.position[0]
        self._map[HEADER.size : HEADER.size + len(text) + 1] = text + b"\0"
        HEADER.pack_into(self._map, 0, version + 1, 0)

    @property
    def position(self) -> tuple[int, int]:
        """(version of the list, number of its faults that were injected)."""
        version, injected = HEADER.unpack_from(self._map, 0)
        return int(version), int(injected)

    def next(self) -> Fault | None:
        """The armed fault; parsed again only after a change."""
        position = HEADER.unpack_from(self._map, 0)
        if position != self._known:
            self._read(position)
        return self._next

    def _read(self, position: tuple[int, ...]) -> None:
        version, injected = position
        if version != self._known[0]:
            text = self._map[HEADER.size : self._map.find(b"\0", HEADER.size)].decode()
            self._faults = parse(text).faults if version else ()
        self._known = (version, injected)
        self._next = self._faults[injected] if injected < len(self._faults) else None

    def take(self) -> Fault:
        """The armed fault, which will not be returned again."""
        fault = self.next()
        assert fault is not None
        version, injected = self._known
        HEADER.pack_into(self._map, 0, version, injected + 1)
        return fault
