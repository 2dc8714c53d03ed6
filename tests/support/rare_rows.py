"""Sinks that lose or alter rows where there are as many as a page has room for, or where event times are unusual, each
beside its right sibling; one that goes by the time since its last row, and one with a thread that begins by the clock.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

from sinkproof import Batch, Claim, Context, Scratch

PAGE = 37  # rows
IDLE_SECONDS = 300


def now() -> float:
    """As attempts see it."""
    seconds: float = vars(time)["monotonic"]()
    return seconds


class Pages:
    """The page that is not full is the last one of a part."""

    page = PAGE
    ends_with_full_page = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def is_committed(self, part: str) -> bool:
        return False

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        shown = [self.shown(row) for row in rows]
        ends = range(0, len(rows) + (not self.ends_with_full_page), self.page)
        for number, first in enumerate(ends):
            new = self.folder / f"new-{part}.{number}"
            new.write_text(json.dumps(shown[first : first + self.page]))
            new.rename(self.folder / f"{part}.{number:03}.json")

    def shown(self, row: Any) -> list[Any]:
        return [row.split, row.offset, row.key, row.value, row.event_time_ms]

    def record(self, part: str) -> None:
        """The last page is the record."""


class FullPagesOnly(Pages):
    ends_with_full_page = True


class SecondsAndMilliseconds(Pages):
    """What is below zero has other seconds than its text says."""

    def shown(self, row: Any) -> list[Any]:
        time_ms = row.event_time_ms
        seconds, _, milliseconds = f"{time_ms // 1000}.{abs(time_ms) % 1000:03}".partition(".")
        return [*super().shown(row)[:4], 1000 * int(seconds) + int(milliseconds)]


class Idle:
    """Closes its file when it has been idle for long, and opens it anew."""

    mode = "w"

    def __init__(self, folder: Path) -> None:
        self.folder, self.file, self.used = folder, None, 0.0

    def open(self, context: Context) -> None:
        self.name = f"{context.subtask}-{context.generation}"
        for _, state in context.restored:
            self.publish(json.loads(state))

    def write(self, batch: Batch) -> None:
        if self.file is not None and now() - self.used > IDLE_SECONDS:
            self.file.close()
            self.file = (self.folder / self.name).open(self.mode)
        self.file = self.file or (self.folder / self.name).open("w")
        self.used = now()
        self.file.writelines(json.dumps([row.split, row.offset]) + "\n" for row in batch)

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self.file is not None:
            self.file.close()
            self.file = None
        rows = (self.folder / self.name).read_text() if (self.folder / self.name).exists() else ""
        (self.folder / self.name).write_text("")
        self.pending = {**getattr(self, "pending", {}), checkpoint_id: rows}
        return json.dumps({f"{self.name}-{each}": rows for each, rows in self.pending.items()}).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        covered = {each: rows for each, rows in self.pending.items() if each <= checkpoint_id}
        self.publish({f"{self.name}-{each}": rows for each, rows in covered.items()})
        self.pending = {each: rows for each, rows in self.pending.items() if each > checkpoint_id}

    def publish(self, parts: dict[str, str]) -> None:
        for name, rows in parts.items():
            new = self.folder / f"new-{name}"
            new.write_text(rows)
            new.rename(self.folder / f"{name}.part")


class IdleAppending(Idle):
    mode = "a"


class Moved:
    """A thread moves rows into the file of the checkpoint now and then, so that memory stays small."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.pending = folder, list[Any](), dict[int, str]()
        self.lock: Any = nullcontext()

    def open(self, context: Context) -> None:
        self.attempt, self.stopped = f"{context.subtask}-{context.generation}", threading.Event()
        self.name = f"{self.attempt}-1"
        for _, state in context.restored:
            for name in json.loads(state).values():
                self.publish(name)
        threading.Thread(target=self.moves, daemon=True).start()

    def write(self, batch: Batch) -> None:
        self.rows += [[row.split, row.offset] for row in batch]

    def moves(self) -> None:
        while not self.stopped.wait(IDLE_SECONDS):
            with self.lock:
                self.move()

    def move(self) -> None:
        rows, self.rows = self.rows, []
        with (self.folder / self.name).open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)

    def snapshot(self, checkpoint_id: int) -> bytes:
        with self.lock:
            self.move()
            self.pending[checkpoint_id], self.name = self.name, f"{self.attempt}-{checkpoint_id + 1}"
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(self.pending.pop(older))

    def publish(self, name: str) -> None:
        if (self.folder / name).exists():
            (self.folder / name).rename(self.folder / f"{name}.part")

    def close(self) -> None:
        self.stopped.set()


class MovedByOne(Moved):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lock = threading.Lock()


class EndsAtShortPage:
    """Wrong: a part that fills its last page has no end."""

    claims: Any = Claim.EXACTLY_ONCE | Claim.INTACT_ROWS
    made: ClassVar[type[Pages]] = FullPagesOnly

    def sink(self, scratch: Scratch) -> Pages:
        return self.made(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for first in sorted(scratch.path.glob("*.000.json")):
            part, rows, number = first.name.removesuffix(".000.json"), [], 0
            while (file := scratch.path / f"{part}.{number:03}.json").exists():
                rows += json.loads(file.read_text())
                number += 1
                if len(rows) < number * PAGE:
                    yield from rows
                    break


class EndsAtEmptyPage(EndsAtShortPage):
    """Right: the last page may be empty."""

    made = Pages


class TimesInParts(EndsAtShortPage):
    """Wrong: times before 1970 are others."""

    made = SecondsAndMilliseconds


class OpensAnew:
    """Wrong: rows from before the pause are gone."""

    claims: Any = Claim.EXACTLY_ONCE
    made: ClassVar[type[Idle]] = Idle

    def sink(self, scratch: Scratch) -> Idle:
        return self.made(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted(scratch.path.glob("*.part")):
            yield from map(json.loads, file.read_text().splitlines())


class GoesOn(OpensAnew):
    """Right."""

    made = IdleAppending


class MovesMeanwhile(OpensAnew):
    """Wrong: rows that the thread has taken, and not written yet, are in no snapshot."""

    made: Any = Moved


class MovesOneByOne(OpensAnew):
    """Right."""

    made: Any = MovedByOne
