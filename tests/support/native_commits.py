"""Sinks that commit by native code: by SQLite, in several modes, and by a file that is copied in one call.

Rows wait in the state. Each checkpoint's rows and its marker are inserted in one transaction, in one line of Python.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from sinkproof import Batch, Claim, Context, Scratch
from sinkproof.sink_adapters.files.file_contracts import FilesContract

Rows = list[tuple[int, int]]
TABLES = """
CREATE TABLE IF NOT EXISTS output (split INTEGER, offset INTEGER, filling TEXT);
CREATE TABLE IF NOT EXISTS done (subtask INTEGER, checkpoint INTEGER, PRIMARY KEY (subtask, checkpoint));
"""
FILLING = "x" * 700  # so that a commit changes several pages


class RowsInState:
    """Publishes each checkpoint, once it is complete, by `publish`."""

    def __init__(self) -> None:
        self.rows, self.pending = Rows(), list[tuple[int, Rows]]()

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        raise NotImplementedError

    def open(self, context: Context) -> None:
        self.subtask = context.subtask
        for old, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish((old, checkpoint), rows)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending.append((checkpoint_id, self.rows))
        self.rows = []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        while self.pending and self.pending[0][0] <= checkpoint_id:
            checkpoint, rows = self.pending[0]
            self.publish((self.subtask, checkpoint), rows)
            del self.pending[0]


class InSqlite(RowsInState):
    def __init__(self, file: Path, journal: str, synchronous: str) -> None:
        super().__init__()
        self.connection = sqlite3.connect(file, isolation_level=None)
        self.connection.execute(f"PRAGMA journal_mode = {journal}")
        self.connection.execute(f"PRAGMA synchronous = {synchronous}")

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        if self.connection.execute("SELECT 1 FROM done WHERE subtask = ? AND checkpoint = ?", marker).fetchone():
            self.connection.execute("ROLLBACK")
            return
        self.connection.execute("INSERT INTO done VALUES (?, ?)", marker)
        self.connection.executemany("INSERT INTO output VALUES (?, ?, ?)", [(*row, FILLING) for row in rows])
        self.connection.execute("COMMIT")


class OneDatabase:
    """`journal`, `synchronous`: as in SQLite's pragmas."""

    claims: Any = Claim.EXACTLY_ONCE | Claim.SURVIVES_POWER_LOSS
    journal, synchronous = "DELETE", "EXTRA"

    def setup(self, scratch: Scratch) -> None:
        with closing(sqlite3.connect(scratch.path / "store.db")) as connection:
            connection.executescript(TABLES)

    def sink(self, scratch: Scratch) -> Any:
        return InSqlite(scratch.path / "store.db", self.journal, self.synchronous)

    def committed(self, scratch: Scratch) -> Any:
        with closing(sqlite3.connect(scratch.path / "store.db")) as connection:
            return connection.execute("SELECT split, offset FROM output ORDER BY rowid").fetchall()


class Journalled(OneDatabase):
    """Right, also without power: synchronous = EXTRA forces the removal of the journal, too."""


class JournalRemovalUnforced(OneDatabase):
    """The removal of a journal may be lost with the power, and the next start rolls back then. Where a checkpoint is
    notified before the next one begins, nothing brings its rows back.
    """

    synchronous = "FULL"


class SkipsEmpty(InSqlite):
    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        if rows:
            super().publish(marker, rows)


class RemovalUnforcedBeforeNothing(JournalRemovalUnforced):
    """Wrong without power: a checkpoint without rows makes no transaction, which would force the last one's removal of
    its journal; and that one is not restored any more.
    """

    make: Any = SkipsEmpty

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path / "store.db", self.journal, self.synchronous)


class RemovalForcedBeforeNothing(RemovalUnforcedBeforeNothing):
    """Right."""

    synchronous = "EXTRA"


class TruncatedJournal(OneDatabase):
    """Right, also without power: the truncation of the journal is forced."""

    journal, synchronous = "TRUNCATE", "FULL"


class NeverForced(OneDatabase):
    """Right as long as there is power."""

    synchronous = "OFF"


class WriteAheadLog(OneDatabase):
    """Right, also without power: each commit is forced to the log."""

    journal, synchronous = "WAL", "FULL"


class WriteAheadLogForcedLater(OneDatabase):
    """Right as long as there is power: a commit is forced at the next checkpoint of the log only."""

    journal, synchronous = "WAL", "NORMAL"


class WriteAheadLogNeverForced(OneDatabase):
    journal, synchronous = "WAL", "OFF"


class NoJournal(OneDatabase):
    """Wrong: a death in the middle of a commit leaves some of its pages. No line of Python lies between them."""

    journal = "OFF"


class JournalInMemory(OneDatabase):
    """Wrong in the same way."""

    journal = "MEMORY"


class Copies(RowsInState):
    """Appends a checkpoint to a file of its own, which is then copied to where readers look."""

    def __init__(self, folder: Path, *, at_once: bool) -> None:
        super().__init__()
        self.folder, self.at_once = folder, at_once

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        staged, seen = self.folder / f"staged-{marker[0]}-{marker[1]}", self.folder / f"rows-{marker[0]}-{marker[1]}"
        if seen.exists():
            return
        staged.write_text(json.dumps(rows))
        if self.at_once:
            staged.rename(seen)
        else:
            shutil.copyfile(staged, seen)


class Renamed:
    """Right: the file that readers look for appears by one rename."""

    claims: Any = Claim.EXACTLY_ONCE
    at_once: ClassVar[bool] = True

    def sink(self, scratch: Scratch) -> Any:
        return Copies(scratch.path, at_once=self.at_once)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted(scratch.path.glob("rows-*")):
            yield from json.loads(file.read_text() or "[]")


class Copied(Renamed):
    """Wrong: copyfile creates the file before it fills it, and a file that is there counts as published."""

    at_once = False


class OneCallALine(RowsInState):
    """Each line makes one outward call at most."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        staged, seen = self.folder / f"staged-{marker[0]}-{marker[1]}", self.folder / f"rows-{marker[0]}-{marker[1]}"
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(descriptor, json.dumps(rows).encode())
        self.force(descriptor)
        os.rename(staged, seen)
        self.force_names()

    def force(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def force_names(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


class Forced(Renamed):
    """Right, also without power: bytes are forced before the rename, and the name after it."""

    claims: Any = Claim.EXACTLY_ONCE | Claim.SURVIVES_POWER_LOSS
    make: Any = OneCallALine

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)


class NamesForced(OneCallALine):
    def force(self, descriptor: int) -> None:
        pass


class BytesUnforced(Forced):
    """Wrong without power: the name may be on disk before the bytes."""

    make = NamesForced


class TwoPhaseOnDisk(FilesContract):
    def __init__(self) -> None:
        super().__init__("two-phase", disk="real")


class MaskedOnDisk(FilesContract):
    def __init__(self) -> None:
        super().__init__("masked", disk="real")


class WriteAheadOnDisk(FilesContract):
    def __init__(self) -> None:
        super().__init__("write-ahead", disk="real")


class AppendsToALog(RowsInState):
    """A line of its own log for each part; of parts with one name readers take the first."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def open(self, context: Context) -> None:
        self.log = open(self.folder / f"log-{context.subtask}-{context.generation}", "a")  # noqa: SIM115
        super().open(context)

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        self.log.write(f"{json.dumps([marker, rows])}\n")
        self.log.flush()


class LogsItsErrors(AppendsToALog):
    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        try:
            super().publish(marker, rows)
        except OSError as error:
            print(error)


class RaisesErrors:
    """Right."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = AppendsToALog

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        parts: dict[str, Rows] = {}
        for log in sorted(scratch.path.glob("log-*")):
            for marker, rows in map(json.loads, log.read_text().splitlines()):
                parts.setdefault(str(marker), rows)
        for rows in parts.values():
            yield from rows


class LogsErrors(RaisesErrors):
    """Wrong: what could not be written waits in the buffer of a file, and the state no longer has it."""

    make = LogsItsErrors
