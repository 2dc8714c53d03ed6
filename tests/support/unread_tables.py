"""A table in one file for each subtask, which is read, and replaced with one more checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from native_commits import Rows, RowsInState

from sinkproof import Claim, Scratch


class TableFile(RowsInState):
    taken_for_absence: ClassVar[type[OSError]] = FileNotFoundError

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def publish(self, marker: tuple[int, int], rows: Rows) -> None:
        table = self.folder / f"table-{marker[0]}"
        try:
            checkpoints = json.loads(table.read_text())
        except self.taken_for_absence:
            checkpoints = {}
        temporary = self.folder / f"temporary-{os.getpid()}"
        temporary.write_text(json.dumps({**checkpoints, marker[1]: rows}))
        temporary.rename(table)


class AnyErrorTakenForAbsence(TableFile):
    taken_for_absence = OSError


class Read:
    """Right."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = TableFile

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for table in sorted(scratch.path.glob("table-*")):
            for rows in json.loads(table.read_text()).values():
                yield from rows


class Unread(Read):
    """Wrong: a table that cannot be read for once is taken for one that is not there, and replaced."""

    make = AnyErrorTakenForAbsence
