"""A log that seals its full segments within one line, by calls of the C library. Right: Renamed. Wrong: Copied."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Claim, Scratch

SEGMENT_BYTES = int("262144")  # no number that a reader of this code finds
C = ctypes.CDLL(None)


class SegmentedLog(PartsOfCheckpoints):
    def __init__(self, folder: Path, *, copies: bool) -> None:
        super().__init__()
        self.folder, self.copies = folder, copies

    def publish(self, name: str, rows: list[Any]) -> None:
        active = os.fsencode(self.folder / "active.log")
        sealed = [os.fsencode(self.folder / f"{each}.log") for each in (f"copying-{name}", f"sealed-{name}")]
        if (self.folder / f"sealed-{name}.log").exists():
            return
        with open(active, "a") as log:
            log.write(f"{json.dumps([name, rows])}\n")
        if os.path.getsize(active) > SEGMENT_BYTES:
            seal(active, *sealed) if self.copies else C.rename(active, sealed[1])


def seal(active: bytes, copy: bytes, sealed: bytes) -> Any:
    return C.link(active, copy), C.rename(copy, sealed), C.unlink(active)


class Renamed:
    """Right: a segment has one name at each time."""

    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False
    copies = False

    def sink(self, scratch: Scratch) -> SegmentedLog:
        (scratch.path / "log").mkdir(exist_ok=True)
        return SegmentedLog(scratch.path / "log", copies=self.copies)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for log in sorted((scratch.path / "log").glob("*.log")):
            parts = dict(json.loads(line) for line in log.read_text().splitlines())
            for rows in parts.values():
                yield from rows


class Copied(Renamed):
    """Wrong: a death between the last two calls leaves all rows of a segment twice."""

    copies = True
