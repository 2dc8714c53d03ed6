"""Right: a sink that removes a file of its own when a day has passed; no other job leads to this step."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Claim, Context
from sinkproof.subject.scratch import Scratch

DAY_SECONDS = 24 * 3600.0


class PartsAndNote(PartsOfCheckpoints):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def open(self, context: Context) -> None:
        super().open(context)
        note = self.folder / f"{context.subtask}.note"
        if note.exists() and context.clock() - float(note.read_text()) > DAY_SECONDS:
            os.unlink(note)
        elif not note.exists():
            self.write_file(note, str(context.clock()))

    def publish(self, name: str, rows: list[Any]) -> None:
        self.write_file(self.folder / f"{name}.json", json.dumps(rows))

    def write_file(self, file: Path, text: str) -> None:
        staged = file.with_suffix(f".new-{self.context.subtask}-{self.context.generation}")
        staged.write_text(text)
        os.rename(staged, file)


class Tidied:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False

    def sink(self, scratch: Scratch) -> PartsAndNote:
        return PartsAndNote(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())
