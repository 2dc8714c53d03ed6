"""Staged files that are moved when their checkpoint is complete; other subtasks restore them with other parallelism."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sinkproof import Batch, Claim, Context, Scratch

PART_ROWS: Final = 1000
ATTEMPTS_KEPT: Final = 20


class Staged:
    """The files that a subtask has staged lie in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[tuple[int, int]] = []
        self.pending: dict[int, str] = {}

    def open(self, context: Context) -> None:
        self.context = context
        (self.folder / f"staged-{context.subtask}").mkdir(exist_ok=True)
        for _, state in context.restored:
            for checkpoint, name in json.loads(state):
                self.commit(checkpoint, name)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        name = f"{self.context.subtask}/{self.context.generation}-{checkpoint_id}"
        (self.folder / f"staged-{name}").write_text(json.dumps(self.rows))
        self.pending[checkpoint_id], self.rows = name, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for checkpoint in [each for each in self.pending if each <= checkpoint_id]:
            self.commit(checkpoint, self.pending.pop(checkpoint))

    def commit(self, checkpoint: int, name: str) -> None:
        part = self.folder / f"part-{name.replace('/', '-')}"
        if not part.exists():
            (self.folder / f"staged-{name}").rename(part)


class SweepsByRange(Staged):
    """Also removes what earlier attempts have staged in the folders of its own range."""

    def open(self, context: Context) -> None:
        super().open(context)
        for old in context.subtasks_restored:
            if old * context.parallelism // context.parallelism_restored == context.subtask:
                self.sweep(self.folder / f"staged-{old}")

    def sweep(self, folder: Path) -> None:
        for staged in folder.glob("*"):
            if int(staged.name.split("-")[0]) < self.context.generation:
                staged.unlink(missing_ok=True)


class LastSweepsWhatIsGone(Staged):
    """Also removes what subtasks have staged that are no more, if it is the last one."""

    def open(self, context: Context) -> None:
        super().open(context)
        for old in context.subtasks_restored if context.subtask == context.parallelism - 1 else ():
            for staged in (self.folder / f"staged-{old}").glob("*") if old >= context.parallelism else ():
                staged.unlink()


class Doubtful(Staged):
    """What cannot be moved is in doubt, and moved later."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.doubt: dict[Any, tuple[int, str]] = {}

    def key(self, checkpoint: int, name: str) -> Any:
        return name

    def open(self, context: Context) -> list[int]:  # type: ignore[override]
        super().open(context)
        return self.doubted()

    def doubted(self) -> list[int]:
        return [checkpoint for checkpoint, _ in self.doubt.values()]

    def snapshot(self, checkpoint_id: int) -> bytes:
        states = json.loads(super().snapshot(checkpoint_id))
        return json.dumps([*self.doubt.values(), *states]).encode()

    def notify_complete(self, checkpoint_id: int) -> list[int]:  # type: ignore[override]
        super().notify_complete(checkpoint_id)
        return self.doubted()

    def settle(self, now: float) -> list[int]:
        doubt, self.doubt = self.doubt, {}
        for checkpoint, name in doubt.values():
            self.commit(checkpoint, name)
        return self.doubted()

    def commit(self, checkpoint: int, name: str) -> None:
        try:
            super().commit(checkpoint, name)
        except OSError:
            self.doubt[self.key(checkpoint, name)] = (checkpoint, name)


class DoubtfulByCheckpoint(Doubtful):
    def key(self, checkpoint: int, name: str) -> Any:
        return checkpoint


class SweepsOldAttempts(Staged):
    """Removes what was staged so many attempts ago, before it commits what is restored."""

    def open(self, context: Context) -> None:
        for staged in self.folder.glob("staged-*/*"):
            if int(staged.name.split("-")[0]) < context.generation - ATTEMPTS_KEPT:
                staged.unlink(missing_ok=True)
        super().open(context)


class StagedFiles:
    """Right."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = Staged

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for part in sorted(scratch.path.glob("part-*")):
            yield from json.loads(part.read_text())


class SweptByRange(StagedFiles):
    """Wrong: another subtask may be about to restore what was staged there."""

    make = SweepsByRange


class SweptByTheLast(StagedFiles):
    """Wrong: it may open first, and the first one has yet to commit what it restores of those that are no more."""

    make = LastSweepsWhatIsGone


class InDoubt(StagedFiles):
    """Right."""

    make = Doubtful


class InDoubtByCheckpoint(StagedFiles):
    """Wrong: of two subtasks' parts of one checkpoint that are in doubt, one is forgotten."""

    make = DoubtfulByCheckpoint


class CarriesOver:
    """Rows wait in the state until there are enough for a part, which a subtask names by its own count of parts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.waiting: list[tuple[int, int]] = []
        self.pending: dict[int, tuple[str, list[tuple[int, int]]]] = {}
        self.parts, self.ended = 0, False

    def open(self, context: Context) -> None:
        self.context = context
        for _, state in context.restored:
            waiting, pending, parts = json.loads(state)
            self.waiting += waiting
            self.parts = max(self.parts, parts)
            for _, (name, rows) in pending:
                self.publish(name, rows)

    def write(self, batch: Batch) -> None:
        self.waiting += [(row.split, row.offset) for row in batch]

    def end_of_input(self) -> None:
        self.ended = True

    def snapshot(self, checkpoint_id: int) -> bytes:
        if len(self.waiting) >= PART_ROWS or (self.ended and self.waiting):
            self.parts += 1
            self.pending[checkpoint_id], self.waiting = (self.name(), self.waiting), []
        return json.dumps([self.waiting, [*self.pending.items()], self.parts]).encode()

    def name(self) -> str:
        return f"part-{self.context.subtask}-{self.parts}"

    def notify_complete(self, checkpoint_id: int) -> None:
        for checkpoint in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(*self.pending.pop(checkpoint))

    def publish(self, name: str, rows: list[tuple[int, int]]) -> None:
        temporary = self.folder / f".{name}-{self.context.generation}-{self.context.subtask}"
        temporary.write_text(json.dumps(rows))
        temporary.rename(self.folder / name)


class CarriesOverByGeneration(CarriesOver):
    def name(self) -> str:
        return f"part-{self.context.generation}-{self.context.subtask}-{self.parts}"


class NumberedBySubtask(StagedFiles):
    """Wrong: a subtask that comes back after a time without it counts from 0."""

    make = CarriesOver


class NumberedByAttempt(StagedFiles):
    """Right: no two attempts use one name."""

    make = CarriesOverByGeneration


class SweptByAttempt(StagedFiles):
    """Wrong: a job may die more often than that before it is restored."""

    make = SweepsOldAttempts
