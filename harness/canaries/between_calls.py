"""Sinks that are right at each of their lines: one is wrong between two system calls of a single line, in the C code of
SQLite, and one without power. Their controls differ in one word. No hook of the contract helps: only a watch of the
system calls convicts them, so they are tried where the kernel offers it. Each is laid out as in code_of_users.py.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sinkproof.sink_adapters.protocol import Batch, Context
from sinkproof.subject.claims import Claim
from sinkproof.subject.scratch import Scratch

BESIDE_THE_USER = "project"
TABLES = """
CREATE TABLE IF NOT EXISTS output (split INTEGER, offset INTEGER, filling TEXT);
CREATE TABLE IF NOT EXISTS done (name TEXT PRIMARY KEY);
"""
FILLING = "x" * 700  # so that a commit changes several pages
Rows = Sequence[tuple[int, int]]


class PublishedOnCompletion:
    """Rows wait in the state; those of a complete checkpoint are published under a name that no other one has."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []
        self.pending: dict[int, Rows] = {}

    def open(self, context: Context) -> None:
        self.subtask = context.subtask
        for subtask, state in context.restored:
            for checkpoint_id, rows in json.loads(state):
                self.publish(f"{subtask}-{checkpoint_id}", rows)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(f"{self.subtask}-{older}", self.pending.pop(older))

    def publish(self, name: str, rows: Rows) -> None:
        raise NotImplementedError


class InOneTransaction(PublishedOnCompletion):
    """The rows and the name, by one COMMIT, if the name is not there yet."""

    def __init__(self, file: Path, journal: str) -> None:
        super().__init__()
        self.connection = sqlite3.connect(file, isolation_level=None)
        self.connection.execute(f"PRAGMA journal_mode = {journal}")
        self.connection.execute("PRAGMA synchronous = OFF")  # a SIGKILL takes nothing that was written

    def publish(self, name: str, rows: Rows) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        if not self.connection.execute("SELECT 1 FROM done WHERE name = ?", (name,)).fetchone():
            self.connection.execute("INSERT INTO done VALUES (?)", (name,))
            self.connection.executemany("INSERT INTO output VALUES (?, ?, ?)", [(*row, FILLING) for row in rows])
        self.connection.execute("COMMIT")


class JournalControl:
    """Correct: what a commit has begun is rolled back by the next process."""

    laid_out_in = BESIDE_THE_USER
    claims: Any = Claim.EXACTLY_ONCE
    journal = "DELETE"

    def setup(self, scratch: Scratch) -> None:
        with closing(sqlite3.connect(scratch.path / "store.db")) as connection:
            connection.executescript(TABLES)

    def sink(self, scratch: Scratch) -> Any:
        return InOneTransaction(scratch.path / "store.db", self.journal)

    def committed(self, scratch: Scratch) -> Any:
        with closing(sqlite3.connect(scratch.path / "store.db")) as connection:
            return connection.execute("SELECT split, offset FROM output ORDER BY rowid").fetchall()


class NoJournal(JournalControl):
    """R1: a commit writes pages one after the other, in one line of Python, and nothing can roll them back."""

    journal = "OFF"


class ByOneRename(PublishedOnCompletion):
    def __init__(self, folder: Path, *, forces_bytes: bool) -> None:
        super().__init__()
        self.folder, self.forces_bytes = folder, forces_bytes

    def publish(self, name: str, rows: Rows) -> None:
        with (self.folder / f"staged-{name}").open("w") as file:
            json.dump(rows, file)
            file.flush()
            if self.forces_bytes:
                os.fsync(file.fileno())
        Path(file.name).rename(self.folder / f"rows-{name}")
        folder = os.open(self.folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


class ForcedControl:
    """Correct, also without power: the bytes are forced before the name is."""

    laid_out_in = BESIDE_THE_USER
    claims: Any = Claim.EXACTLY_ONCE | Claim.SURVIVES_POWER_LOSS
    forces_bytes = True

    def sink(self, scratch: Scratch) -> Any:
        return ByOneRename(scratch.path, forces_bytes=self.forces_bytes)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted(scratch.path.glob("rows-*")):
            yield from map(tuple, json.loads(file.read_text() or "[]"))


class NamesForcedOnly(ForcedControl):
    """R16: the name of a file is forced to the disk, and the bytes in it are not."""

    forces_bytes = False
