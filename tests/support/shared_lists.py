"""Sinks with one numbered list of files for all subtasks: each publication makes its next version."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from sinkproof.sink_adapters.protocol import Batch, Context
from sinkproof.subject.claims import Claim
from sinkproof.subject.scratch import FrozenFolder, Scratch, freeze_folder, thaw_folder

Rows = list[tuple[int, int]]


class ListedFiles:
    """`os.link` refuses a version that exists: the slower subtask reads the list again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, context: Context) -> None:
        self.me = f"{context.subtask}-{context.generation}"
        self.rows: Rows = []
        self.pending: dict[str, tuple[int, Rows]] = {}
        for _, state in context.restored:
            for name, (_, rows) in json.loads(state).items():
                self.publish(name, rows)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[f"{self.me}-{checkpoint_id}"] = checkpoint_id, self.rows
        self.rows = []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for name in [name for name, (covered, _) in self.pending.items() if covered <= checkpoint_id]:
            self.publish(name, self.pending.pop(name)[1])

    def publish(self, name: str, rows: Rows) -> None:
        while True:
            version, listed = latest(self.folder)
            if name in listed:
                return
            temporary = self.folder / f"temp-{self.me}"
            temporary.write_text(json.dumps({**listed, name: rows}))
            if self.put(temporary, self.folder / f"v{version + 1}"):
                return

    def put(self, temporary: Path, final: Path) -> bool:
        try:
            os.link(temporary, final)
        except FileExistsError:
            return False
        return True


class ListedFilesOverwritten(ListedFiles):
    """A rename replaces a version that exists: what another subtask has listed since is lost."""

    def put(self, temporary: Path, final: Path) -> bool:
        os.rename(temporary, final)
        return True


def latest(folder: Path) -> tuple[int, dict[str, Rows]]:
    versions = [int(name[1:]) for name in os.listdir(folder) if name.startswith("v")]
    return (max(versions), json.loads((folder / f"v{max(versions)}").read_text())) if versions else (0, {})


class Right:
    claims = Claim.EXACTLY_ONCE
    make: type[ListedFiles] = ListedFiles

    def sink(self, scratch: Scratch) -> ListedFiles:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[tuple[int, int]]:
        for rows in latest(scratch.path)[1].values():
            yield from map(tuple, rows)  # type: ignore[arg-type]

    def freeze(self, scratch: Scratch) -> FrozenFolder:
        return freeze_folder(scratch.path)

    def thaw(self, scratch: Scratch, frozen: FrozenFolder) -> None:
        thaw_folder(scratch.path, frozen)


class Overwriting(Right):
    make = ListedFilesOverwritten
