"""A table that is replaced as a whole: versions/<number>, of which the highest counts and the first writer wins.
Right: Table. A log that an attempt may append to until a newer one has fenced it. Right: FencedLog. And files
that wait for too long. Right: TidiesUp.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from renamed_files import Links, OutFolder
from waiting_rows import Waiting, Waits

from sinkproof import Context, Fenced, Scratch


def latest(folder: Path) -> tuple[int, dict[str, Any]]:
    """Its number and what is in it. One that is gone when it is to be read has been followed by others."""
    while numbers := [int(file.name) for file in (folder / "versions").glob("*")]:
        try:
            return max(numbers), json.loads((folder / "versions" / str(max(numbers))).read_text())
        except FileNotFoundError:
            continue
    return 0, {"commits": [], "rows": []}


class Versions(Waits):
    """Which parts are in the table stands in the table, for ever."""

    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        (self.folder / "versions").mkdir(exist_ok=True)
        name, put = self.name(subtask, checkpoint_id), False
        while not put:
            number, table = latest(self.folder)
            if name in table["commits"]:
                return
            table["rows"] += rows
            table["commits"] = self.remembered([*table["commits"], name])
            put = self.put(number + 1, table)
        self.tidy(number + 1)

    def put(self, number: int, table: dict[str, Any]) -> bool:
        """False: the version exists already. Once linked, the temporary file is a version: it is written once."""
        temporary = self.folder / f"temporary-{self.context.subtask}-{self.context.generation}-{number}"
        temporary.write_text(json.dumps(table))
        try:
            os.link(temporary, self.folder / "versions" / str(number))
        except FileExistsError:
            return False
        return True

    def remembered(self, commits: list[str]) -> list[str]:
        return commits

    def tidy(self, number: int) -> None:
        """Old versions stay: their names are taken."""


class Table(Waiting):
    """Right."""

    make = Versions

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        yield from latest(scratch.path)[1]["rows"]


class KeepsTwo(Versions):
    def tidy(self, number: int) -> None:
        for older in range(max(number - 4, 1), number - 1):
            (self.folder / "versions" / str(older)).unlink(missing_ok=True)


class NamesComeFree(Table):
    """Wrong: an attempt that is suspended between reading the latest version and putting the next one puts an outdated
    one, if the others have made three meanwhile.
    """

    make = KeepsTwo


class RemembersFour(Versions):
    def remembered(self, commits: list[str]) -> list[str]:
        return commits[-4:]


class LooksBackFour(Table):
    """Wrong: an attempt that resumes after five commits finds no trace of its own."""

    make = RemembersFour


class ReadsAgain(Versions):
    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        (self.folder / "versions").mkdir(exist_ok=True)
        name = self.name(subtask, checkpoint_id)
        put = name in latest(self.folder)[1]["commits"]
        while not put:
            number, table = latest(self.folder)
            table["rows"] += rows
            table["commits"] = [*table["commits"], name]
            put = self.put(number + 1, table)


class TwoSnapshots(Table):
    """Wrong: it looks for the part in one version and adds it to another one, or again to each that came first."""

    make = ReadsAgain


# -- a log with fences -----------------------------------------------------------------------------


class FencedLines(Waits):
    """fence-<subtask> names the newest generation. Whether a part is there is looked up before the lock is taken."""

    def open(self, context: Context) -> None:
        with self.locked():
            for subtask in {context.subtask, *self.fenced(context)}:
                (self.folder / f"fence-{subtask}").write_text(str(context.generation))
        super().open(context)

    def fenced(self, context: Context) -> Iterable[int]:
        return context.subtasks_restored

    @contextmanager
    def locked(self) -> Iterator[None]:
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        name = self.name(subtask, checkpoint_id)
        if any(name == known for known, _ in lines(self.folder)):
            return
        with self.locked(), (self.folder / "log").open("ab") as log:
            if int((self.folder / f"fence-{self.context.subtask}").read_text()) > self.context.generation:
                raise Fenced(name)
            log.write(json.dumps([name, rows]).encode() + b"\n")


def lines(folder: Path) -> list[Any]:
    try:
        return [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    except FileNotFoundError:
        return []


class FencedLog(Waiting):
    """Right."""

    make = FencedLines

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for _, rows in lines(scratch.path):
            yield from rows


class FencesItself(FencedLines):
    def fenced(self, context: Context) -> Iterable[int]:
        return ()


class OwnNumberOnly(FencedLog):
    """Wrong: with fewer subtasks than before, a removed one may still commit what its successor commits."""

    make = FencesItself


# -- left for later --------------------------------------------------------------------------------


class NextTime(Links):
    def publish(self, name: str) -> None:
        try:
            super().publish(name)
        except OSError:
            self.pending[0] = name  # it is tried again with the next one

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [older for older in self.pending if older <= checkpoint_id]:
            self.publish(self.pending.pop(older))


class LeftForTheNext(OutFolder):
    """Wrong: there is no next one after the last."""

    make = NextTime


class Dated(Links):
    """at-<name>: since when a file waits."""

    def snapshot(self, checkpoint_id: int) -> bytes:
        state = super().snapshot(checkpoint_id)
        for name in self.pending.values():
            dated = self.staged.with_name(f"at-{name}")
            if not dated.exists():
                dated.write_text(str(self.context.clock()))
        return state


class TidiesUp(OutFolder):
    """Right: a file that maintenance has removed, because it had waited for more than an hour, is an error."""

    make: Any = Dated
    expires_after = 3600.0

    def maintain(self, scratch: Scratch) -> None:
        for dated in scratch.path.glob("at-*"):
            if scratch.clock() - float(dated.read_text()) > self.expires_after:
                (scratch.path / "staged" / dated.name.removeprefix("at-")).unlink(missing_ok=True)


class GoneMeansDone(Dated):
    def publish(self, name: str) -> None:
        if (self.staged / name).exists():
            super().publish(name)


class GoneIsTakenForPublished(TidiesUp):
    """Wrong: it takes what is gone for published."""

    make = GoneMeansDone
