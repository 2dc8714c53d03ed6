"""Each attempt appends to a log of its own; the first subtask joins those of attempts that are gone. A torn line ends
what is read of a log. Right: JoinedLines. Wrong: JoinedBytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Claim, Context, Scratch


def whole_lines(log: Path) -> list[str]:
    """Up to the first one that is torn."""
    lines = []
    for line in log.read_text().splitlines(keepends=True):
        try:
            json.loads(line)
        except ValueError:
            break
        lines.append(line)
    return lines


class JoinsLogs(PartsOfCheckpoints):
    def __init__(self, folder: Path, *, bytewise: bool) -> None:
        super().__init__()
        self.folder, self.bytewise = folder, bytewise

    def open(self, context: Context) -> None:
        self.log = self.folder / f"{context.generation}-{context.subtask}.log"
        super().open(context)
        older = [log for log in sorted(self.folder.glob("*.log")) if int(log.name.split("-")[0]) < context.generation]
        if context.subtask == 0 and older:
            joined = self.folder / "joined"
            joined.write_text("".join(log.read_text() if self.bytewise else "".join(whole_lines(log)) for log in older))
            joined.rename(self.folder / f"{context.generation - 1}-joined.log")
            for log in older:
                if "joined" not in log.name:
                    log.unlink()

    def publish(self, name: str, rows: list[Any]) -> None:
        with self.log.open("a") as log:
            log.write(f"{json.dumps([name, rows])}\n")


class JoinedLines:
    """Right: what is behind a torn line stays in the log that it is in."""

    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False
    bytewise = False

    def sink(self, scratch: Scratch) -> JoinsLogs:
        return JoinsLogs(scratch.path, bytewise=self.bytewise)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        parts: dict[str, list[Any]] = {}
        for log in sorted(scratch.path.glob("*.log")):
            with suppress(FileNotFoundError):
                parts |= dict(map(json.loads, whole_lines(log)))
        for rows in parts.values():
            yield from rows


class JoinedBytes(JoinedLines):
    """Wrong: all logs behind one with a torn line are lost, unless what they hold is still in the state."""

    bytewise = True
