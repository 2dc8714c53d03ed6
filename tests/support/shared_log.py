"""Sinks of which all subtasks append to one log. Right: BegunAnew, AppendedBehindLines. Wrong: BegunAnywhere,
AppendedBehindAnything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Claim
from sinkproof.subject.scratch import Scratch


class AppendsToLog(PartsOfCheckpoints):
    """A line for each part, in one write; a line that is not whole is left out by readers, and so is a repeated one."""

    def __init__(self, log: Path, start: str) -> None:
        super().__init__()
        self.log, self.start = log, start

    def publish(self, name: str, rows: list[Any]) -> None:
        line = f"{self.start}{json.dumps([name, rows])}\n".encode()
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            if os.write(log, line) < len(line):
                raise OSError("no room")
        finally:
            os.close(log)


class BegunAnew:
    """Right: what a line begins with ends a torn one."""

    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False
    start = "\n"

    def sink(self, scratch: Scratch) -> AppendsToLog:
        return AppendsToLog(scratch.path / "log", self.start)

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        log = scratch.path / "log"
        parts: dict[str, list[list[int]]] = {}
        for line in log.read_text().splitlines() if log.exists() else []:
            with suppress(ValueError):
                name, rows = json.loads(line)
                parts[name] = rows
        for rows in parts.values():
            yield from rows


class BegunAnywhere(BegunAnew):
    """Wrong: a torn line takes the next one with it, if no other subtask has written in between."""

    start = ""


class AppendsAtOnce:
    """Each batch; repeats are allowed. `start`: of what is written."""

    def __init__(self, log: Path, start: str) -> None:
        self.log, self.start = log, start

    def append(self, batch: Any) -> None:
        lines = [json.dumps([row.split, row.offset]) for row in batch]
        with self.log.open("a") as log:
            log.write("".join(f"{self.start}{line}\n" for line in lines))
            log.flush()
            os.fsync(log.fileno())


class AppendedBehindLines(BegunAnew):
    """Right: an empty line harms nothing."""

    claims = Claim.AT_LEAST_ONCE

    def sink(self, scratch: Scratch) -> Any:
        return AppendsAtOnce(scratch.path / "log", self.start)

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        for line in (scratch.path / "log").read_text().splitlines():
            with suppress(ValueError):
                yield json.loads(line)


class AppendedBehindAnything(AppendedBehindLines):
    """Wrong: what is written behind a torn line is not a line of its own."""

    start = ""
