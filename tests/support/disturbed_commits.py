"""Sinks in which attempts disturb each other's commits: parts in one log of all subtasks, and in files with marks."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any

from native_commits import Rows, RowsInState

from sinkproof import Claim, Scratch
from sinkproof.chaos.clock import Deadline


class InPieces(RowsInState):
    """One log of all subtasks, to which one buffered file appends a part: as many pieces as the buffer needs."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        with self.file.open("ab") as log:
            for text in self.texts(marker, rows):
                log.write(text.encode())

    def texts(self, marker: tuple[int, int], rows: Rows) -> list[str]:
        return [f"\n{marker[0]}-{marker[1]} ", json.dumps(rows), " whole\n"]


class SharedLog:
    """Wrong: another subtask may append between two pieces. Readers leave out lines that are not whole."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = InPieces

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path / "log")

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        lines = (scratch.path / "log").read_text().splitlines()
        parts = dict(line.removesuffix(" whole").split(" ", 1) for line in lines if line.endswith(" whole"))
        for rows in parts.values():
            yield from json.loads(rows)


class InOnePiece(InPieces):
    def texts(self, marker: tuple[int, int], rows: Rows) -> list[str]:
        return ["".join(super().texts(marker, rows))]


class SharedLogInOnePiece(SharedLog):
    """Right: what is larger than the buffer goes past it."""

    make = InOnePiece


class InPlace(RowsInState):
    """A file for each part, and another one that says that it is whole: then nothing is written again."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        part = self.folder / f"part-{marker[0]}-{marker[1]}"
        if not part.with_suffix(".whole").exists():
            self.put(part, json.dumps(rows))
            part.with_suffix(".whole").touch()

    def put(self, part: Path, text: str) -> None:
        part.write_text(text)


class MarkedParts:
    """Wrong: an attempt that has looked for the mark empties the part of its successor, and may die then."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = InPlace

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for mark in sorted(scratch.path.glob("*.whole")):
            yield from json.loads(mark.with_suffix("").read_text() or "[]")


def put_in_one_step(part: Path, text: str) -> None:
    temporary = part.with_name(f"temporary-{os.getpid()}")
    temporary.write_text(text)
    temporary.rename(part)


class Renamed(InPlace):
    def put(self, part: Path, text: str) -> None:
        put_in_one_step(part, text)


class MarkedAndRenamed(MarkedParts):
    """Right: what a late attempt puts in its place is the same."""

    make = Renamed


class RenamedOnce(InPlace):
    """A restored sink writes its parts again, over what is there."""

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        part = self.folder / f"part-{marker[0]}-{marker[1]}.whole"
        if part.exists():
            self.put_again(part, json.dumps(rows))
        else:
            put_in_one_step(part, json.dumps(rows))

    def put_again(self, part: Path, text: str) -> None:
        part.write_text(text)


class WritesOver(MarkedParts):
    """Wrong: a suspended attempt that recovers empties what its successor has written, and may die then."""

    make = RenamedOnce

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for part in sorted(scratch.path.glob("*.whole")):
            yield from json.loads(part.read_text() or "[]")


class RenamedAgain(RenamedOnce):
    def put_again(self, part: Path, text: str) -> None:
        put_in_one_step(part, text)


class RenamesOver(WritesOver):
    """Right: what a late attempt puts in its place is the same."""

    make = RenamedAgain


class LeftToOthers(Renamed):
    """A lock for each part."""

    how = fcntl.LOCK_EX | fcntl.LOCK_NB

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        with (self.folder / f"lock-{marker[0]}-{marker[1]}").open("a") as lock, suppress(BlockingIOError):
            fcntl.flock(lock, self.how)
            super().publish(marker, rows)


class SkipsWhatIsLocked(MarkedParts):
    """Wrong: an attempt that holds a lock may hang until it is killed, and then publishes nothing."""

    make = LeftToOthers


class Waiting(LeftToOthers):
    how = fcntl.LOCK_EX


class WaitsForTheLock(MarkedParts):
    """Right: a dead attempt holds no lock."""

    make = Waiting


class OneOwner(Renamed):
    """Each attempt holds the lock of its subtask as long as it lives."""

    def open(self, context: Any) -> None:
        self.lock = (self.folder / f"owner-{context.subtask}").open("a")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        super().open(context)


class OwnedForLife(MarkedParts):
    """Right: a successor waits for the death of a zombie."""

    make = OneOwner


class OneList(RowsInState):
    """One list of all parts, replaced under a lock."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.parts, self.lock = folder / "parts", folder / "lock"

    def add(self, marker: tuple[int, int], rows: Rows) -> None:
        parts = json.loads(self.parts.read_text()) if self.parts.exists() else {}
        parts[f"{marker[0]}-{marker[1]}"] = rows
        self.replace(json.dumps(parts))

    def replace(self, text: str) -> None:
        temporary = self.parts.with_name(f"parts-{os.getpid()}")
        temporary.write_text(text)
        temporary.rename(self.parts)


class TakesByForce(OneList):
    """The lock is a file, which is removed when it has been there for a second."""

    seconds = 1.0

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        patience = Deadline(self.seconds)
        while not self.is_taken():
            if patience.over:
                self.lock.unlink(missing_ok=True)
            Event().wait(0.01)
        try:
            self.add(marker, rows)
        finally:
            self.lock.unlink(missing_ok=True)

    def is_taken(self) -> bool:
        try:
            self.lock.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class TakenByForce(MarkedParts):
    """Wrong: a suspended attempt goes on when its lock was taken, and puts back the list that it has read."""

    make = TakesByForce

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for rows in json.loads((scratch.path / "parts").read_text()).values():
            yield from rows


class PollsForAMinute(OneList):
    """The lock is one of the kernel; after a minute the attempt goes on without it."""

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        with self.lock.open("a") as lock:
            tries = 0
            while not self.has(lock):
                tries += 1
                if tries == 120:
                    self.give_up()
                    break
                self.wait(0.5)
            self.add(marker, rows)

    def give_up(self) -> None:
        """The lock is not needed, it thinks."""

    def has(self, lock: IO[str]) -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait(self, seconds: float) -> None:
        vars(time)["sleep"](seconds)


class GoesOnAfterAMinute(TakenByForce):
    """Wrong: others may hold the lock for longer."""

    make = PollsForAMinute


class RaisesAfterAMinute(PollsForAMinute):
    def give_up(self) -> None:
        raise TimeoutError("another attempt has held the lock for a minute")


class FailsAfterAMinute(TakenByForce):
    """Right: the attempt fails, and the job goes on once the lock is free."""

    make = RaisesAfterAMinute


class AsksThreeSecondsLong(OneList):
    """Another thread puts the part there, after a moment."""

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        is_done = Event()
        other = Thread(target=lambda: (Event().wait(0.2), self.add(marker, rows), is_done.set()))
        other.start()
        for _ in range(30):
            if is_done.is_set():
                return other.join()
            vars(time)["sleep"](0.1)
        raise TimeoutError("the part is not there after three seconds")


class FailsAfterThreeSeconds(TakenByForce):
    """Right where there are no faults."""

    make = AsksThreeSecondsLong
