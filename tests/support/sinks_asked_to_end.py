"""Contracts of sinks that meet SIGTERM in unusual ways. All of them deliver each row once."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sinkproof import Batch, Claim, Context, Scratch


class Puts:
    """out/<subtask>-<checkpoint> is written whole when the checkpoint is complete, in a thread, and waited for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[tuple[int, int]] = []
        self.pending: dict[int, list[tuple[int, int]]] = {}
        self.thread = ThreadPoolExecutor(1)

    def open(self, context: Context) -> None:
        self.subtask = context.subtask
        (self.folder / "out").mkdir(exist_ok=True)
        self.thread.submit(int).result()  # an executor that SIGTERM meets while it starts its thread waits for ever
        signal.signal(signal.SIGTERM, self.asked_to_end)
        for old, state in context.restored:
            for checkpoint_id, rows in json.loads(state).items():
                self.put(f"{old}-{checkpoint_id}", rows).result()

    def asked_to_end(self, *_: object) -> None:
        sys.exit(0)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [older for older in self.pending if older <= checkpoint_id]:
            self.put(f"{self.subtask}-{older}", self.pending[older]).result()
            del self.pending[older]

    def put(self, name: str, rows: Any) -> Future[None]:
        return self.thread.submit(write_whole, self.folder / "out" / name, rows)


def write_whole(file: Path, rows: Any) -> None:
    temporary = file.parent.parent / f"{file.name}-{os.getpid()}"
    temporary.write_text(json.dumps(rows))
    temporary.rename(file)


class Acting:
    claims = Claim.EXACTLY_ONCE
    make: type[Puts] = Puts

    def sink(self, scratch: Scratch) -> Puts:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        for file in sorted((scratch.path / "out").iterdir()):
            yield from json.loads(file.read_text())


class WaitingForEver(Acting):
    class make(Puts):  # noqa: N801
        def asked_to_end(self, *_: object) -> None:
            threading.Event().wait()


class Deaf(Acting):
    class make(Puts):  # noqa: N801
        def open(self, context: Context) -> None:
            super().open(context)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)


class Traced(Acting):
    """What it does in the end is written to a file beside its output."""

    class make(Puts):  # noqa: N801
        def asked_to_end(self, *_: object) -> None:
            try:
                sys.exit(0)
            finally:
                self.say("finally")

        def notify_complete(self, checkpoint_id: int) -> None:
            try:
                super().notify_complete(checkpoint_id)
            except SystemExit:
                self.say("unwound")
                raise

        def say(self, word: str) -> None:
            with (self.folder / "said").open("a") as file:
                file.write(f"{word}\n")


class WorkingOn(Acting):
    """Its thread is given something to do: safe between two calls, while nothing else is given to it."""

    class make(Traced.make):  # noqa: N801
        def asked_to_end(self, *_: object) -> None:
            self.put("late", []).add_done_callback(lambda _: self.say("the thread has done its work"))
            super().asked_to_end()
