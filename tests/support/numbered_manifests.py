"""Sinks that list a folder. Right: FoundByNumber. Wrong, but not where the newest entry comes first: FoundFirst."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Claim
from sinkproof.subject.scratch import Scratch

KEPT = 3


class NumbersManifests(PartsOfCheckpoints):
    """Each subtask has a folder of manifests, each with all rows so far, of which a few are kept."""

    def __init__(self, folder: Path, *, sorts: bool) -> None:
        super().__init__()
        self.folder, self.sorts = folder, sorts

    def publish(self, name: str, rows: list[Any]) -> None:
        subtask, checkpoint = map(int, name.split("-"))
        manifests = self.folder / f"{subtask}.manifests"
        manifests.mkdir(exist_ok=True)
        numbers = newest_first(manifests) if self.sorts else list(map(int, os.listdir(manifests)))
        if checkpoint <= max(numbers, default=0):
            return
        before = json.loads((manifests / f"{max(numbers)}").read_text()) if numbers else []
        staged = self.folder / f"{name}.new"
        staged.write_text(json.dumps(before + rows))
        os.rename(staged, manifests / f"{checkpoint}")
        for old in (newest_first(manifests) if self.sorts else os.listdir(manifests))[KEPT:]:
            os.unlink(manifests / f"{old}")


def newest_first(manifests: Path) -> list[int]:
    return sorted(map(int, os.listdir(manifests)), reverse=True)


class FoundByNumber:
    """Right."""

    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False
    sorts = True

    def sink(self, scratch: Scratch) -> NumbersManifests:
        return NumbersManifests(scratch.path, sorts=self.sorts)

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        for manifests in sorted(scratch.path.glob("*.manifests")):
            if numbers := newest_first(manifests):
                yield from json.loads((manifests / f"{numbers[0]}").read_text())


class FoundFirst(FoundByNumber):
    """Wrong: on most file systems the newest entry is anywhere."""

    sorts = False
