"""A sink that publishes each checkpoint by one rename, and its contract."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sinkproof import Claim
from sinkproof.subject.scratch import freeze_folder, thaw_folder


class OrdersSink:
    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.pending = folder, [], {}

    def open(self, context: Any) -> None:
        self.context = context
        os.makedirs(self.folder / "out", exist_ok=True)
        for subtask, state in context.restored:
            for checkpoint_id, rows in json.loads(state):
                self.publish(f"{subtask}-{checkpoint_id}", rows)

    def write(self, batch: Any) -> None:
        self.rows += [(row.split, row.offset, row.key, row.value) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [older for older in self.pending if older <= checkpoint_id]:
            self.publish(f"{self.context.subtask}-{older}", self.pending.pop(older))

    def publish(self, name: str, rows: Any) -> None:
        temporary = self.folder / f"temp-{self.context.subtask}-{self.context.generation}"
        temporary.write_text(json.dumps(rows))
        os.replace(temporary, self.folder / "out" / f"{name}.json")


class OrdersContract:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch: Any) -> OrdersSink:
        return OrdersSink(scratch.path)

    def committed(self, scratch: Any) -> Iterator[Any]:
        for file in sorted((scratch.path / "out").glob("*.json")):
            yield from json.loads(file.read_text())

    def freeze(self, scratch: Any) -> Any:
        return freeze_folder(scratch.path)

    def thaw(self, scratch: Any, copy: Any) -> None:
        thaw_folder(scratch.path, copy)
