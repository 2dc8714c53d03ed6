"""Sinks that write to a database, and that two differences, or two faults, harm together."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any, ClassVar

from harmed_parts import PartFiles, Parts, State

from sinkproof import Scratch

KEPT_SECONDS = 3600.0


class InTransactions(Parts):
    """Right: the rows of a part, and its name, are one transaction in a database."""

    def begin(self) -> None:
        self.database = sqlite3.connect(self.folder / "rows.db", timeout=30)
        self.database.execute("CREATE TABLE IF NOT EXISTS rows (split, offset, key, value)")
        self.database.execute("CREATE TABLE IF NOT EXISTS parts (part PRIMARY KEY, at)")
        self.database.commit()
        self.tidy()

    def tidy(self) -> None:
        """Before anything is restored."""

    def publish(self, part: str, rows: Any) -> None:
        self.database.execute("INSERT OR IGNORE INTO parts VALUES (NULL, NULL)")  # the lock, before anything is read
        if not self.database.execute("SELECT 1 FROM parts WHERE part = ?", (part,)).fetchone():
            for row in rows:
                self.add(row)
            self.database.execute("INSERT INTO parts VALUES (?, ?)", (part, self.context.clock()))
        self.finish()

    def add(self, row: Any) -> None:
        self.database.execute("INSERT INTO rows VALUES (?, ?, ?, ?)", row)

    def finish(self) -> None:
        self.database.commit()


class Tables(PartFiles):
    make = InTransactions

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        if not (scratch.path / "rows.db").exists():
            return
        database = sqlite3.connect(scratch.path / "rows.db", timeout=30)
        yield from database.execute("SELECT * FROM rows")
        database.close()


class VacuumedWhenRestored(InTransactions):
    """Wrong: VACUUM needs the mode without transactions, in which a restored attempt then stays."""

    def tidy(self) -> None:
        if self.context.restored:
            self.database.isolation_level = None
            self.database.execute("PRAGMA optimize")


class RestoredAndKilled(Tables):
    make = VacuumedWhenRestored


class ForgettingParts(InTransactions):
    """Wrong: after an hour it forgets which parts there are, also those that a restart may bring again."""

    def finish(self) -> None:
        self.database.execute("DELETE FROM parts WHERE at < ?", (self.context.clock() - KEPT_SECONDS,))
        self.database.commit()


class LateAndRestartedTwice(Tables):
    make = ForgettingParts


class ByKeyAndOffset(InTransactions):
    """Wrong: a row is known by its key and its offset, without its split."""

    def tidy(self) -> None:
        self.database.execute("CREATE UNIQUE INDEX IF NOT EXISTS identity ON rows (key, offset)")

    def add(self, row: Any) -> None:
        self.database.execute("INSERT OR IGNORE INTO rows VALUES (?, ?, ?, ?)", row)


class KeysOfTwoSplits(Tables):
    make = ByKeyAndOffset


class FencedOnce(InTransactions):
    """Wrong: an attempt refuses the generation before it, and no older one."""

    fenced: ClassVar[str] = "generation = ?"

    def tidy(self) -> None:
        self.files: list[Any] = []
        self.database.execute("CREATE TABLE IF NOT EXISTS fenced (subtask, generation)")
        self.database.execute("CREATE TABLE IF NOT EXISTS manifests (subtask PRIMARY KEY, rows)")
        self.database.commit()
        for subtask in {self.context.subtask, *(old for old, _ in self.context.restored)}:
            self.database.execute("INSERT INTO fenced VALUES (?, ?)", (subtask, self.context.generation - 1))
        self.database.commit()

    def read(self, state: bytes) -> State:
        pending, aborted, files = json.loads(state)
        self.files += files
        return pending, aborted

    def snapshot(self, checkpoint_id: int) -> bytes:
        return json.dumps([*json.loads(super().snapshot(checkpoint_id)), self.files]).encode()

    def publish(self, part: str, rows: Any) -> None:
        self.files += rows
        self.database.execute("INSERT OR IGNORE INTO parts VALUES (NULL, NULL)")
        asked = f"SELECT 1 FROM fenced WHERE subtask = ? AND {self.fenced}"
        if not self.database.execute(asked, (self.context.subtask, self.context.generation)).fetchone():
            manifest = self.context.subtask, json.dumps(self.files)
            self.database.execute("REPLACE INTO manifests VALUES (?, ?)", manifest)
        self.database.commit()


class SuspendedAndKilled(Tables):
    make = FencedOnce
    rescales = False

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        if not (scratch.path / "rows.db").exists():
            return
        database = sqlite3.connect(scratch.path / "rows.db", timeout=30)
        if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'manifests'").fetchone():
            for (rows,) in database.execute("SELECT rows FROM manifests"):
                yield from json.loads(rows)
        database.close()


class FencedForGood(FencedOnce):
    """Right."""

    fenced = "generation >= ?"


class SuspendedAndFenced(SuspendedAndKilled):
    make = FencedForGood
