"""Sinks with one sin each, and their controls, that are certified as the code of users is.

`laid_out` copies this file to where users keep theirs, `laid_out_in` says where, and the contract is loaded from
there: so it is held against every rule that our own code is spared.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from sinkproof.sink_adapters.protocol import Batch, Context
from sinkproof.subject.claims import Claim
from sinkproof.subject.scratch import Scratch

INSTALLED = "lib/site-packages"
BESIDE_THE_USER = "project"


class TwoLogs:
    """Appends the rows of a checkpoint to one log, then the checkpoint to another one. Both are open all the time, so
    that nothing but lines lies between the two.
    """

    data: IO[str]
    done: IO[str]

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.pending = folder, [], {}  # type: ignore[var-annotated]

    def open(self, context: Context) -> None:
        self.context = context
        self.folder.mkdir(parents=True, exist_ok=True)
        done = {name for file in self.folder.glob("*.done") for name in file.read_text().splitlines()}
        me = f"{context.subtask}-{context.generation}"
        self.data, self.done = ((self.folder / f"{me}.{kind}").open("a") for kind in ("data", "done"))
        for subtask, state in context.restored:
            for checkpoint_id, rows in json.loads(state):
                if f"{subtask}-{checkpoint_id}" not in done:
                    self.publish(f"{subtask}-{checkpoint_id}", rows)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(f"{self.context.subtask}-{older}", self.pending.pop(older))

    def publish(self, name: str, rows: Any) -> None:
        self.append(self.data, json.dumps([name, rows]))
        self.append(self.done, name)

    def append(self, log: IO[str], text: str) -> None:
        log.write(f"{text}\n")
        log.flush()


class TwoLogsControl:
    """Correct: a reader takes the rows of each name once."""

    laid_out_in = INSTALLED
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    make: Any = TwoLogs

    def folder(self, scratch: Scratch) -> Path:
        return scratch.path

    def sink(self, scratch: Scratch) -> Any:
        return self.make(self.folder(scratch))

    def committed(self, scratch: Scratch) -> Iterator[tuple[int, int]]:
        logs = sorted(self.folder(scratch).glob("*.data"))
        for rows in dict(json.loads(line) for log in logs for line in log.read_text().splitlines()).values():
            yield from rows


class NotesFirst(TwoLogs):
    def publish(self, name: str, rows: Any) -> None:
        self.append(self.done, name)
        self.append(self.data, json.dumps([name, rows]))


class InstalledAndNotesFirst(TwoLogsControl):
    """R1: a package in site-packages that notes a checkpoint as done, and then writes its rows."""

    make = NotesFirst


class ElsewhereControl(TwoLogsControl):
    """Correct: what lies outside of the scratch folder is removed between two runs."""

    laid_out_in = BESIDE_THE_USER

    def folder(self, scratch: Scratch) -> Path:
        return scratch.path.with_name(f"{scratch.path.name}-elsewhere")

    def teardown(self, scratch: Scratch) -> None:
        shutil.rmtree(self.folder(scratch), ignore_errors=True)


class ForgetsWithoutRows(TwoLogs):
    def snapshot(self, checkpoint_id: int) -> bytes:
        if not self.rows:
            self.pending.clear()
        return super().snapshot(checkpoint_id)


class LosesWhatAnEarlierRunLeft(ElsewhereControl):
    """R14: forgets what is pending at a checkpoint without rows. Rows of an earlier run would hide that."""

    make = ForgetsWithoutRows


class Spills(TwoLogs):
    def write(self, batch: Batch) -> None:
        super().write(batch)
        if len(self.rows) > 15_000:
            self.spill()

    def spill(self) -> None:
        self.spilled = self.rows


class SpillingControl(TwoLogsControl):
    """Correct: 15,000 rows in a checkpoint lead to a line of its own."""

    laid_out_in = BESIDE_THE_USER
    make = Spills


class LosesInSpills(Spills):
    def spill(self) -> None:
        self.rows = self.rows[1:]


class LosesBehindManyRows(SpillingControl):
    """R3: loses a row in a branch that only 15,000 rows in a checkpoint lead to."""

    make = LosesInSpills
