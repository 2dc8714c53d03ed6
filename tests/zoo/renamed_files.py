"""Sinks that stage a file per checkpoint and give it its final name later. Right: LinkedFiles."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sinkproof import Batch, Claim, Context, Scratch


class Links:
    """staged/<subtask>-<generation>-<checkpoint> becomes out/<the same name> by a hard link, which cannot overwrite."""

    def __init__(self, folder: Path) -> None:
        self.staged, self.out = folder / "staged", folder / "out"
        self.rows: list[tuple[int, int]] = []
        self.pending: dict[int, str] = {}

    def open(self, context: Context) -> None:
        self.context = context
        self.staged.mkdir(exist_ok=True)
        self.out.mkdir(exist_ok=True)
        for _, state in context.restored:
            for name in json.loads(state).values():
                self.publish(name)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self.rows:
            self.pending[checkpoint_id] = name = self.name(checkpoint_id)
            (self.staged / name).write_text(json.dumps(self.rows))
            self.rows = []
        return json.dumps(self.pending).encode()

    def name(self, checkpoint_id: int) -> str:
        return f"{self.context.subtask}-{self.context.generation}-{checkpoint_id}"

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [older for older in self.pending if older <= checkpoint_id]:
            self.publish(self.pending[older])
            del self.pending[older]

    def publish(self, name: str) -> None:
        try:
            os.link(self.staged / name, self.out / name)
        except FileExistsError:
            pass
        except FileNotFoundError:
            if not (self.out / name).exists():
                raise
        (self.staged / name).unlink(missing_ok=True)


class OutFolder:
    """What is in `out`."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = Links

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        for file in sorted((scratch.path / "out").iterdir()):
            yield from json.loads(file.read_text())


class LinkedFiles(OutFolder):
    """Right. It can be copied."""

    def freeze(self, scratch: Scratch) -> dict[str, bytes]:
        files = sorted(file for file in scratch.path.rglob("*") if file.is_file())
        return {str(file.relative_to(scratch.path)): file.read_bytes() for file in files}

    def thaw(self, scratch: Scratch, frozen: dict[str, bytes]) -> None:
        for file in [file for file in scratch.path.rglob("*") if file.is_file()]:
            file.unlink()
        for name, contents in frozen.items():
            (scratch.path / name).parent.mkdir(exist_ok=True)
            (scratch.path / name).write_bytes(contents)


class FreezesTooLittle(LinkedFiles):
    """Right, but its copies are not: what is staged is missing in them. Nothing may be concluded from them."""

    def freeze(self, scratch: Scratch) -> dict[str, bytes]:
        return {name: contents for name, contents in super().freeze(scratch).items() if name.startswith("out/")}


class LinkedFilesUncopied(OutFolder):
    """Right. The same without freeze and thaw."""


class TriesAnotherName(Links):
    def publish(self, name: str) -> None:
        try:
            super().publish(name)
        except OSError:
            os.link(self.staged / name, self.out / f"{name}-again")


class AFailedLinkIsMadeAgain(OutFolder):
    """Wrong: a link that is said to have failed may be there."""

    make = TriesAnotherName


class LeavesOutTheSubtask(Links):
    def name(self, checkpoint_id: int) -> str:
        return f"checkpoint-{checkpoint_id}"


class NameWithoutSubtask(OutFolder):
    """Wrong: both subtasks use one name."""

    make = LeavesOutTheSubtask


class WaitsForTheVeryId(Links):
    def notify_complete(self, checkpoint_id: int) -> None:
        if checkpoint_id in self.pending:
            self.publish(self.pending.pop(checkpoint_id))


class OnlyTheNotified(OutFolder):
    """Wrong: a lost notification is never made up for."""

    make = WaitsForTheVeryId


class TidiesUp(Links):
    def open(self, context: Context) -> None:
        super().open(context)
        for stale in self.staged.iterdir():
            stale.unlink()


class DeletesWhatOthersStaged(OutFolder):
    """Wrong: what is stale for one subtask is what another is just about to publish."""

    make = TidiesUp


class TakesTheFirst(Links):
    def open(self, context: Context) -> None:
        self.context = context
        self.staged.mkdir(exist_ok=True)
        self.out.mkdir(exist_ok=True)
        if context.restored:
            for name in json.loads(context.restored[0][1]).values():
                self.publish(name)


class OnlyTheFirstState(OutFolder):
    """Wrong: with fewer subtasks than before, one is given the states of several."""

    make = TakesTheFirst


class DropsTheAborted(Links):
    def notify_aborted(self, checkpoint_id: int) -> None:
        self.pending.pop(checkpoint_id, None)


class AbortedDropped(OutFolder):
    """Wrong: rows of an aborted checkpoint belong to the next one."""

    make = DropsTheAborted


class RewritesTheAborted(Links):
    def notify_aborted(self, checkpoint_id: int) -> None:
        if checkpoint_id in self.pending:
            self.rows += json.loads((self.staged / self.pending[checkpoint_id]).read_text())


class AbortedTwice(OutFolder):
    """Wrong: they are taken into the next checkpoint and stay pending, too."""

    make = RewritesTheAborted


class BeginsLazily(Links):
    """Rows of the epoch before are forgotten when the first row of the next one comes."""

    fresh = False

    def write(self, batch: Batch) -> None:
        if self.fresh:
            self.rows, self.fresh = [], False
        super().write(batch)

    def snapshot(self, checkpoint_id: int) -> bytes:
        rows = self.rows
        state = super().snapshot(checkpoint_id)
        self.rows, self.fresh = rows, True
        return state


class IdleEpoch(OutFolder):
    """Wrong: an epoch without a row publishes the one before it again."""

    make = BeginsLazily


class ReadsWhatIsStaged(OutFolder):
    """Wrong is the reader: it sees rows before their checkpoint is complete."""

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        names = {file.name: file for file in scratch.path.rglob("*-*-*")}
        for file in names.values():
            yield from json.loads(file.read_text())


class CommitsInSnapshot(Links):
    def snapshot(self, checkpoint_id: int) -> bytes:
        state = super().snapshot(checkpoint_id)
        self.notify_complete(checkpoint_id)
        return state


class PublishesBeforeTheVote(OutFolder):
    """Wrong: snapshot returns when everything is visible already."""

    make = CommitsInSnapshot
