"""Sinks that append each checkpoint to one log of all subtasks, in pieces or at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from native_commits import Rows, RowsInState

from sinkproof import Claim, Scratch


class InPieces(RowsInState):
    """One log of all subtasks, to which one buffered file appends a part: as many pieces as the buffer needs."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        with self.file.open("ab") as log:
            for text in self.texts(marker, rows):
                log.write(text.encode())

    def texts(self, marker: tuple[int, int], rows: Rows) -> list[str]:
        return [f"\n{marker[0]}-{marker[1]} ", json.dumps(rows), " whole\n"]


class SharedLog:
    """Wrong: another subtask may append between two pieces. Readers leave out lines that are not whole."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = InPieces

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path / "log")

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        lines = (scratch.path / "log").read_text().splitlines()
        parts = dict(line.removesuffix(" whole").split(" ", 1) for line in lines if line.endswith(" whole"))
        for rows in parts.values():
            yield from json.loads(rows)


class InOnePiece(InPieces):
    def texts(self, marker: tuple[int, int], rows: Rows) -> list[str]:
        return ["".join(super().texts(marker, rows))]


class SharedLogInOnePiece(SharedLog):
    """Right: what is larger than the buffer goes past it."""

    make = InOnePiece
