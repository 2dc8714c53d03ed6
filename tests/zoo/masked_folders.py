"""Targets of three methods, around which the masked strategy is put. Right: Masked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sinkproof import Batch, Claim, Context, Scratch


def markers(folder: Path) -> dict[int, int]:
    """Generation -> the checkpoint up to which its segments are visible."""
    found: dict[int, int] = {}
    for file in folder.glob("marker-*"):
        generation, checkpoint_id = map(int, file.read_text().split())
        found[generation] = max(found.get(generation, 0), checkpoint_id)
    return found


class Segments:
    """A file for each segment; a marker is a file of its own, and stays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def attach(self, context: Context) -> None:
        self.temporary = self.folder / f"temporary-{context.subtask}-{context.generation}"

    def stage(self, segment: Any, batch: Batch) -> None:
        with (self.folder / f"segment-{segment}").open("a") as file:
            file.write("".join(f"{row.split} {row.offset}\n" for row in batch))

    def reveal(self, generation: int, checkpoint_id: int) -> None:
        self.mark(f"marker-{generation}-{checkpoint_id}", generation, checkpoint_id)

    def mark(self, name: str, generation: int, checkpoint_id: int) -> None:
        self.temporary.write_text(f"{generation} {checkpoint_id}")
        os.replace(self.temporary, self.folder / name)

    def collect(self, owner: Any, before_generation: int) -> None:
        shown = markers(self.folder)
        for file in self.folder.glob("segment-*"):
            subtask, generation, sequence = map(int, file.name.rsplit("-", 3)[1:])
            if generation < before_generation and sequence > shown.get(generation, 0) and self.may(owner, subtask):
                file.unlink(missing_ok=True)

    def may(self, owner: Any, subtask: int) -> bool:
        return bool(owner.owns(subtask))


class Masked:
    """Right."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = Segments

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        shown = markers(scratch.path)
        for file in sorted(scratch.path.glob("segment-*")):
            _, generation, sequence = map(int, file.name.rsplit("-", 3)[1:])
            if sequence <= shown.get(generation, 0):
                for line in file.read_text().splitlines():
                    yield json.loads(f"[{line.replace(' ', ',')}]")


class OneMarker(Segments):
    def reveal(self, generation: int, checkpoint_id: int) -> None:
        self.mark(f"marker-{generation}", generation, checkpoint_id)


class MarkerGoesBack(Masked):
    """Wrong: a zombie with the notification of an older checkpoint puts its marker over a newer one."""

    make = OneMarker


class CollectsAll(Segments):
    def may(self, owner: Any, subtask: int) -> bool:
        return True


class CollectsWhatOthersPromised(Masked):
    """Wrong: the first subtask, with nothing to reveal, removes rows that the others are about to reveal."""

    make = CollectsAll
