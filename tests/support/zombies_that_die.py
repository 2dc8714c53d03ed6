"""What a zombie leaves that dies, and a fence that knows two attempts. Right: HiddenName, Numbered."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sinkproof import Claim, Context, Fenced, Scratch


class ByRename:
    """`new`: the ending of names that are replaced by a rename."""

    def __init__(self, folder: Path, new: str) -> None:
        self.folder, self.new = folder, new

    def is_committed(self, part: str) -> bool:
        return (self.folder / f"{part}.json").exists()

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        temporary = self.folder / f"new-{part}{self.new}"
        temporary.write_text(json.dumps([[row.split, row.offset] for row in rows]))
        os.replace(temporary, self.folder / f"{part}.json")

    def record(self, part: str) -> None:
        """The file is the note."""


class Slots:
    """Only the attempt in the active slot may publish; there are `slots` of them."""

    def __init__(self, folder: Path, slots: int) -> None:
        self.database, self.slots = sqlite3.connect(folder / "rows.db", isolation_level=None), slots
        self.database.execute("CREATE TABLE IF NOT EXISTS rows (split INT, position INT)")
        self.database.execute("CREATE TABLE IF NOT EXISTS parts (part TEXT)")
        self.database.execute("CREATE TABLE IF NOT EXISTS active (one INT PRIMARY KEY, slot INT)")

    def attach(self, context: Context) -> None:
        self.slot = context.generation % self.slots
        self.database.execute("INSERT OR REPLACE INTO active VALUES (1, ?)", [self.slot])

    def is_committed(self, part: str) -> bool:
        return self.database.execute("SELECT 1 FROM parts WHERE part = ?", [part]).fetchone() is not None

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        self.database.execute("BEGIN IMMEDIATE")
        with self.database:
            if self.database.execute("SELECT slot FROM active").fetchone() != (self.slot,):
                raise Fenced("another slot is active")
            self.database.executemany("INSERT INTO rows VALUES (?, ?)", [[row.split, row.offset] for row in rows])
            self.database.execute("INSERT INTO parts VALUES (?)", [part])

    def record(self, part: str) -> None:
        """In the transaction."""


class ReadName:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    new = ".json"

    def sink(self, scratch: Scratch) -> ByRename:
        return ByRename(scratch.path, self.new)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in scratch.path.glob("*.json"):
            yield from json.loads(file.read_text())


class HiddenName(ReadName):
    new = ".new"


class TwoSlots:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    slots = 2

    def sink(self, scratch: Scratch) -> Slots:
        return Slots(scratch.path, self.slots)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        if (scratch.path / "rows.db").exists():
            yield from sqlite3.connect(scratch.path / "rows.db").execute("SELECT split, position FROM rows")


class Numbered(TwoSlots):
    slots = 1 << 40
