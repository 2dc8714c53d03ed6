"""A log of events that many processes append to one file, which survives all of them: JSON lines, appended whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from sinkproof.chaos.clock import now

Happening = dict[str, Any]  # "what", "at" (seconds, one clock for all processes of the host), "pid", and more


class EventLog:
    """The writer's side. Each line is one appending write, which the kernel does not interleave."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    @property
    def descriptor(self) -> int:
        return self._descriptor

    def record(self, what: str, **details: Any) -> None:
        line = {"what": what, "at": round(now(), 6), "pid": os.getpid(), **details}
        os.write(self._descriptor, msgspec.json.encode(line) + b"\n")


class EventLogReader:
    """The reader's side: the events since the last call, whole lines only."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
        self._rest = b""

    def new(self) -> list[Happening]:
        while chunk := os.read(self._descriptor, 1 << 16):
            self._rest += chunk
        *lines, self._rest = self._rest.split(b"\n")
        return [msgspec.json.decode(line) for line in lines]

    def close(self) -> None:
        os.close(self._descriptor)
