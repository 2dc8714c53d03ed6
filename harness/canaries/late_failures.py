"""Sinks that fail rarely: at the third crash, at the tenth checkpoint, or in one order of subtasks.

None of them counts crashes, checkpoints or subtasks: each fails through the state that it leaves behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from sinkproof.canaries.controls import FolderContract, TwoPhaseFiles
from sinkproof.canaries.controls_on_database import DatabaseContract, DatabaseSink, Transactions
from sinkproof.sink_adapters.protocol import Context
from sinkproof.subject.claims import Claim
from sinkproof.subject.scratch import Scratch


class ThreePlaces(DatabaseContract):
    """R15: an attempt keeps its transactions in the first of three places that is free; a crash gives none back.

    When none is free, the last is emptied and used again, with its uncommitted transactions.
    """

    class make(Transactions):  # noqa: N801
        def open(self, context: Context) -> None:
            DatabaseSink.open(self, context)
            me = (self.me, context.generation)
            self.request("fence", self.mine, context.generation)
            self.place = self.request("take", me, "abc")
            self.request("abort_all", me, f"{self.me}-{self.place}-")
            super().open(context)

        def name(self, checkpoint_id: int) -> str:
            return f"{self.me}-{self.place}-{checkpoint_id}"


class TenComesBeforeNine(DatabaseContract):
    """R12: compares checkpoint ids as text, so that 10 is complete when 9 is."""

    class make(Transactions):  # noqa: N801
        def settle(self, now: float) -> list[int]:
            for older in [older for older in self.pending if str(older) <= str(self.covered)]:
                if not self.commit(self.pending[older]):
                    return [doubtful for doubtful in self.pending if doubtful <= self.covered]
                del self.pending[older]
            return []


class LastSubtaskListsFiles(FolderContract):
    """R13: the last subtask lists the committed files of all subtasks, and readers use that list.

    Files that another subtask commits after the last listing stay invisible.
    """

    claims = Claim.EXACTLY_ONCE
    residue: Any = None  # no file is ever removed, and no claim says so

    class make(TwoPhaseFiles):  # noqa: N801
        def open(self, context: Context) -> None:
            super().open(context)
            self.list_files()

        def notify_complete(self, checkpoint_id: int) -> None:
            super().notify_complete(checkpoint_id)
            self.list_files()

        def list_files(self) -> None:
            """Atomically, so that readers never see half of it; each generation has its own list, so that a zombie
            does not replace a newer one.
            """
            if self.context.subtask == self.context.parallelism - 1:
                temporary = self.folder / f"unfinished-{self.context.generation}"
                temporary.write_text("\n".join(os.listdir(self.folder / "out")))
                os.replace(temporary, self.folder / f"list-{self.context.generation}")

    def committed(self, scratch: Scratch) -> Iterator[tuple[int, int]]:
        listed = {name for path in scratch.path.glob("list-*") for name in path.read_text().split()}
        for name in sorted(listed):
            for line in (scratch.path / "out" / name).read_text().splitlines():
                split, offset = line.split()
                yield int(split), int(offset)
