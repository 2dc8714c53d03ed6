"""Data files of random names, and a list of those that count. Right: Manifest."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import uuid
from pathlib import Path
from typing import Any

from sinkproof import Batch, Claim, Context, Scratch


class Lists:
    """The list is replaced in one step. Each generation has its own, and readers take the newest. A subtask that
    takes over from another one writes an empty list of its own generation for it, unless that one has its own again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[tuple[int, int]] = []
        self.files: list[tuple[int, str]] = []  # (checkpoint, name), all that there ever were

    def open(self, context: Context) -> None:
        self.context = context
        self.notified = context.checkpoint_id_covered
        for _, state in context.restored:
            self.files += [(checkpoint, name) for checkpoint, name in json.loads(state)]
        self.publish(context.checkpoint_id_covered)
        for old, _ in context.restored:
            if old != context.subtask:
                self.take_over(old)

    def write(self, batch: Batch) -> None:
        self.rows.extend((row.split, row.offset) for row in batch.rows)

    def snapshot(self, checkpoint_id: int) -> bytes:
        name = f"{uuid.uuid4()}.json"
        with open(self.folder / name, "w") as file:
            json.dump(self.rows, file)
        self.files.append((checkpoint_id, name))
        self.rows = []
        return json.dumps(self.files).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        self.notified = self.newest(checkpoint_id)
        self.publish(self.notified)

    def newest(self, checkpoint_id: int) -> int:
        return max(self.notified, checkpoint_id)

    def publish(self, checkpoint_id: int) -> None:
        names = [name for checkpoint, name in self.files if checkpoint <= checkpoint_id]
        with tempfile.NamedTemporaryFile("w", dir=self.folder, delete=False) as file:
            json.dump(names, file)
        os.replace(file.name, self.folder / self.manifest(self.context.subtask))

    def take_over(self, old: int) -> None:
        with tempfile.NamedTemporaryFile("w", dir=self.folder) as file:
            file.write("[]")
            file.flush()
            with contextlib.suppress(FileExistsError):
                os.link(file.name, self.folder / self.manifest(old))

    def manifest(self, subtask: int) -> str:
        return f"manifest-{subtask}-{self.context.generation:09d}"


class Listed:
    """What the newest list of each subtask names."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = Lists

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> set[tuple[int, int]] | list[tuple[int, int]]:
        newest = {path.name.split("-")[1]: path for path in sorted(scratch.path.glob("manifest-*"))}
        files = [scratch.path / name for path in newest.values() for name in json.loads(path.read_text())]
        return [(split, offset) for file in files for split, offset in json.loads(file.read_text())]


class Manifest(Listed):
    """Right."""


class DeletesTheirs(Lists):
    def take_over(self, old: int) -> None:
        for theirs in self.folder.glob(f"manifest-{old}*"):
            theirs.unlink()


class ComesBackUnfenced(Listed):
    """Wrong: with fewer subtasks than before, removed ones are not fenced; a zombie that resumes lists its files."""

    make = DeletesTheirs


class TrustsTheLast(Lists):
    def newest(self, checkpoint_id: int) -> int:
        return checkpoint_id


class OlderNotifiedLast(Listed):
    """Wrong: notifications come in any order; one that was overtaken brings back the list of its own time."""

    make = TrustsTheLast


class SharesTheManifest(DeletesTheirs):
    def manifest(self, subtask: int) -> str:
        return f"manifest-{subtask}"


class ZombieOverwrites(Listed):
    """Wrong: an attempt that was thought dead replaces the list by its own, older one."""

    make = SharesTheManifest


class NamesAnew:
    """Rows wait in the state, and go into a file of a new name each time that they are published."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[tuple[int, int]] = []
        self.pending: dict[int, list[tuple[int, int]]] = {}

    def open(self, context: Context) -> None:
        for _, state in context.restored:
            for rows in json.loads(state).values():
                self.publish(rows)

    def write(self, batch: Batch) -> None:
        self.rows.extend((row.split, row.offset) for row in batch.rows)

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [older for older in self.pending if older <= checkpoint_id]:
            self.publish(self.pending.pop(older))

    def publish(self, rows: list[tuple[int, int]]) -> None:
        temporary = self.folder / f"temporary-{uuid.uuid4()}"
        temporary.write_text(json.dumps(rows))
        temporary.rename(self.folder / f"data-{uuid.uuid4()}")


class NewNameOnRecovery:
    """Wrong: what recovery publishes again has another name, and is read twice."""

    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch: Scratch) -> NamesAnew:
        return NamesAnew(scratch.path)

    def committed(self, scratch: Scratch) -> list[Any]:
        return [row for file in scratch.path.glob("data-*") for row in json.loads(file.read_text())]
