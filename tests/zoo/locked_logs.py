"""One log for all subtasks, and a head that says how much of it counts; both under a lock. Right: Locked."""

from __future__ import annotations

import fcntl
import json
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sinkproof import Batch, Claim, Context, Scratch


class SharedLog:
    """The head is replaced in one step: its length, and which parts are in."""

    patience_ms = 5000

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[tuple[int, int]] = []
        self.pending: list[tuple[int, list[tuple[int, int]]]] = []

    def open(self, context: Context) -> None:
        self.context = context
        for subtask, state in context.restored:
            for checkpoint_id, rows in json.loads(state):
                self.append(f"{subtask}-{checkpoint_id}", rows)

    @contextmanager
    def locked(self) -> Iterator[None]:
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            for _ in range(self.patience_ms // 10):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    select.select([], [], [], 0.01)
            else:
                raise BlockingIOError("the lock is held")
            yield
        finally:
            os.close(descriptor)

    def head(self) -> dict[str, Any]:
        path = self.folder / "head"
        return dict(json.loads(path.read_text())) if path.exists() else {"length": 0, "parts": []}

    def append(self, part: str, rows: Any) -> None:
        with self.locked():
            self.append_to(self.head(), part, rows)

    def append_to(self, head: dict[str, Any], part: str, rows: Any) -> None:
        if part in head["parts"]:
            return
        with open(self.folder / "log", "ab") as log:
            log.truncate(head["length"])
            log.write("".join(f"{split} {offset}\n" for split, offset in rows).encode())
        head = {"length": os.path.getsize(self.folder / "log"), "parts": [*head["parts"], part]}
        temporary = self.folder / f"head-{self.context.subtask}-{self.context.generation}"
        temporary.write_text(json.dumps(head))
        os.replace(temporary, self.folder / "head")

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending.append((checkpoint_id, self.rows))
        self.rows = []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        while self.pending and self.pending[0][0] <= checkpoint_id:
            self.append(f"{self.context.subtask}-{self.pending[0][0]}", self.pending[0][1])
            del self.pending[0]


class Locked:
    """Right."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = SharedLog

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[tuple[int, ...]]:
        if (scratch.path / "head").exists():
            length = json.loads((scratch.path / "head").read_text())["length"]
            for line in (scratch.path / "log").read_bytes()[:length].decode().splitlines():
                yield tuple(map(int, line.split()))


class ChecksFirst(SharedLog):
    def append(self, part: str, rows: Any) -> None:
        head = self.head()
        with self.locked():
            self.append_to(head, part, rows)


class HeadBeforeTheLock(Locked):
    """Wrong: what another subtask has written meanwhile is cut off again."""

    make = ChecksFirst


class Impatient(SharedLog):
    patience_ms = 100

    def notify_complete(self, checkpoint_id: int) -> None:
        while self.pending and self.pending[0][0] <= checkpoint_id:
            older, rows = self.pending.pop(0)
            try:
                self.append(f"{self.context.subtask}-{older}", rows)
            except BlockingIOError:
                continue


class GivesUpTheLock(Locked):
    """Wrong: a subtask that does not get the lock in time forgets the rows that it was about to commit."""

    make = Impatient


class Unlocked(SharedLog):
    """A log of its own for each subtask."""

    def append(self, part: str, rows: Any) -> None:
        log = self.folder / f"log-{part.split('-')[0]}"
        entries = log.read_text().splitlines() if log.exists() else []
        if part in [json.loads(entry)["part"] for entry in entries]:
            return
        with open(log, "a") as file:
            file.write(json.dumps({"part": part, "rows": rows}) + "\n")


class LooksAndThenAppends(Locked):
    """Wrong: a zombie has checked the log before its successor appended the same rows."""

    make = Unlocked

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for log in sorted(scratch.path.glob("log-*")):
            for entry in log.read_text().splitlines():
                yield from json.loads(entry)["rows"]
