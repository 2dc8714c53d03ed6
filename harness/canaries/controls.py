"""Two correct sinks, written as a user would write them: plain files, without adapters or points of sinkproof.

Every canary differs from one of them by a few lines. A control that is convicted is a false alarm of the certifier.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from sinkproof.sink_adapters.protocol import Batch, Context
from sinkproof.subject.claims import Claim
from sinkproof.subject.scratch import FrozenFolder, Scratch, freeze_folder, thaw_folder


def inherited(context: Context) -> list[int]:
    """Its own number, and those of old subtasks with a state that it restores."""
    return sorted({context.subtask, *(old for old, _ in context.restored)})


class TwoPhaseFiles:
    """staging/<subtask>/<generation>/<checkpoint> becomes out/<subtask>-<generation>-<checkpoint> by one rename.

    A new attempt first renames the folders of older ones: from then on a zombie's paths do not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file: BinaryIO | None = None
        self.name = ""
        self.pending: dict[int, str] = {}
        self.next = 1  # the checkpoint that the rows now written belong to

    def open(self, context: Context) -> None:
        self.context = context
        self.next = context.checkpoint_id_covered + 1
        self.fence()
        for name in self.restored():
            self.commit(name)
        self.sweep()

    def restored(self) -> list[str]:
        return [name for _, state in self.context.restored for name in json.loads(state)]

    def home(self, generation: int) -> Path:
        return self.folder / "staging" / str(self.context.subtask) / str(generation)

    def fence(self) -> None:
        """After this, older attempts can change only folders that no reader reads."""
        os.makedirs(self.folder / "fenced", exist_ok=True)
        os.makedirs(self.folder / "out", exist_ok=True)
        for subtask in inherited(self.context):
            staging = self.folder / "staging" / str(subtask)
            os.makedirs(staging, exist_ok=True)
            older = [name for name in sorted(os.listdir(staging)) if int(name) < self.context.generation]
            for generation in older:
                os.rename(staging / generation, self.folder / "fenced" / f"{subtask}-{generation}")
        os.makedirs(self.home(self.context.generation))

    def sweep(self) -> None:
        for folder in sorted(os.listdir(self.folder / "fenced")):
            subtask, generation = folder.split("-")
            if int(subtask) in inherited(self.context) and int(generation) < self.context.generation:
                shutil.rmtree(self.folder / "fenced" / folder, ignore_errors=True)

    def write(self, batch: Batch) -> None:
        if self.file is None:
            self.name = f"{self.context.subtask}-{self.context.generation}-{self.next}"
            self.file = open(self.staged(self.name), "wb")  # noqa: SIM115
        for row in batch:
            self.file.write(f"{row.split} {row.offset}\n".encode())

    def staged(self, name: str) -> Path:
        _, generation, checkpoint = name.split("-")
        return self.home(int(generation)) / checkpoint

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self.file is not None:
            self.flush(self.file)
            self.file = None
            self.pending[checkpoint_id] = self.name
        self.next = checkpoint_id + 1
        return json.dumps(list(self.pending.values())).encode()

    def flush(self, file: BinaryIO) -> None:
        file.flush()
        os.fsync(file.fileno())
        file.close()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [older for older in self.pending if older <= checkpoint_id]:
            self.commit(self.pending[older])
            del self.pending[older]

    def commit(self, name: str) -> None:
        """Correct after any crash: the file is at its final place, or in staging, or in `fenced`."""
        final = self.folder / "out" / name
        if os.path.exists(final):
            return
        subtask, generation, checkpoint = name.split("-")
        fenced = self.folder / "fenced" / f"{subtask}-{generation}" / checkpoint
        os.rename(self.staged(name) if int(generation) == self.context.generation else fenced, final)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


class WriteAheadFiles:
    """Rows wait in the state; each checkpoint is published as one file under a name that is always the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.subtask = 0  # the owner of the rows that are published
        self.rows: list[Any] = []
        self.pending: dict[int, list[Any]] = {}

    def open(self, context: Context) -> None:
        self.context = context
        os.makedirs(self.folder / "out", exist_ok=True)
        for name in sorted(os.listdir(self.folder)):
            _, _, place = name.partition("temp-")
            subtask, _, rest = place.partition("-")
            if place and int(subtask) in inherited(context) and int(rest.split("-")[0]) < context.generation:
                os.remove(self.folder / name)
        for old, state in context.restored:
            self.subtask = old
            self.restore(json.loads(state))
        self.subtask = context.subtask

    def restore(self, state: list[Any]) -> None:
        for checkpoint_id, rows in state:
            self.publish(checkpoint_id, rows)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in sorted(older for older in self.pending if older <= checkpoint_id):
            self.publish(older, self.pending[older])
            del self.pending[older]

    def publish(self, checkpoint_id: int, rows: list[Any]) -> None:
        """The rename is both data and marker."""
        if rows and not os.path.exists(self.folder / "out" / self.key(checkpoint_id)):
            self.send(self.key(checkpoint_id), rows)

    def key(self, checkpoint_id: int) -> str:
        return f"{self.subtask}-{checkpoint_id}"

    def send(self, name: str, rows: list[Any]) -> None:
        temporary = self.folder / f"temp-{self.context.subtask}-{self.context.generation}-{name}"
        with open(temporary, "wb", buffering=0) as file:
            file.write("".join(map(self.line, rows)).encode())
            os.fsync(file.fileno())
        os.rename(temporary, self.folder / "out" / name)

    def line(self, row: Any) -> str:
        split, offset = row
        return f"{split} {offset}\n"


class FolderContract:
    """The contract of sinks that keep everything in one folder and show what is in `out`. As it is: the control."""

    claims = Claim.EXACTLY_ONCE | Claim.NO_RESIDUE
    make: Any = TwoPhaseFiles

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[tuple[int, int]]:
        out = scratch.path / "out"
        for name in sorted(os.listdir(out)) if out.is_dir() else ():
            for line in (out / name).read_bytes().splitlines():
                split, _, offset = line.partition(b" ")
                if offset:
                    yield int(split), int(offset)

    def residue(self, scratch: Scratch) -> list[str]:
        frozen = freeze_folder(scratch.path)
        return [name for name, contents in frozen.items() if contents is not None and not name.startswith("out/")]

    def freeze(self, scratch: Scratch) -> FrozenFolder:
        return freeze_folder(scratch.path)

    def thaw(self, scratch: Scratch, frozen: FrozenFolder) -> None:
        thaw_folder(scratch.path, frozen)


class WriteAheadControl(FolderContract):
    """Correct."""

    make = WriteAheadFiles
