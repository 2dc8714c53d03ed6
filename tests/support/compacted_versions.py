"""A table is a log of versions, of which each adds a part: the next number is free until a subtask has linked its file
to it. Every ten versions become one snapshot. Wrong: RemovesAtOnce; a subtask that has read nine finds ten free again.
Right: KeepsTheLast, as no other subtask can be so far behind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Claim, Scratch

EVERY: Final = 10


class Versions:
    def __init__(self, folder: Path, *, kept: int) -> None:
        self.folder, self.kept = folder, kept

    def read(self) -> tuple[int, dict[str, Any]]:
        """The newest version, and its parts."""
        while True:
            snapshots = sorted(self.folder.glob("snapshot-*"))
            version, parts = json.loads(snapshots[-1].read_text()) if snapshots else (0, {})
            for following in count(version + 1):
                try:
                    parts |= json.loads((self.folder / f"version-{following:09}").read_text())
                except FileNotFoundError:
                    break
                version = following
            if snapshots == sorted(self.folder.glob("snapshot-*")):
                return version, parts

    def add(self, part: str, rows: list[Any], *, staged: Path) -> None:
        staged.write_text(json.dumps({part: rows}))
        while True:
            version, parts = self.read()
            if part in parts:
                return
            try:
                os.link(staged, self.folder / f"version-{version + 1:09}")
            except FileExistsError:
                continue
            if (version + 1) % EVERY == 0:
                self.compact(version + 1, {**parts, part: rows}, staged=staged)
            return

    def compact(self, version: int, parts: dict[str, Any], *, staged: Path) -> None:
        staged.unlink()
        staged.write_text(json.dumps([version, parts]))
        os.rename(staged, self.folder / f"snapshot-{version:09}")
        for old in self.folder.glob("version-*"):
            if int(old.name.removeprefix("version-")) <= version - self.kept:
                old.unlink(missing_ok=True)


class AddsVersions(PartsOfCheckpoints):
    def __init__(self, folder: Path, *, kept: int) -> None:
        super().__init__()
        self.folder, self.versions = folder, Versions(folder, kept=kept)

    def publish(self, name: str, rows: list[Any]) -> None:
        staged = self.folder / f"new-{name}-{self.context.subtask}-{self.context.generation}"
        staged.unlink(missing_ok=True)
        self.versions.add(name, rows, staged=staged)


class KeepsTheLast:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    kept = EVERY

    def sink(self, scratch: Scratch) -> AddsVersions:
        return AddsVersions(scratch.path, kept=self.kept)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        _, parts = Versions(scratch.path, kept=self.kept).read()
        for rows in parts.values():
            yield from rows


class RemovesAtOnce(KeepsTheLast):
    kept = 0
