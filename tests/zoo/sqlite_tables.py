"""Sinks over sqlite3, as strangers write them. Right: RowsAndMarker, OpenConnection, UpsertByIdentity."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sinkproof import Batch, Claim, Context, Fenced, Scratch

Rows = list[tuple[int, int]]
TABLES = """
CREATE TABLE IF NOT EXISTS output (split INTEGER, offset INTEGER);
CREATE TABLE IF NOT EXISTS done (subtask INTEGER, checkpoint INTEGER, PRIMARY KEY (subtask, checkpoint));
"""


RAISE_FENCE = """
INSERT INTO fence VALUES (?, ?) ON CONFLICT (subtask) DO UPDATE SET generation = max(generation, excluded.generation)
"""


class RowsInState:
    """Rows wait in the state. Each checkpoint's rows and its marker are inserted in one transaction."""

    def __init__(self, file: Path) -> None:
        self.file, self.rows = file, Rows()
        self.pending: list[tuple[int, Rows]] = []

    def open(self, context: Context) -> None:
        self.subtask = context.subtask
        for old, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.insert((old, checkpoint), rows)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending.append((checkpoint_id, self.rows))
        self.rows = []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        while self.pending and self.pending[0][0] <= checkpoint_id:
            checkpoint, rows = self.pending[0]
            self.insert((self.subtask, checkpoint), rows)
            del self.pending[0]

    def insert(self, marker: tuple[int, int], rows: Rows) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            if not is_done(connection, marker):
                connection.execute("INSERT INTO done VALUES (?, ?)", marker)
                connection.executemany("INSERT INTO output VALUES (?, ?)", rows)


def is_done(connection: sqlite3.Connection, marker: tuple[int, int]) -> bool:
    found = connection.execute("SELECT 1 FROM done WHERE subtask = ? AND checkpoint = ?", marker)
    return found.fetchone() is not None


class OneTable:
    """The contract of them all: what is in the table `output`."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = RowsInState

    def setup(self, scratch: Scratch) -> None:
        with closing(sqlite3.connect(scratch.path / "store.db")) as connection:
            connection.executescript(TABLES)

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path / "store.db")

    def committed(self, scratch: Scratch) -> Any:
        with closing(sqlite3.connect(scratch.path / "store.db")) as connection:
            return connection.execute("SELECT split, offset FROM output ORDER BY rowid").fetchall()


class RowsAndMarker(OneTable):
    """Right."""


class ChecksItsFence(RowsInState):
    """`open` raises the fence. Only recoveries check for a marker: the fence stops all older attempts."""

    recovers = False

    def open(self, context: Context) -> None:
        self.generation, self.recovers = context.generation, True
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS fence (subtask INTEGER PRIMARY KEY, generation INTEGER)")
            for subtask in self.succeeded(context):
                connection.execute(RAISE_FENCE, (subtask, self.generation))
        super().open(context)
        self.recovers = False

    def succeeded(self, context: Context) -> set[int]:
        return {context.subtask, *(old for old, _ in context.restored)}

    def insert(self, marker: tuple[int, int], rows: Rows) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute("SELECT generation FROM fence WHERE subtask = ?", (self.subtask,)).fetchone()
            if found[0] > self.generation:
                raise Fenced(f"generation {found[0]} has taken over")
            if not (self.recovers and is_done(connection, marker)):
                connection.execute("INSERT OR IGNORE INTO done VALUES (?, ?)", marker)
                connection.executemany("INSERT INTO output VALUES (?, ?)", rows)


class FencesItsPredecessors(OneTable):
    """Right."""

    make = ChecksItsFence


class FencesItself(ChecksItsFence):
    def succeeded(self, context: Context) -> set[int]:
        return {context.subtask}


class FencesItsOwnNumberOnly(OneTable):
    """Wrong: with fewer subtasks than before, the fence of the removed ones is not raised."""

    make = FencesItself


class KeepsItsConnection(RowsInState):
    """One connection for the whole life of the attempt, never closed; a write-ahead log beside the file."""

    def open(self, context: Context) -> None:
        self.connection = sqlite3.connect(self.file, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.executescript(TABLES)
        super().open(context)

    def insert(self, marker: tuple[int, int], rows: Rows) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        if not is_done(self.connection, marker):
            self.connection.executemany("INSERT INTO output VALUES (?, ?)", rows)
            self.connection.execute("INSERT INTO done VALUES (?, ?)", marker)
        self.connection.execute("COMMIT")


class OpenConnection(OneTable):
    """Right. It makes its tables itself, so that `committed` fails as long as there is nothing; it is a generator."""

    make = KeepsItsConnection
    setup = None  # type: ignore[assignment]

    def committed(self, scratch: Scratch) -> Iterator[sqlite3.Row]:
        connection = sqlite3.connect(f"file:{scratch.path}/store.db?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        yield from connection.execute("SELECT split, offset FROM output")
        connection.close()


class Upserts:
    """Rows go straight into the table under a key of their own."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def open(self, context: Context) -> None:
        self.subtask, self.count = context.subtask, 0

    def write(self, batch: Batch) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            for row in batch:
                self.count += 1
                connection.execute("INSERT OR REPLACE INTO keyed VALUES (?, ?, ?)", (self.key(row), *row[:2]))

    def key(self, row: Any) -> str:
        return f"{row.split}/{row.offset}"

    def snapshot(self, checkpoint_id: int) -> bytes:
        return b""

    def notify_complete(self, checkpoint_id: int) -> None:
        pass


class UpsertByIdentity(OneTable):
    """Right: repeated rows fall on themselves; readers see them early."""

    claims = "EFFECTIVELY_ONCE"
    make = Upserts

    def setup(self, scratch: Scratch) -> None:
        with closing(sqlite3.connect(scratch.path / "store.db")) as connection:
            connection.execute("CREATE TABLE keyed (key TEXT PRIMARY KEY, split INTEGER, offset INTEGER)")
            connection.execute("CREATE VIEW output AS SELECT rowid, split, offset FROM keyed")


class CountsForKeys(Upserts):
    def key(self, row: Any) -> str:
        return f"{self.subtask}/{self.count}"


class UpsertByCounter(UpsertByIdentity):
    """Wrong: the key is a counter of the process, which begins anew after a crash and overwrites older rows."""

    claims = Claim.EFFECTIVELY_ONCE
    make = CountsForKeys


class MarksAfterwards(RowsInState):
    def insert(self, marker: tuple[int, int], rows: Rows) -> None:
        with closing(sqlite3.connect(self.file)) as connection:
            if is_done(connection, marker):
                return
            with connection:
                connection.executemany("INSERT INTO output VALUES (?, ?)", rows)
            with connection:
                connection.execute("INSERT INTO done VALUES (?, ?)", marker)


class MarkerInSecondTransaction(OneTable):
    """Wrong: a crash between the two transactions inserts the rows again."""

    make = MarksAfterwards


class Journals(RowsInState):
    def write(self, batch: Batch) -> None:
        with closing(sqlite3.connect(self.file, isolation_level=None)) as connection:
            connection.executemany("INSERT INTO output VALUES (?, ?)", [row[:2] for row in batch])


class AutocommitInWrite(OneTable):
    """Wrong: every row is committed when it is written, and again when it is replayed."""

    make = Journals


class SkipsWhatIsOlder(RowsInState):
    def insert(self, marker: tuple[int, int], rows: Rows) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            last = dict(connection.execute("SELECT split, max(offset) FROM output GROUP BY split").fetchall())
            new = [row for row in rows if row[1] > last.get(row[0], -1)]
            connection.executemany("INSERT INTO output VALUES (?, ?)", new)


class SkipsByLastOffset(OneTable):
    """Wrong: the last offset of a split says nothing about rows that another subtask has still to insert."""

    make = SkipsWhatIsOlder


class HoldsALock(RowsInState):
    """One transaction from the first row to the notification: the other subtask cannot write meanwhile."""

    def open(self, context: Context) -> None:
        self.connection = sqlite3.connect(self.file, timeout=0.01, isolation_level=None)

    def write(self, batch: Batch) -> None:
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany("INSERT INTO output VALUES (?, ?)", [row[:2] for row in batch])

    def notify_complete(self, checkpoint_id: int) -> None:
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")


class LockedOut(OneTable):
    """Works for a single subtask only: nothing can be said about it."""

    make = HoldsALock


class Stages:
    """A database for each subtask. Rows are inserted as they come, in a transaction that a snapshot commits.

    They carry their checkpoint and their generation. Readers see those up to the last complete checkpoint; a new
    attempt adopts what the restored checkpoint covers and deletes the rest, so that rows of a zombie stay invisible.
    """

    def __init__(self, file: Path) -> None:
        self.folder = file.parent

    def open(self, context: Context) -> None:
        self.generation = context.generation
        for old in {context.subtask, *(old for old, _ in context.restored)}:
            self.connection = self.connect(old)
            self.connection.execute("DELETE FROM staged WHERE checkpoint IS NULL")
            covered = context.checkpoint_id_covered
            self.connection.execute("DELETE FROM staged WHERE checkpoint > ?", (covered,))
            self.connection.execute("UPDATE staged SET generation = ?", (self.generation,))
            self.connection.execute("UPDATE seen SET upto = ?, generation = ?", (covered, self.generation))
            self.connection.commit()
        self.connection = self.connect(context.subtask)

    def connect(self, subtask: int) -> sqlite3.Connection:
        connection = sqlite3.connect(self.folder / f"subtask-{subtask}.db", timeout=0.02)
        connection.execute("CREATE TABLE IF NOT EXISTS staged (generation, checkpoint, split, offset)")
        connection.execute("CREATE TABLE IF NOT EXISTS seen (one INTEGER PRIMARY KEY, upto, generation)")
        connection.execute("INSERT OR IGNORE INTO seen VALUES (1, 0, 0)")
        return connection

    def write(self, batch: Batch) -> None:
        rows = [(self.generation, row.split, row.offset) for row in batch]
        self.connection.executemany("INSERT INTO staged VALUES (?, NULL, ?, ?)", rows)

    def snapshot(self, checkpoint_id: int) -> bytes:
        mine = (checkpoint_id, self.generation)
        self.connection.execute("UPDATE staged SET checkpoint = ? WHERE checkpoint IS NULL AND generation = ?", mine)
        self.connection.commit()
        return b"it is all in the database"

    def notify_complete(self, checkpoint_id: int) -> None:
        mine = (checkpoint_id, self.generation)
        self.connection.execute("UPDATE seen SET upto = max(upto, ?) WHERE generation = ?", mine)
        self.connection.commit()


class OpenTransaction(OneTable):
    """Right. Transactions stay open between calls, and connections are never closed."""

    make = Stages
    setup = None  # type: ignore[assignment]

    def committed(self, scratch: Scratch) -> list[tuple[int, int]]:
        query = "SELECT split, offset FROM staged JOIN seen USING (generation) WHERE checkpoint <= upto"
        rows: list[tuple[int, int]] = []
        for file in scratch.path.glob("*.db"):
            with closing(sqlite3.connect(file)) as connection:
                rows += connection.execute(query).fetchall()
        return rows
