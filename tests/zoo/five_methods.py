"""Targets of five methods, around which a strategy is put. Right: TwoPhase, TwoPhaseCopied, WriteAhead."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sinkproof import Batch, Claim, Context, Scratch


class Renames:
    """A transaction is a file, recoverable by its name alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        os.makedirs(folder / "out", exist_ok=True)

    def begin(self, transaction: str) -> None:
        (self.folder / transaction).touch()

    def write(self, transaction: str, batch: Batch) -> None:
        with open(self.folder / transaction, "a") as file:
            for row in batch:
                print(row.split, row.offset, file=file)

    def pre_commit(self, transaction: str) -> str:
        descriptor = os.open(self.folder / transaction, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        return str(transaction)

    def commit(self, name: str) -> None:
        if not os.path.exists(self.folder / "out" / name):
            os.rename(self.folder / name, self.folder / "out" / name)

    def abort(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


class Out:
    claims: Any = Claim.EXACTLY_ONCE
    make: Any = Renames

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[tuple[int, ...]]:
        for file in (scratch.path / "out").iterdir():
            for line in file.read_text().splitlines():
                yield tuple(map(int, line.split()))


class TwoPhase(Out):
    """Right."""


class TwoPhaseCopied(Out):
    """Right. Transactions of dead attempts stay for ever: they cannot be listed, and each crash leaves one more."""

    def freeze(self, scratch: Scratch) -> Any:
        files = (path for path in sorted(scratch.path.rglob("*")) if path.is_file())
        return {str(path.relative_to(scratch.path)): path.read_bytes() for path in files}

    def thaw(self, scratch: Scratch, frozen: Any) -> None:
        for path in [path for path in scratch.path.rglob("*") if path.is_file()]:
            path.unlink()
        for name, content in frozen.items():
            (scratch.path / name).parent.mkdir(parents=True, exist_ok=True)
            (scratch.path / name).write_bytes(content)


class Shrugs(Renames):
    def commit(self, name: str) -> None:
        try:
            super().commit(name)
        except OSError:
            return


class CommitErrorsSwallowed(Out):
    """Wrong: what could not be committed is taken for committed."""

    make = Shrugs


class Sends:
    """Files that are replaced as a whole, and a marker for each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self) -> None:
        for name in ("out", "markers"):
            os.makedirs(self.folder / name, exist_ok=True)

    def send_values(self, rows: Any, checkpoint_id: int, subtask: int) -> bool:
        temporary = self.folder / f"{subtask}-{checkpoint_id}-{os.getpid()}"
        temporary.write_text("".join(f"{row.split} {row.offset}\n" for row in rows))
        os.replace(temporary, self.folder / "out" / f"{subtask}-{checkpoint_id}")
        return True

    def is_committed(self, subtask: int, checkpoint_id: int) -> bool:
        return (self.folder / "markers" / f"{subtask}-{checkpoint_id}").exists()

    def record(self, subtask: int, checkpoint_id: int) -> None:
        (self.folder / "markers" / f"{subtask}-{checkpoint_id}").touch()

    def close(self) -> None:
        pass


class WriteAhead(Out):
    """Right: sending twice is the same as sending once."""

    make = Sends


class SendsMore(Sends):
    def send_values(self, rows: Any, checkpoint_id: int, subtask: int) -> bool:
        with open(self.folder / "out" / str(subtask), "a") as file:
            file.write("".join(f"{row.split} {row.offset}\n" for row in rows))
        return True


class WriteAheadAppends(Out):
    """Wrong: a crash between sending and recording sends again, to a target that appends."""

    make = SendsMore


class Remembered:
    """A file of each subtask, read by its successor and replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def attach(self, context: Context) -> None:
        self.file = self.folder / f"table-{context.subtask}"
        self.temporary = self.folder / f"temporary-{context.subtask}-{context.generation}"
        self.table = json.loads(self.file.read_text()) if self.file.exists() else {}

    def upsert(self, entries: Any) -> None:
        self.table.update((key, [row.split, row.offset]) for key, row in entries)

    def flush(self) -> None:
        self.temporary.write_text(json.dumps(self.table))
        os.replace(self.temporary, self.file)


class StaleTable:
    """Wrong: a zombie replaces the file by its older rows; near the end of input they are not written again."""

    claims = Claim.EFFECTIVELY_ONCE

    def sink(self, scratch: Scratch) -> Any:
        return Remembered(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted(scratch.path.glob("table-*")):
            yield from json.loads(file.read_text()).values()
