"""Sinks that hold a lock as long as they live, and lose it with what an error ends, as with a connection to a database.
Wrong: GoesOnWithout. Right: LocksAgain.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from native_commits import Rows, RowsInState

from sinkproof import Claim, Context, Scratch


class OneAttempt(RowsInState):
    """Appends to the log of its subtask what is not there; nothing but the lock keeps another attempt from that."""

    locks_again = False

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def open(self, context: Context) -> None:
        self.lock = self.locked(context.subtask)
        super().open(context)

    def locked(self, subtask: int) -> IO[str]:
        lock = (self.folder / f"lock-{subtask}").open("a")
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        try:
            self.append(marker, rows)
        except OSError:
            self.lock.close()
            if self.locks_again:
                self.lock = self.locked(self.subtask)
            self.append(marker, rows)

    def append(self, marker: tuple[int, int], rows: Rows) -> None:
        log = self.folder / f"log-{marker[0]}"
        parts = [json.loads(line)[0] for line in log.read_text().splitlines()] if log.exists() else []
        if [*marker] not in parts:
            line = f"{json.dumps([marker, rows])}\n"
            descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, line.encode())
            os.close(descriptor)


class OneAttemptAgain(OneAttempt):
    locks_again = True


class GoesOnWithout:
    claims = Claim.EXACTLY_ONCE
    rescales = False
    made: Any = OneAttempt

    def sink(self, scratch: Scratch) -> OneAttempt:
        return self.made(scratch.path)  # type: ignore[no-any-return]

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        for log in scratch.path.glob("log-*"):
            for line in log.read_text().splitlines():
                yield from json.loads(line)[1]


class LocksAgain(GoesOnWithout):
    made = OneAttemptAgain
