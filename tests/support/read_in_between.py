"""Sinks of which it matters what a reader sees between two steps, and contracts with a hook that fails. Marked is
right; OneByOne is torn between two files; Early publishes what is not complete yet, and locks readers out.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sinkproof import Claim, Scratch


class Published:
    """Each subtask publishes its own file of each checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, context: Any) -> None:
        self.subtask, self.rows = context.subtask, []
        self.staged, self.out = self.folder / "staged", self.folder / "out"
        for folder in (self.staged, self.out):
            folder.mkdir(exist_ok=True)
        self.publish(context.checkpoint_id_restored or 0)

    def write(self, batch: Any) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        file = self.staged / f"{self.subtask}.new"
        file.write_text(json.dumps(self.rows))
        file.rename(self.staged / f"{checkpoint_id}-{self.subtask}.json")
        self.rows = []
        return b"staged"

    def notify_complete(self, checkpoint_id: int) -> None:
        self.publish(checkpoint_id)

    def publish(self, checkpoint_id: int) -> None:
        for file in sorted(self.staged.glob(f"*-{self.mine()}.json")):
            if int(file.name.split("-")[0]) <= checkpoint_id:
                file.rename(self.out / file.name)

    def mine(self) -> str:
        return str(self.subtask)


class PublishedByAny(Published):
    def mine(self) -> str:
        return "*"


class PublishedEarly(Published):
    """Its files are not readable while it lives."""

    def open(self, context: Any) -> None:
        self.lock = (self.folder / "lock").open("a")
        fcntl.flock(self.lock, fcntl.LOCK_SH)
        super().open(context)

    def snapshot(self, checkpoint_id: int) -> bytes:
        state = super().snapshot(checkpoint_id)
        self.publish(checkpoint_id)
        return state


class Marked:
    claims: Any = Claim.HONEST_MARKERS
    rescales = False
    make: Any = Published

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        for file in sorted((scratch.path / "out").iterdir()):
            yield from json.loads(file.read_text())

    def complete(self, scratch: Scratch) -> list[Any]:
        """Those of which both subtasks have published their files."""
        published = [file.name.split("-")[0] for file in (scratch.path / "out").iterdir()]
        return [int(each) for each in {*published} if published.count(each) == 2]


class MarkedByTexts(Marked):
    def complete(self, scratch: Scratch) -> list[Any]:
        return [str(each) for each in super().complete(scratch)]


class MarkerUnreadable(Marked):
    def complete(self, scratch: Scratch) -> list[Any]:
        raise PermissionError("the marker cannot be read")


class VersionStays(Marked):
    claims = Claim.EXACTLY_ONCE

    def version(self, scratch: Scratch) -> int:
        return 1


class OneByOne(Marked):
    claims = Claim.ATOMIC_CHECKPOINT
    make = PublishedByAny


class Early(Marked):
    claims = Claim.EXACTLY_ONCE
    make = PublishedEarly

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        with (scratch.path / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield from super().committed(scratch)
