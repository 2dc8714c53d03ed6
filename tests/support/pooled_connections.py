"""Sinks with a pool of connections in their module. Wrong: ReturnedAsTheyAre, as the next attempt in the process
commits what the one before it had begun. Right: RolledBack.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Claim, Scratch

IDLE: dict[str, list[sqlite3.Connection]] = {}
LOCKED_SECONDS = 0.1  # by the transaction that another subtask has left open
TABLES = "CREATE TABLE IF NOT EXISTS target (split, number); CREATE TABLE IF NOT EXISTS parts (name PRIMARY KEY)"


@contextmanager
def connection(database: str, *, rolls_back: bool) -> Iterator[sqlite3.Connection]:
    idle = IDLE.setdefault(database, [])
    taken = idle.pop() if idle else sqlite3.connect(database, timeout=LOCKED_SECONDS)
    try:
        yield taken
    finally:
        if rolls_back:
            taken.rollback()
        idle.append(taken)


class Pooled(PartsOfCheckpoints):
    """Rows and the name of their part are one transaction. The client refuses a value, as a driver does."""

    def __init__(self, database: Path, *, rolls_back: bool) -> None:
        super().__init__()
        self.database, self.rolls_back = str(database), rolls_back

    def write(self, batch: Any) -> None:
        self.rows += [[row.split, row.offset, "\0" in row.value] for row in batch]

    def publish(self, name: str, rows: list[Any]) -> None:
        with connection(self.database, rolls_back=self.rolls_back) as target:
            target.executescript(TABLES)
            target.commit()
            if target.execute("SELECT 1 FROM parts WHERE name = ?", [name]).fetchone():
                return
            for split, number, is_refused in rows:
                if is_refused:
                    raise ValueError("no NUL, please")
                target.execute("INSERT INTO target VALUES (?, ?)", [split, number])
            target.execute("INSERT INTO parts VALUES (?)", [name])
            target.commit()


class ReturnedAsTheyAre:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False
    rolls_back = False

    def sink(self, scratch: Scratch) -> Pooled:
        return Pooled(scratch.path / "target.db", rolls_back=self.rolls_back)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        with sqlite3.connect(scratch.path / "target.db") as target:
            yield from target.execute("SELECT split, number FROM target")


class RolledBack(ReturnedAsTheyAre):
    rolls_back = True
