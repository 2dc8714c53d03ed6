"""Sinks that stage a part with each snapshot, publish it by a rename, and remove staged files that are older than six
hours when they open. Wrong: SweepsAll, which removes what other subtasks have yet to publish, and says so afterwards.
Right: SweepsOwn.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sinkproof import Claim, Scratch, TransactionLost

HOURS_MOST = 6


class StagedParts:
    def __init__(self, folder: Path, sweeps_all: bool) -> None:
        self.folder, self.sweeps_all = folder, sweeps_all
        self.rows: list[Any] = []
        self.pending: dict[int, str] = {}

    def open(self, context: Any) -> None:
        self.owner = f"{context.subtask}.{context.generation}"
        for _, state in context.restored:
            for name in json.loads(state):
                self.publish(name)
        own = "*" if self.sweeps_all else f"{context.subtask}.*"
        for path in self.folder.glob(f"{own}.staged"):
            if path.exists() and time.mktime(time.localtime()) - path.stat().st_mtime > HOURS_MOST * 3600:
                path.unlink(missing_ok=True)

    def write(self, batch: Any) -> None:
        self.rows += [[row.split, row.offset] for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id] = name = f"{self.owner}.{checkpoint_id}"
        (self.folder / f"{name}.staged").write_text(json.dumps(self.rows))
        self.rows = []
        return json.dumps(list(self.pending.values())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [number for number in self.pending if number <= checkpoint_id]:
            self.publish(self.pending.pop(older))

    def publish(self, name: str) -> None:
        try:
            os.rename(self.folder / f"{name}.staged", self.folder / f"{name}.json")
        except FileNotFoundError:
            if not (self.folder / f"{name}.json").exists():
                raise TransactionLost(name) from None


class SweepsAll:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False
    sweeps_all = True

    def sink(self, scratch: Scratch) -> StagedParts:
        return StagedParts(scratch.path, self.sweeps_all)

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())


class SweepsOwn(SweepsAll):
    sweeps_all = False


class Expiring(SweepsAll):
    """The same, of which the contract says that its target has a limit."""

    expires_after = 3600.0
