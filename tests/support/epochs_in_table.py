"""Sinks with rows, progress and an epoch for each subtask in one database: a commit of an old epoch is refused. A file
of the database is mapped. Wrong: ReadsFirst: an attempt reads the progress, and then takes the next epoch. Right:
FencesFirst.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sinkproof import Claim, Scratch

TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE results (split INT, number INT, name TEXT, payload TEXT);
CREATE TABLE progress (subtask INT, checkpoint INT);
CREATE TABLE epochs (subtask INT PRIMARY KEY, epoch INT);
"""


class Table:
    def __init__(self, file: Path, fences_first: bool) -> None:
        self.file, self.fences_first = file, fences_first
        self.rows: list[Any] = []
        self.pending: dict[int, list[Any]] = {}
        self.epochs: dict[int, int] = {}

    def open(self, context: Any) -> None:
        self.subtask = context.subtask
        self.database = sqlite3.connect(self.file, timeout=20, isolation_level=None)
        if self.fences_first:
            self.fence(context)
            done = self.published()
        else:
            done = self.published()
            self.fence(context)
        for subtask, state in context.restored:
            for checkpoint_id, rows in json.loads(state):
                if (subtask, checkpoint_id) not in done:
                    self.publish(subtask, checkpoint_id, rows)

    def published(self) -> set[tuple[int, int]]:
        return set(self.database.execute("SELECT subtask, checkpoint FROM progress"))

    def fence(self, context: Any) -> None:
        count, own = context.parallelism, context.subtask
        for subtask in {own, *(each for each in context.subtasks_restored if each % count == own)}:
            taken = "INSERT INTO epochs VALUES (?, 1) ON CONFLICT DO UPDATE SET epoch = epoch + 1 RETURNING epoch"
            ((self.epochs[subtask],),) = self.database.execute(taken, (subtask,)).fetchall()

    def write(self, batch: Any) -> None:
        self.rows += [(row.split, row.offset, row.key, row.value) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for each in sorted(number for number in self.pending if number <= checkpoint_id):
            self.publish(self.subtask, each, self.pending.pop(each))

    def publish(self, subtask: int, checkpoint_id: int, rows: list[Any]) -> None:
        self.database.execute("BEGIN IMMEDIATE")
        epoch = self.database.execute("SELECT epoch FROM epochs WHERE subtask = ?", (subtask,)).fetchone()
        if epoch != (self.epochs[subtask],):
            self.database.execute("ROLLBACK")
            raise RuntimeError(f"another attempt has subtask {subtask}")
        self.database.executemany("INSERT INTO results VALUES (?, ?, ?, ?)", rows)
        self.database.execute("INSERT INTO progress VALUES (?, ?)", (subtask, checkpoint_id))
        self.database.execute("COMMIT")

    def close(self) -> None:
        self.database.close()


class ReadsFirst:
    claims = Claim.EXACTLY_ONCE
    fences_first = False

    def setup(self, scratch: Scratch) -> None:
        database = sqlite3.connect(scratch.path / "results.db")
        database.executescript(TABLES)
        database.close()

    def sink(self, scratch: Scratch) -> Any:
        return Table(scratch.path / "results.db", self.fences_first)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        database = sqlite3.connect(scratch.path / "results.db")
        yield from database.execute("SELECT * FROM results").fetchall()
        database.close()


class FencesFirst(ReadsFirst):
    fences_first = True
