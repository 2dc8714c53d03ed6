"""Sinks that name by their subtask what they stage. In two digits: of three, one prefix begins with another. Packed
with the id of the checkpoint: beyond the room that it has, it is that of another subtask and of the next checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from sinkproof import Batch, Claim, Context, Scratch


class StagedByPrefix:
    """What no checkpoint has promised is removed by its prefix at `open`."""

    end_of_subtask = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[Any] = []
        self.pending: dict[int, str] = {}  # checkpoint -> name

    def open(self, context: Context) -> None:
        self.subtask = f"{context.subtask:02d}{self.end_of_subtask}"
        for _, state in context.restored:
            for name in json.loads(state):
                self.publish(name)
        for left in self.folder.glob(f"{self.subtask}*.staged"):
            left.unlink()

    def write(self, batch: Batch) -> None:
        self.rows += [[row.split, row.offset] for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        name = self.pending[checkpoint_id] = f"{self.subtask}{checkpoint_id}"
        (self.folder / f"{name}.staged").write_text(json.dumps(self.rows))
        self.rows = []
        return json.dumps([*self.pending.values()]).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [older for older in self.pending if older <= checkpoint_id]:
            self.publish(self.pending.pop(older))

    def publish(self, name: str) -> None:
        if not (self.folder / f"{name}.json").exists():
            (self.folder / f"{name}.staged").rename(self.folder / f"{name}.json")


class StagedByName(StagedByPrefix):
    end_of_subtask = "-"


class Packed:
    """Rows are staged in the state. `room`: how many subtasks have numbers of their own."""

    room = 100

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[Any] = []
        self.pending: dict[int, list[Any]] = {}  # number -> rows

    def open(self, context: Context) -> None:
        self.subtask, self.generation = context.subtask, context.generation
        for _, state in context.restored:
            for number, rows in json.loads(state):
                self.publish(number, rows)

    def write(self, batch: Batch) -> None:
        self.rows += [[row.split, row.offset] for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id * self.room + self.subtask] = self.rows
        self.rows = []
        return json.dumps([*self.pending.items()]).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for number in [number for number in self.pending if number // self.room <= checkpoint_id]:
            self.publish(number, self.pending.pop(number))

    def publish(self, number: int, rows: Sequence[Any]) -> None:
        published = self.folder / f"{number}.json"
        if not published.exists():
            partial = self.folder / f"{number}-{self.subtask}-{self.generation}.partial"
            partial.write_text(json.dumps(rows))
            partial.rename(published)


class PackedByBits(Packed):
    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[(checkpoint_id << 6) + self.subtask] = self.rows
        self.rows = []
        return json.dumps([*self.pending.items()]).encode()

    room = 64


class PackedWithRoom(Packed):
    room = 1000


class Prefixes:
    claims = Claim.EXACTLY_ONCE
    made: ClassVar[type[Packed | StagedByPrefix]] = StagedByPrefix

    def sink(self, scratch: Scratch) -> Packed | StagedByPrefix:
        return self.made(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Sequence[Any]]:
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())


class Names(Prefixes):
    made = StagedByName


class Hundreds(Prefixes):
    made = Packed


class Bits(Prefixes):
    made = PackedByBits


class Thousands(Prefixes):
    made = PackedWithRoom
