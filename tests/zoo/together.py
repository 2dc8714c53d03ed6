"""Sinks with subtasks that produce something together: a checkpoint that the last one reveals, a base that all runs are
merged into, one archive. Right: Together.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sinkproof import Batch, Claim, Context, Scratch

Rows = list[list[int]]


class KeepsPending(ABC):
    """Rows wait in the state; `finish` receives the checkpoints of one subtask that are to become visible."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: Rows = []
        self.pending: list[tuple[int, Rows]] = []

    def open(self, context: Context) -> None:
        self.context = context
        self.temporary = self.folder / f"temporary-{context.subtask}-{context.generation}"
        for subtask, state in context.restored:
            self.finish(subtask, context.checkpoint_id_covered, json.loads(state), context.subtasks_restored)

    def write(self, batch: Batch) -> None:
        self.rows += [[row.split, row.offset] for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending.append((checkpoint_id, self.rows))
        self.rows = []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        due = [entry for entry in self.pending if entry[0] <= checkpoint_id]
        self.finish(self.context.subtask, checkpoint_id, due, range(self.context.parallelism))
        self.pending = [entry for entry in self.pending if entry[0] > checkpoint_id]

    @abstractmethod
    def finish(self, subtask: int, checkpoint_id: int, parts: Iterable[Any], subtasks: Iterable[int]) -> None: ...

    def put(self, path: Path, content: Any) -> None:
        self.temporary.write_text(json.dumps(content))
        os.replace(self.temporary, path)


# -- the last one reveals the checkpoint -----------------------------------------------------------


class Reveals(KeepsPending):
    """part-<checkpoint>-<subtask>, done-<checkpoint>-<subtask>; the last subtask makes shown-<checkpoint>."""

    def finish(self, subtask: int, checkpoint_id: int, parts: Iterable[Any], subtasks: Iterable[int]) -> None:
        for number, rows in parts:
            self.put(self.folder / f"part-{number}-{subtask}", rows)
        self.say_done(subtask, checkpoint_id, subtasks)

    def say_done(self, subtask: int, checkpoint_id: int, subtasks: Iterable[int]) -> None:
        (self.folder / f"done-{checkpoint_id}-{subtask}").touch()
        if all((self.folder / f"done-{checkpoint_id}-{each}").exists() for each in subtasks):
            (self.folder / f"shown-{checkpoint_id}").touch()


class Together:
    """Right."""

    claims: Any = Claim.EXACTLY_ONCE | Claim.ATOMIC_CHECKPOINT
    make: Any = Reveals

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        shown = max((int(file.name.split("-")[1]) for file in scratch.path.glob("shown-*")), default=0)
        for file in sorted(scratch.path.glob("part-*")):
            if int(file.name.split("-")[1]) <= shown:
                yield from json.loads(file.read_text())


class ChecksFirst(Reveals):
    def say_done(self, subtask: int, checkpoint_id: int, subtasks: Iterable[int]) -> None:
        others = [each for each in subtasks if each != subtask]
        last = all((self.folder / f"done-{checkpoint_id}-{each}").exists() for each in others)
        (self.folder / f"done-{checkpoint_id}-{subtask}").touch()
        if last:
            (self.folder / f"shown-{checkpoint_id}").touch()


class BothMissTheLast(Together):
    """Wrong: two subtasks that check at the same time both find that they are not the last one. The next checkpoint
    makes up for it, if there is one.
    """

    claims = Claim.EXACTLY_ONCE
    make = ChecksFirst


class AsManyAsNow(Reveals):
    def say_done(self, subtask: int, checkpoint_id: int, subtasks: Iterable[int]) -> None:
        super().say_done(subtask, checkpoint_id, range(self.context.parallelism))


class CountsTheNewOnes(Together):
    """Wrong: after a restore with fewer subtasks, the parts of the first ones are taken for the parts of all."""

    make = AsManyAsNow


# -- runs are merged into a base -------------------------------------------------------------------


class Merges(KeepsPending):
    """Each part is a run of its own; from three on they become one file, which names what it holds."""

    def finish(self, subtask: int, checkpoint_id: int, parts: Iterable[Any], subtasks: Iterable[int]) -> None:
        for number, rows in parts:
            self.put(self.folder / f"run-{number}-{subtask}", rows)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.merge()

    def merge(self) -> None:
        runs = {run.name: json.loads(run.read_text()) for run in self.folder.glob("run-*")}
        if len(runs) >= 3:
            base = json.loads((self.folder / "base").read_text()) if (self.folder / "base").exists() else {}
            self.put(self.folder / "base", {**base, **runs})
            for run in self.folder.glob("run-*"):
                run.unlink()


class RemovesMoreThanItMerged:
    """Wrong: a run that comes while the others are merged is removed with them."""

    claims = Claim.NO_LOSS

    def sink(self, scratch: Scratch) -> Any:
        return Merges(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        base = scratch.path / "base"
        held: dict[str, Rows] = json.loads(base.read_text()) if base.exists() else {}
        runs = {run.name: json.loads(run.read_text()) for run in scratch.path.glob("run-*")}
        for rows in {**held, **runs}.values():
            yield from rows


# -- numbers by subtask ----------------------------------------------------------------------------


class Numbers(KeepsPending):
    """The target remembers the last number of each subtask; what is not greater was sent before."""

    def open(self, context: Context) -> None:
        self.next = 0
        self.ids: list[tuple[int, int]] = []  # checkpoint, and the first number behind it
        super().open(context)

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self.rows:
            self.pending.append((self.next + len(self.pending), self.rows))
            self.rows = []
        self.ids.append((checkpoint_id, self.next + len(self.pending)))
        return json.dumps([self.next + len(self.pending), self.pending]).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        upto = max(number for each, number in self.ids if each <= checkpoint_id)
        while self.pending and self.pending[0][0] < upto:
            self.send(self.context.subtask, *self.pending.pop(0))
            self.next += 1

    def finish(self, subtask: int, checkpoint_id: int, parts: Iterable[Any], subtasks: Iterable[int]) -> None:
        number, pending = parts
        for each, rows in pending:
            self.send(subtask, each, rows)
        self.next = number if subtask == self.context.subtask else self.next

    def send(self, subtask: int, number: int, rows: Rows) -> None:
        with closing(sqlite3.connect(self.folder / "rows.db", timeout=30)) as database, database:
            database.execute("BEGIN IMMEDIATE")
            last = database.execute("SELECT number FROM last WHERE subtask = ?", (subtask,)).fetchone()
            if last is None or last[0] < number:
                database.executemany("INSERT INTO rows VALUES (?, ?)", rows)
                database.execute("REPLACE INTO last VALUES (?, ?)", (subtask, number))


class BeginsAnewWithoutState:
    """Wrong: a subtask that there was before, and was not for a while, comes back without state and counts from 0."""

    claims = Claim.EXACTLY_ONCE

    def setup(self, scratch: Scratch) -> None:
        with closing(sqlite3.connect(scratch.path / "rows.db")) as database, database:
            database.execute("CREATE TABLE rows (split INT, offset INT)")
            database.execute("CREATE TABLE last (subtask INT PRIMARY KEY, number INT)")

    def sink(self, scratch: Scratch) -> Any:
        return Numbers(scratch.path)

    def committed(self, scratch: Scratch) -> list[Any]:
        with closing(sqlite3.connect(scratch.path / "rows.db")) as database:
            return database.execute("SELECT split, offset FROM rows").fetchall()


# -- one archive -----------------------------------------------------------------------------------


class Zips(KeepsPending):
    """An entry for each part of each subtask."""

    def finish(self, subtask: int, checkpoint_id: int, parts: Iterable[Any], subtasks: Iterable[int]) -> None:
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with zipfile.ZipFile(self.folder / "rows.zip", "a") as archive:
                entries = {f"{number}-{subtask}": rows for number, rows in parts}
                for name in sorted(entries.keys() - {*archive.namelist()}):
                    archive.writestr(name, json.dumps(entries[name]))


class WritesOverTheDirectory:
    """Wrong: until it is closed, an archive that is added to has no directory. A few rows are one write, many not."""

    claims = Claim.EXACTLY_ONCE

    def setup(self, scratch: Scratch) -> None:
        zipfile.ZipFile(scratch.path / "rows.zip", "w").close()

    def sink(self, scratch: Scratch) -> Any:
        return Zips(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        with zipfile.ZipFile(scratch.path / "rows.zip") as archive:
            for name in archive.namelist():
                yield from json.loads(archive.read(name))
