"""SQLite remembers which parts of the last twenty checkpoints are there. Wrong: LooksBefore; its zombie has looked
at the fence, goes on when the mark of its part is gone, and puts it there again. Right: LooksWithin, in a transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Claim, Context, Fenced, Scratch

REMEMBERED = 20


class MarkedParts(PartsOfCheckpoints):
    def __init__(self, file: Path, *, looks_before: bool) -> None:
        super().__init__()
        self.looks_before = looks_before
        self.database = sqlite3.connect(file, timeout=20, isolation_level=None)
        for table in ("output (split, offset)", "marks (part PRIMARY KEY, checkpoint_id)", "fence (generation)"):
            self.database.execute(f"CREATE TABLE IF NOT EXISTS {table}")

    def open(self, context: Context) -> None:
        self.database.execute("INSERT INTO fence VALUES (?)", [context.generation])
        super().open(context)

    def publish(self, name: str, rows: list[Any]) -> None:
        checkpoint = int(name.rpartition("-")[2])
        if self.looks_before:
            self.look()
        with closing(self.database.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                if not self.looks_before:
                    self.look()
                cursor.execute("INSERT OR IGNORE INTO marks VALUES (?, ?)", [name, checkpoint])
                if cursor.rowcount:
                    cursor.executemany("INSERT INTO output VALUES (?, ?)", rows)
                cursor.execute("DELETE FROM marks WHERE checkpoint_id < ?", [checkpoint - REMEMBERED])
                cursor.execute("COMMIT")
            finally:
                if self.database.in_transaction:
                    cursor.execute("ROLLBACK")

    def look(self) -> None:
        (newest,) = self.database.execute("SELECT max(generation) FROM fence").fetchone()
        if newest > self.context.generation:
            raise Fenced("a later generation is there")


class LooksWithin:
    claims = Claim.EXACTLY_ONCE
    looks_before = False

    def sink(self, scratch: Scratch) -> MarkedParts:
        return MarkedParts(scratch.path / "parts.db", looks_before=self.looks_before)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        if (file := scratch.path / "parts.db").exists():
            with closing(sqlite3.connect(file, timeout=20)) as database:
                yield from database.execute("SELECT * FROM output").fetchall()


class LooksBefore(LooksWithin):
    looks_before = True
