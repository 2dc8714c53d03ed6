"""Sinks that append to a file and cut it at what is valid. Right: AppendTruncate, PlainAppend."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

from sinkproof import Batch, Claim, Context, Scratch


class Resumes:
    """One file per subtask and generation, begun as a copy of what is valid in the one before it.

    A small file beside it says how much of it may be read; it is replaced when a checkpoint is complete. A subtask
    that takes over another one's state writes such a file of its own generation for it: nothing may be read there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, context: Context) -> None:
        self.name = f"{context.subtask}-{context.generation:09d}"
        self.lengths: dict[int, int] = {}
        valid = b""
        for _, state in context.restored:
            earlier, length = pickle.loads(state)
            valid += (self.folder / f"data-{earlier}").read_bytes()[:length]
        self.file = open(self.folder / f"data-{self.name}", "wb")  # noqa: SIM115
        self.file.write(valid)
        self.file.flush()
        self.show(len(valid))
        for old, _ in context.restored:
            if old != context.subtask:
                self.take_over(old, context.generation)

    def write(self, batch: Batch) -> None:
        for row in batch:
            self.file.write(json.dumps(row[:2]).encode() + b"\n")

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.file.flush()
        os.fsync(self.file.fileno())
        self.lengths[checkpoint_id] = os.path.getsize(self.folder / f"data-{self.name}")
        return pickle.dumps((self.name, self.lengths[checkpoint_id]))

    def notify_complete(self, checkpoint_id: int) -> list[int]:
        covered = [older for older in self.lengths if older <= checkpoint_id]
        if covered:
            self.show(max(self.lengths.pop(older) for older in covered))
        return []

    def take_over(self, old: int, generation: int) -> None:
        with contextlib.suppress(FileExistsError):
            (self.folder / f"valid-{old}-{generation:09d}").touch(exist_ok=False)

    def show(self, length: int) -> None:
        temporary = self.folder / f"temporary-{self.name}"
        temporary.write_text(str(length))
        temporary.replace(self.folder / f"valid-{self.name}")

    def close(self) -> None:
        self.file.close()


class ValidPart:
    """Reads, for each subtask, what is valid in the file of the newest generation."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = Resumes

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Any:
        newest = {}
        for valid in sorted(scratch.path.glob("valid-*")):
            _, subtask, generation = valid.name.split("-")
            newest[subtask] = (scratch.path / f"data-{subtask}-{generation}", int(valid.read_text() or 0))
        lines = [line for file, length in newest.values() if length for line in file.read_bytes()[:length].splitlines()]
        return tuple(json.loads(line) for line in lines)


class AppendTruncate(ValidPart):
    """Right."""


class RemembersTheNotified(Resumes):
    def open(self, context: Context) -> None:
        self.notified = 0
        super().open(context)

    def snapshot(self, checkpoint_id: int) -> bytes:
        super().snapshot(checkpoint_id)
        return pickle.dumps((self.name, self.notified))

    def show(self, length: int) -> None:
        self.notified = length
        super().show(length)


class WrongLength(ValidPart):
    """Wrong: it resumes at the length of the last notification, not at that of the checkpoint."""

    make = RemembersTheNotified


class PicklesTooEarly(Resumes):
    def snapshot(self, checkpoint_id: int) -> bytes:
        self.lengths[checkpoint_id] = os.path.getsize(self.folder / f"data-{self.name}")
        state = pickle.dumps((self.name, self.lengths[checkpoint_id]))
        self.file.flush()
        return state


class PickledBeforeTheFlush(ValidPart):
    """Wrong: the length is taken while rows are still in the buffer."""

    make = PicklesTooEarly


class Appends:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, context: Context) -> None:
        self.file = self.folder / f"rows-{context.subtask}.jsonl"

    def write(self, batch: Batch) -> None:
        with self.file.open("a") as file:
            for row in batch:
                file.write(json.dumps({"split": row.split, "offset": row.offset}) + "\n")

    def snapshot(self, checkpoint_id: int) -> bytes:
        return b"nothing to remember"

    def notify_complete(self, checkpoint_id: int) -> None:
        return None


class PlainAppend:
    """Right, as it claims no more. Reading fails as long as no row was written."""

    claims: Any = "AT_LEAST_ONCE"

    def sink(self, scratch: Scratch) -> Any:
        return Appends(scratch.path)

    def committed(self, scratch: Scratch) -> list[tuple[int, int]]:
        files = list(scratch.path.iterdir())
        if not files:
            raise FileNotFoundError("no row was written yet")
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return [(row["split"], row["offset"]) for row in rows]


class PlainAppendThatClaimsTooMuch(PlainAppend):
    """Wrong: repeats after each crash, and rows that are seen early."""

    claims: Any = ("NO_LOSS", "NO_DUPLICATES")


class WritesInPieces:
    """Rows wait in the state; what the file already has is not written again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.pending = folder, [], {}  # type: ignore[var-annotated]

    def open(self, context: Context) -> None:
        for old, state in context.restored:
            self.file = self.folder / f"rows-{old}"
            self.add([row for _, rows in json.loads(state) for row in rows])
        self.file = self.folder / f"rows-{context.subtask}"

    def write(self, batch: Batch) -> None:
        self.rows += [[row.split, row.offset] for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [older for older in self.pending if older <= checkpoint_id]:
            self.add(self.pending.pop(older))

    def add(self, rows: list[list[int]]) -> None:
        there = whole_lines(self.file)
        with open(self.file, "ab", buffering=0) as file:
            for split, offset in rows:
                if [split, offset] not in there:
                    file.write(f"[{split}".encode())
                    file.write(f",{offset}]\n".encode())


def whole_lines(file: Path) -> list[list[int]]:
    """Leaves out what is torn."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


class TornLine:
    """Wrong: after half a line the next one is written, and neither can be read again."""

    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES | Claim.NO_EARLY_ROWS

    def sink(self, scratch: Scratch) -> WritesInPieces:
        return WritesInPieces(scratch.path)

    def committed(self, scratch: Scratch) -> list[list[int]]:
        return [row for file in scratch.path.iterdir() for row in whole_lines(file)]
