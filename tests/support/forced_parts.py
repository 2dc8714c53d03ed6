"""A file for each part, which is forced to disk; or is not, and no error says so."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from native_commits import Rows, RowsInState

from sinkproof import Claim, Context, Scratch


class Forced(RowsInState):
    """A file for each part, forced to disk with its folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        temporary = self.folder / f"temporary-{os.getpid()}"
        temporary.write_text(json.dumps(rows))
        self.force(temporary)
        temporary.rename(self.folder / f"part-{marker[0]}-{marker[1]}")
        self.force(self.folder)

    def force(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class ForcedIfPossible(Forced):
    def force(self, path: Path) -> None:
        with suppress(OSError):
            super().force(path)


class ForcedParts:
    """Right."""

    claims: Any = Claim.EXACTLY_ONCE | Claim.SURVIVES_POWER_LOSS
    make: Any = Forced

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for part in sorted(scratch.path.glob("part-*")):
            yield from json.loads(part.read_text() or "[]")


class PartsForcedIfPossible(ForcedParts):
    """Wrong: what could not be forced to disk is taken for forced."""

    make = ForcedIfPossible


class ForcedOnceOpen(Forced):
    """What it publishes while it is restored is not forced to disk, only its name."""

    def open(self, context: Context) -> None:
        self.is_open = False
        super().open(context)
        self.is_open = True

    def force(self, path: Path) -> None:
        if self.is_open or path == self.folder:
            super().force(path)


class PartsForcedOnceOpen(ForcedParts):
    """Wrong: a later checkpoint forgets the rows that were published again."""

    make = ForcedOnceOpen


class InFolder(Forced):
    """Parts lie in a folder of their own, which the first attempt makes."""

    forces_always = True

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        made = not (parts := self.folder / "parts").is_dir()
        parts.mkdir(exist_ok=True)
        if made or self.forces_always:
            self.force(self.folder)
        part = parts / f"part-{marker[0]}-{marker[1]}"
        part.write_text(json.dumps(rows))
        self.force(part)
        self.force(parts)


class PartsInFolder(ForcedParts):
    """Right."""

    make = InFolder

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for part in sorted(scratch.path.glob("parts/part-*")):
            yield from json.loads(part.read_text() or "[]")


class ForcedByItsMaker(InFolder):
    forces_always = False


class PartsInFolderOfAnother(PartsInFolder):
    """Wrong: the attempt that made the folder may have died before it was forced to disk."""

    make = ForcedByItsMaker


class SkippedIfThere(Forced):
    """A part that is there is not published again."""

    forces_again = False

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        if not (self.folder / f"part-{marker[0]}-{marker[1]}").exists():
            super().publish(marker, rows)
        elif self.forces_again:
            self.force(self.folder)


class SkippedParts(ForcedParts):
    """Wrong: the name of the part may not have been forced to disk before its attempt died."""

    make = SkippedIfThere


class ForcedIfThere(SkippedIfThere):
    forces_again = True


class PartsForcedAgain(ForcedParts):
    """Right."""

    make = ForcedIfThere
