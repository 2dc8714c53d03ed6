"""Sinks that lose or repeat rows where two conditions meet, each beside its right sibling."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Batch, Claim, Context, Scratch
from sinkproof.chaos.clock import utc_now

SPILLED_ROWS = 100


class PartFiles(PartsOfCheckpoints):
    """A file for each part."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def publish(self, name: str, rows: list[Any]) -> None:
        self.replace(f"{name}.json", rows)

    def replace(self, name: str, value: Any) -> None:
        temporary = self.folder / f"new-{self.context.subtask}-{self.context.generation}"
        temporary.write_text(json.dumps(value))
        os.replace(temporary, self.folder / name)


class DeadLetters(PartFiles):
    """Rows with unprintable values are appended to another file, before the part is there."""

    def write(self, batch: Batch) -> None:
        self.rows += [[row.split, row.offset, row.value.isprintable()] for row in batch]

    def publish(self, name: str, rows: list[Any]) -> None:
        if (self.folder / f"{name}.json").exists():
            return
        self.bury(name, [row[:2] for row in rows if not row[2]])
        self.replace(f"{name}.json", [row[:2] for row in rows if row[2]])

    def bury(self, name: str, rows: list[Any]) -> None:
        with (self.folder / f"dead-{name.partition('-')[0]}").open("a") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)


class DeadLettersByPart(DeadLetters):
    def bury(self, name: str, rows: list[Any]) -> None:
        self.replace(f"dead-{name}", rows)


class HeldBack(PartFiles):
    """Rows with unprintable values wait until the end. A subtask keeps those of the last state it restores."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.held: list[Any] = []

    def open(self, context: Context) -> None:
        self.context = context
        for subtask, state in context.restored:
            parts, held = json.loads(state)
            self.hold(held)
            for checkpoint, rows in parts:
                self.publish(f"{subtask}-{checkpoint}", rows)

    def hold(self, held: list[Any]) -> None:
        self.held = held

    def write(self, batch: Batch) -> None:
        for row in batch:
            (self.rows if row.value.isprintable() else self.held).append([row.split, row.offset])

    def end_of_input(self) -> None:
        self.rows, self.held = self.rows + self.held, []

    def snapshot(self, checkpoint_id: int) -> bytes:
        parts = json.loads(super().snapshot(checkpoint_id))
        return json.dumps([parts, self.held]).encode()


class HeldBackOfAll(HeldBack):
    def hold(self, held: list[Any]) -> None:
        self.held = self.held + held


class Spilled(PartFiles):
    """Many rows wait in a file that the state names; a subtask removes those of all that it has restored too early."""

    def open(self, context: Context) -> None:
        self.context = context
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish(f"{subtask}-{checkpoint}", rows)
            self.remove(subtask)

    def remove(self, subtask: int) -> None:
        for file in self.folder.glob("spilled-*"):
            if int(file.name.split("-")[1]) % self.context.parallelism == self.context.subtask:
                file.unlink()

    def snapshot(self, checkpoint_id: int) -> bytes:
        if len(self.rows) > SPILLED_ROWS:
            name = f"spilled-{self.context.subtask}-{self.context.generation}-{checkpoint_id}"
            self.replace(name, self.rows)
            self.rows = [name]
        return super().snapshot(checkpoint_id)

    def publish(self, name: str, rows: list[Any]) -> None:
        if rows and isinstance(rows[0], str):
            if (self.folder / f"{name}.json").exists():
                return
            rows = json.loads((self.folder / rows[0]).read_text())
        super().publish(name, rows)


class SpilledAndKept(Spilled):
    def remove(self, subtask: int) -> None:
        for file in self.folder.glob(f"spilled-{subtask}-*"):
            file.unlink()


class Progress(PartFiles):
    """Rows and the last checkpoint that was committed are one file, which an earlier notification sets back."""

    def open(self, context: Context) -> None:
        self.context = context
        self.file = f"{context.subtask}.json"
        self.committed, self.last = [], 0
        if (self.folder / self.file).exists():
            self.committed, self.last = json.loads((self.folder / self.file).read_text())
        for _, state in context.restored:
            for checkpoint, rows in json.loads(state):
                if checkpoint > self.last:
                    self.committed += rows
                    self.note(checkpoint)

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [each for each in self.pending if each <= checkpoint_id]:
            self.committed += self.pending.pop(older)
        self.note(checkpoint_id)

    def note(self, checkpoint: int) -> None:
        self.last = checkpoint
        self.replace(self.file, [self.committed, self.last])


class ProgressThatNeverGoesBack(Progress):
    def note(self, checkpoint: int) -> None:
        super().note(max(self.last, checkpoint))


class DayOfCommit(PartFiles):
    """A part that no day has yet goes to the day of today."""

    def publish(self, name: str, rows: list[Any]) -> None:
        if not any(self.folder.glob(f"*/{name}.json")):
            day = f"{utc_now():%Y-%m-%d}"
            (self.folder / day).mkdir(exist_ok=True)
            self.replace(f"{day}/{name}.json", rows)


class OneList(PartFiles):
    """All parts in one file, under a lock."""

    lock_goes = False

    def publish(self, name: str, rows: list[Any]) -> None:
        lock = self.folder / "lock"
        with lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            parts = self.folder / "parts.json"
            known = json.loads(parts.read_text()) if parts.exists() else {}
            self.replace("parts.json", {**known, name: rows})
            if self.lock_goes:
                lock.unlink(missing_ok=True)


class OneListWithoutALeftLock(OneList):
    """An attempt that has waited for the removed file holds no lock beside one that has made a new file."""

    lock_goes = True


class RightParts:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    made: Any = PartFiles
    rescales = True

    def sink(self, scratch: Scratch) -> Any:
        return self.made(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted(scratch.path.glob("**/*.json")):
            yield from json.loads(file.read_text())


class AppendsDeadLetters(RightParts):
    made = DeadLetters

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        yield from super().committed(scratch)
        for file in scratch.path.glob("dead-*"):
            yield from map(json.loads, file.read_text().splitlines())


class ReplacesDeadLetters(RightParts):
    made = DeadLettersByPart

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        yield from super().committed(scratch)
        for file in scratch.path.glob("dead-*"):
            yield from json.loads(file.read_text())


class HoldsTheLast(RightParts):
    made = HeldBack


class HoldsAll(RightParts):
    made = HeldBackOfAll


class RemovesTooEarly(RightParts):
    made = Spilled


class RemovesItsOwn(RightParts):
    made = SpilledAndKept


class GoesBack(RightParts):
    made = Progress
    rescales = False

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())[0]


class NeverGoesBack(GoesBack):
    made = ProgressThatNeverGoesBack


class LocksOneFile(RightParts):
    made = OneList

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted(scratch.path.glob("parts.json")):
            for rows in json.loads(file.read_text()).values():
                yield from rows


class RemovesItsLock(LocksOneFile):
    made = OneListWithoutALeftLock


class ByDayOfCommit(RightParts):
    made = DayOfCommit
