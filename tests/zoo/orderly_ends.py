"""Sinks that tidy up when their process ends, or that expect a commit to fail. Right: RemovesWhatIsTemporary,
FailedCommitsAgain.
"""

from __future__ import annotations

import atexit
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import finalize

from renamed_files import Links, OutFolder
from sqlite_tables import OneTable, Rows, RowsInState

from sinkproof import Context

ATTEMPTS = 3


class Tidies(Links):
    """A folder of temporary files, which it removes in the end; what is staged is elsewhere."""

    def open(self, context: Context) -> None:
        self.temporary = self.staged.parent / f"temporary-{context.subtask}-{context.generation}"
        self.temporary.mkdir(exist_ok=True)
        atexit.register(shutil.rmtree, self.temporary, ignore_errors=True)
        super().open(context)


class RemovesWhatIsTemporary(OutFolder):
    """Right."""

    make: Any = Tidies


class TidiesTooMuch(Links):
    def open(self, context: Context) -> None:
        atexit.register(self.remove_staged)
        super().open(context)

    def remove_staged(self) -> None:
        for name in self.pending.values():
            (self.staged / name).unlink(missing_ok=True)


class RemovesWhatItPromised(OutFolder):
    """Wrong: a process that ends in an orderly way removes what it has staged, promised or not."""

    make = TidiesTooMuch


class StagesWithItself(Links):
    def open(self, context: Context) -> None:
        super().open(context)
        finalize(self, remove_all, self.staged, f"{context.subtask}-{context.generation}-")


def remove_all(folder: Path, prefix: str) -> None:
    for file in folder.glob(f"{prefix}*"):
        file.unlink(missing_ok=True)


class RemovedWithItsObject(OutFolder):
    """Wrong: what is staged goes with an object, and so at the end of the process at the latest."""

    make = StagesWithItself


class Shrugs(RowsInState):
    def insert(self, marker: tuple[int, int], rows: Rows) -> None:
        with suppress(sqlite3.OperationalError):
            super().insert(marker, rows)


class FailedCommitsForgotten(OneTable):
    """Wrong: a transaction that fails is taken for committed."""

    make = Shrugs


class Insists(RowsInState):
    def insert(self, marker: tuple[int, int], rows: Rows) -> None:
        for attempt in range(ATTEMPTS):
            try:
                super().insert(marker, rows)
                return
            except sqlite3.OperationalError:
                if attempt == ATTEMPTS - 1:
                    raise


class FailedCommitsAgain(OneTable):
    """Right: a transaction that fails is tried again, and its failure is raised in the end."""

    make = Insists
