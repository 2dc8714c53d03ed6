"""Sinks that write a long value to a file of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from sinkproof import Claim, Scratch

INLINE_MOST = 4_096  # characters


class Blobs:
    """Wrong: what a dead attempt has left of such a file is taken for the whole one."""

    def __init__(self, folder: Path) -> None:
        self.lines, self.blobs = folder / "lines", folder / "blobs"
        self.lines.mkdir(exist_ok=True)
        self.blobs.mkdir(exist_ok=True)

    def is_committed(self, part: str) -> bool:
        return (self.lines / f"{part}.jsonl").exists()

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        lines = [json.dumps([row.split, row.offset, row.key, *self.put(row)]) + "\n" for row in rows]
        temporary = self.lines / f".{part}-{os.getpid()}"
        temporary.write_text("".join(lines))
        os.replace(temporary, self.lines / f"{part}.jsonl")

    def put(self, row: Any) -> tuple[str | None, str | None]:
        if len(row.value) <= INLINE_MOST:
            return row.value, None
        blob = self.blobs / f"{row.split}-{row.offset}.txt"
        if not blob.exists():
            self.fill(blob, row.value)
        return None, blob.name

    def fill(self, blob: Path, value: str) -> None:
        blob.write_text(value)

    def record(self, part: str) -> None:
        """Nothing: the file is the mark."""


class WholeBlobs(Blobs):
    def fill(self, blob: Path, value: str) -> None:
        temporary = blob.with_name(f".{blob.name}-{os.getpid()}")
        temporary.write_text(value)
        os.replace(temporary, blob)


class LongValues:
    claims = Claim.EXACTLY_ONCE
    made: ClassVar[type[Blobs]] = Blobs

    def sink(self, scratch: Scratch) -> Blobs:
        return self.made(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Sequence[Any]]:
        for path in sorted((scratch.path / "lines").glob("*.jsonl")):
            for line in path.read_text().splitlines():
                split, offset, key, value, blob = json.loads(line)
                yield split, offset, key, value if blob is None else (scratch.path / "blobs" / blob).read_text()


class WholeLongValues(LongValues):
    made = WholeBlobs
