"""Sinks that name by their subtask what they stage, in two digits: of three, one prefix begins with another."""

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


class Prefixes:
    claims = Claim.EXACTLY_ONCE
    made: ClassVar[type[StagedByPrefix]] = StagedByPrefix

    def sink(self, scratch: Scratch) -> StagedByPrefix:
        return self.made(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Sequence[Any]]:
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())


class Names(Prefixes):
    made = StagedByName
