"""Sinks that commit in several threads at a time. Right: Numbered, FlushedBeside, FlushedInTime, StagedBeside.
Wrong, as each thread takes what another one may have taken: NumberedTwice, FlushedAndForgotten; or comes too early:
PublishedInTime; or fails unheard: StagedAndUnasked.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Batch, Claim, Context
from sinkproof.subject.scratch import Scratch


class NumbersFiles(PartsOfCheckpoints):
    """The rows of a checkpoint become numbered files of a folder, which is renamed when all are there."""

    def __init__(self, folder: Path, guard: AbstractContextManager[Any]) -> None:
        self.folder, self.guard, self.pool = folder, guard, ThreadPoolExecutor(2)
        super().__init__()
        self.number = 0

    def publish(self, name: str, rows: list[Any]) -> None:
        staged, final = self.folder / f"{name}.staged-{os.getpid()}", self.folder / f"{name}.parts"
        if rows and not final.exists():
            staged.mkdir()
            list(self.pool.map(lambda row: self.write_file(staged, row), rows))
            os.rename(staged, final)

    def write_file(self, folder: Path, row: Any) -> None:
        with self.guard:
            number = self.number
            self.number = number + 1
        (folder / f"{number}.json").write_text(json.dumps([row]))


class FlushesBeside(NumbersFiles):
    """A thread of its own takes rows from the buffer all the time, and what is left is taken by the vote."""

    def __init__(self, folder: Path, guard: AbstractContextManager[Any]) -> None:
        super().__init__(folder, guard)
        self.taken: list[Any] = []
        self.written = threading.Semaphore(0)
        threading.Thread(target=self.work, daemon=True).start()

    def write(self, batch: Batch) -> None:
        with self.guard:
            super().write(batch)
        self.written.release()

    def work(self) -> None:
        while self.written.acquire():
            with self.guard:
                self.take()

    def take(self) -> None:
        rows = list(self.rows)
        self.taken = self.taken + rows
        self.rows = self.rows[len(rows) :]

    def snapshot(self, checkpoint_id: int) -> bytes:
        with self.guard:
            self.take()
            self.rows, self.taken = self.taken, []
            return super().snapshot(checkpoint_id)

    def write_file(self, folder: Path, row: Any) -> None:
        (folder / f"{row[0]}-{row[1]}.json").write_text(json.dumps([row]))


class FlushesInTime(NumbersFiles):
    """A thread writes what has lain in the buffer for half a minute; the vote writes the rest."""

    def __init__(self, folder: Path, guard: AbstractContextManager[Any], *, publishes: bool) -> None:
        super().__init__(folder, guard)
        self.publishes, self.has_rows = publishes, threading.Event()
        self.staged: list[str] = []
        self.of_checkpoints: dict[int, list[str]] = {}

    def open(self, context: Context) -> None:
        self.me = f"{context.subtask}-{context.generation}"
        for _, state in context.restored:
            for names in json.loads(state).values():
                self.rename(names)
        threading.Thread(target=self.work, daemon=True).start()

    def wait(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def work(self) -> None:
        while self.has_rows.wait():
            self.wait(30)
            with self.guard:
                self.flush()
                if self.publishes:
                    self.rename(self.staged)

    def write(self, batch: Batch) -> None:
        with self.guard:
            super().write(batch)
        self.has_rows.set()

    def flush(self) -> None:
        self.has_rows.clear()
        if self.rows:
            folder = self.folder / f"{self.me}-{self.number}.new"
            folder.mkdir()
            (folder / "rows.json").write_text(json.dumps(self.rows))
            self.staged.append(folder.stem)
            self.number, self.rows = self.number + 1, []

    def snapshot(self, checkpoint_id: int) -> bytes:
        with self.guard:
            self.flush()
            self.of_checkpoints[checkpoint_id], self.staged = self.staged, []
        return json.dumps(self.of_checkpoints).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [each for each in self.of_checkpoints if each <= checkpoint_id]:
            self.rename(self.of_checkpoints.pop(older))

    def rename(self, names: list[str]) -> None:
        for name in names:
            if (self.folder / f"{name}.new").exists():
                os.rename(self.folder / f"{name}.new", self.folder / f"{name}.parts")


class StagesBeside(NumbersFiles):
    """A thread writes each batch to a file; the vote waits for it, and asks before and after that whether it failed."""

    def __init__(self, folder: Path, guard: AbstractContextManager[Any], *, asks_again: bool) -> None:
        super().__init__(folder, guard)
        self.asks_again, self.failed = asks_again, False
        self.batches: queue.Queue[list[Any]] = queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        while True:
            rows = self.batches.get()
            try:
                staged = self.folder / f"batch-{os.getpid()}.new"
                staged.write_text(json.dumps(rows))
                os.rename(staged, staged.with_suffix(".staged"))
                self.rows += rows
            except OSError:
                self.failed = True
            finally:
                self.batches.task_done()

    def ask(self) -> None:
        if self.failed:
            raise RuntimeError("a batch could not be staged")

    def write(self, batch: Batch) -> None:
        self.ask()
        self.batches.put([(row.split, row.offset, row.key, row.value) for row in batch])

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.ask()
        self.batches.join()
        if self.asks_again:
            self.ask()
        return super().snapshot(checkpoint_id)


class InFolders:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False

    def sink(self, scratch: Scratch) -> NumbersFiles:
        return NumbersFiles(scratch.path, threading.RLock())

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        for file in sorted(scratch.path.glob("*.parts/*.json")):
            yield from json.loads(file.read_text())


class Numbered(InFolders):
    """Right."""


class NumberedTwice(InFolders):
    """Wrong: two threads may have one number, and write one file."""

    def sink(self, scratch: Scratch) -> NumbersFiles:
        return NumbersFiles(scratch.path, nullcontext())


class FlushedBeside(InFolders):
    """Right."""

    def sink(self, scratch: Scratch) -> NumbersFiles:
        return FlushesBeside(scratch.path, threading.RLock())


class FlushedAndForgotten(InFolders):
    """Wrong: what the vote takes between two lines of the thread is taken twice, or lost."""

    def sink(self, scratch: Scratch) -> NumbersFiles:
        return FlushesBeside(scratch.path, nullcontext())


class FlushedInTime(InFolders):
    """Right."""

    def sink(self, scratch: Scratch) -> NumbersFiles:
        return FlushesInTime(scratch.path, threading.RLock(), publishes=False)


class PublishedInTime(InFolders):
    """Wrong: a thread publishes what no checkpoint has."""

    def sink(self, scratch: Scratch) -> NumbersFiles:
        return FlushesInTime(scratch.path, threading.RLock(), publishes=True)


class StagedBeside(InFolders):
    """Right."""

    def sink(self, scratch: Scratch) -> NumbersFiles:
        return StagesBeside(scratch.path, threading.RLock(), asks_again=True)


class StagedAndUnasked(InFolders):
    """Wrong: what fails while the vote waits is asked for by the next call, and the checkpoint is complete by then."""

    def sink(self, scratch: Scratch) -> NumbersFiles:
        return StagesBeside(scratch.path, threading.RLock(), asks_again=False)
