"""Sinks that two differences, or two faults, harm together: each wrong one overrides what is right in `Parts`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

from sinkproof import Claim, Scratch

CHUNK_ROWS = 400
State = tuple[list[tuple[int, Any]], list[tuple[int, Any]]]  # (checkpoint, rows): pending ones, and aborted ones
Restored = tuple[int, list[tuple[int, Any]], list[tuple[int, Any]]]  # the same of an old subtask


class Parts:
    """Right: rows wait in the state, and each checkpoint of each subtask becomes one file, by one rename."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[Any] = []
        self.pending: dict[int, Any] = {}
        self.aborted: dict[int, Any] = {}

    def open(self, context: Any) -> None:
        self.context = context
        self.begin()
        for old, pending, aborted in self.kept([(old, *self.read(state)) for old, state in context.restored]):
            for checkpoint_id, rows in (*pending, *aborted):
                self.publish(f"{old}-{checkpoint_id}", rows)

    def begin(self) -> None:
        """Before anything is restored."""

    def read(self, state: bytes) -> State:
        pending, aborted = json.loads(state)
        return pending, aborted

    def kept(self, restored: list[Restored]) -> list[Restored]:
        return restored

    def write(self, batch: Any) -> None:
        self.rows += [(row.split, row.offset, row.key, row.value) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self.rows:
            self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps([[*self.pending.items()], [*self.aborted.items()]]).encode()

    def notify_aborted(self, checkpoint_id: int) -> None:
        if checkpoint_id in self.pending:
            self.aborted[checkpoint_id] = self.pending.pop(checkpoint_id)

    def notify_complete(self, checkpoint_id: int) -> None:
        for waiting in (self.aborted, self.pending):
            for older in [older for older in waiting if older <= checkpoint_id]:
                self.publish(f"{self.context.subtask}-{older}", waiting.pop(older))

    def publish(self, part: str, rows: Any) -> None:
        temporary = self.folder / f"{part}-by-{self.context.subtask}-{self.context.generation}.new"
        self.fill(temporary, json.dumps(rows).encode())
        temporary.rename(self.folder / f"{part}.json")

    def fill(self, file: Path, data: bytes) -> None:
        file.write_bytes(data)


class PartFiles:
    claims: Any = Claim.EXACTLY_ONCE
    make: Any = Parts

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())


class RestoringTheLastAborted(Parts):
    """Wrong: of several old subtasks only the last one's aborted rows are restored."""

    def kept(self, restored: list[Restored]) -> list[Restored]:
        return [(old, pending, aborted if old == restored[-1][0] else []) for old, pending, aborted in restored]


class AbortedAndRescaled(PartFiles):
    make = RestoringTheLastAborted


class RestoringTwo(Parts):
    """Wrong: a subtask restores what it had, and what one other had."""

    def kept(self, restored: list[Restored]) -> list[Restored]:
        return restored[:2]


class RestoredByOne(PartFiles):
    make = RestoringTwo


class MergingOffsets(Parts):
    """Wrong: of the offsets that two subtasks have seen it keeps the larger one, and drops what the other has not."""

    def begin(self) -> None:
        self.last: dict[str, int] = {}

    def read(self, state: bytes) -> State:
        pending, aborted, last = json.loads(state)
        self.last = {split: max(last.get(split, -1), self.last.get(split, -1)) for split in {*last, *self.last}}
        return pending, aborted

    def write(self, batch: Any) -> None:
        super().write([row for row in batch if row.offset > self.last.get(str(row.split), -1)])
        self.last |= {str(row.split): row.offset for row in batch}

    def snapshot(self, checkpoint_id: int) -> bytes:
        return json.dumps([*json.loads(super().snapshot(checkpoint_id)), self.last]).encode()


class UnalignedAndRescaled(PartFiles):
    make = MergingOffsets


class EndingAtAnEmptyState(Parts):
    """Wrong: a subtask that had nothing pending ends the restore of the others."""

    def kept(self, restored: list[Restored]) -> list[Restored]:
        return list(takewhile(lambda each: any(each[1:]), restored))


class SparseAndRescaled(PartFiles):
    make = EndingAtAnEmptyState


class CommittingOwnRowsOnly(Parts):
    """Wrong: without rows of its own a checkpoint commits none of those before it."""

    def notify_complete(self, checkpoint_id: int) -> None:
        if checkpoint_id in self.pending:
            super().notify_complete(checkpoint_id)


class SparseAndLost(PartFiles):
    make = CommittingOwnRowsOnly


class InChunks(Parts):
    """Wrong: what was aborted takes the place of the chunks that the next checkpoint has by then."""

    def begin(self) -> None:
        self.chunks: list[Any] = []

    def write(self, batch: Any) -> None:
        super().write(batch)
        if len(self.rows) >= CHUNK_ROWS:
            self.chunks, self.rows = self.chunks + self.rows, []

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.rows, self.chunks = self.chunks + self.rows, []
        return super().snapshot(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        if checkpoint_id in self.pending:
            self.chunks = self.pending.pop(checkpoint_id)


class LargeAndAborted(PartFiles):
    make = InChunks


class Spilling(Parts):
    """Rows that do not fit into memory go to a file at once. Wrong: an error there is ignored, and they are gone."""

    def begin(self) -> None:
        self.spilled: list[str] = []

    def write(self, batch: Any) -> None:
        super().write(batch)
        if len(self.rows) >= CHUNK_ROWS:
            name = f"spilled-{self.context.subtask}-{self.context.generation}-{self.rows[0][0]}-{self.rows[0][1]}"
            with suppress(OSError):
                self.fill(self.folder / name, json.dumps(self.rows).encode())
                self.spilled.append(name)
            self.rows = []

    def snapshot(self, checkpoint_id: int) -> bytes:
        for name in self.spilled:
            self.rows += json.loads((self.folder / name).read_text())
        self.spilled = []
        return super().snapshot(checkpoint_id)


class LargeAndFailing(PartFiles):
    make = Spilling


class AdoptingFirst(Parts):
    """Stages a file in a folder of its subtask. Wrong: a subtask takes what others have staged to its own folder before
    it publishes it, where their successors do not look.
    """

    adopts: ClassVar[bool] = True

    def staged(self, subtask: int, part: str) -> Path:
        return self.folder / f"stage-{subtask}" / part

    def begin(self) -> None:
        self.staged(self.context.subtask, "").mkdir(exist_ok=True)

    def read(self, state: bytes) -> State:
        pending, aborted = super().read(state)
        for _, part in (*pending, *aborted):
            with suppress(FileNotFoundError):
                if self.adopts:
                    self.staged(part[0], part[1]).rename(self.staged(self.context.subtask, part[1]))
        return pending, aborted

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self.rows:
            part = self.context.subtask, f"{self.context.generation}-{self.context.subtask}-{checkpoint_id}"
            self.staged(*part).write_text(json.dumps(self.rows))
            self.pending[checkpoint_id], self.rows = part, []
        return json.dumps([[*self.pending.items()], [*self.aborted.items()]]).encode()

    def publish(self, part: str, rows: Any) -> None:
        with suppress(FileNotFoundError):  # an earlier attempt has published it
            owner = self.context.subtask if self.adopts else rows[0]
            self.staged(owner, rows[1]).rename(self.folder / f"{rows[1]}.json")


class RescaledThereAndBack(PartFiles):
    make = AdoptingFirst


class LeftWhereItWas(AdoptingFirst):
    """Right: published from where it was staged."""

    adopts = False


class RescaledAndLeft(PartFiles):
    make = LeftWhereItWas


class WithoutTheRest(Parts):
    """Wrong: what `os.write` has left is not written."""

    def fill(self, file: Path, data: bytes) -> None:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(descriptor, data)
        os.close(descriptor)


class WrittenShort(PartFiles):
    make = WithoutTheRest

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted(scratch.path.glob("*.json")):
            with suppress(ValueError):
                yield from json.loads(file.read_text())


class WaitingForTheNext(Parts):
    """Wrong: what was aborted waits for the notification of the very next checkpoint."""

    def notify_complete(self, checkpoint_id: int) -> None:
        others = {older: rows for older, rows in self.aborted.items() if older != checkpoint_id - 1}
        self.aborted = {older: rows for older, rows in self.aborted.items() if older not in others}
        super().notify_complete(checkpoint_id)
        self.aborted = others


class AbortedAndLost(PartFiles):
    make = WaitingForTheNext


class Listing(Parts):
    """Right if names have digits enough: each list of files has all of the one before, which is the last by name."""

    digits = 9

    def publish(self, part: str, rows: Any) -> None:
        super().publish(part, rows)
        subtask, checkpoint = part.split("-")
        lists = sorted(self.folder.glob(f"{subtask}-*.list"))
        listed = json.loads(lists[-1].read_text()) if lists else []
        new = self.folder / f"{subtask}-{int(checkpoint):0{self.digits}d}.new"
        self.fill(new, json.dumps(sorted({*listed, part})).encode())
        new.rename(new.with_suffix(".list"))


class ListingByThreeDigits(Listing):
    """Wrong: 1000 is before 999, as f"{999:03d}" shows."""

    digits = 3


class ListedParts(PartFiles):
    make = Listing

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        newest = {file.name.split("-")[0]: file for file in sorted(scratch.path.glob("*.list"))}
        for part in (part for file in newest.values() for part in json.loads(file.read_text())):
            yield from json.loads((scratch.path / f"{part}.json").read_text())


class ListedByThreeDigits(ListedParts):
    make = ListingByThreeDigits


class Packing(Parts):
    """Wrong: 16 bits hold no id of a checkpoint above 65,535."""

    def publish(self, part: str, rows: Any) -> None:
        subtask, checkpoint = map(int, part.split("-"))
        super().publish(str(subtask << 16 | checkpoint), rows)


class PackedParts(PartFiles):
    make = Packing


class StagingForAFewAttempts(Parts):
    """Wrong: what was staged before the last five attempts is removed, and a job may die more often."""

    def begin(self) -> None:
        for file in self.folder.glob("*.staged"):
            if int(file.name.split("-")[0]) < self.context.generation - 5:
                file.unlink()

    def snapshot(self, checkpoint_id: int) -> bytes:
        name = f"{self.context.generation}-{self.context.subtask}-{checkpoint_id}.staged"
        self.fill(self.folder / name, super().snapshot(checkpoint_id))
        return name.encode()

    def read(self, state: bytes) -> State:
        staged = self.folder / state.decode()
        return super().read(staged.read_bytes()) if staged.exists() else ([], [])


class StagedForAFewAttempts(PartFiles):
    make = StagingForAFewAttempts
