"""Sinks that are wrong only where numbers are long, a batch is empty, nothing comes for a day, or values are odd."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from waiting_rows import NamesFilesByKeys, Waiting, Waits

from sinkproof import Batch, Scratch

DAY_SECONDS = 86_400


class RunsTogether(Waits):
    def name(self, subtask: int, checkpoint_id: int) -> str:
        return f"{subtask}{checkpoint_id}"


class NumbersRunTogether(Waiting):
    """Wrong: subtask 1 in checkpoint 11 is named like subtask 11 in checkpoint 1."""

    make = RunsTogether


class RemembersTheLastBatch(Waits):
    last: Any = (-1, -1)

    def write(self, batch: Batch) -> None:
        self.rows = [row for row in self.rows if (*row,) != self.last or len(batch)]
        self.last = max(((row.split, row.offset) for row in batch), default=(-1, -1))
        super().write(batch)


class EmptyBatchTakesBack(Waiting):
    """Wrong: where a batch is empty, the last row of the one before is dropped, too."""

    make = RemembersTheLastBatch


class LooksAtTheClock(Waits):
    def write(self, batch: Batch) -> None:
        now = self.context.clock()
        self.rows = [row for row in self.rows if now - self.since < DAY_SECONDS]
        self.since = now
        super().write(batch)

    since = 0.0


class IdleForADay(Waiting):
    """Wrong: rows that have waited for a day before the next one came are dropped."""

    make = LooksAtTheClock


class Whole(Waits):
    """Rows with all that they were sent with. `alter`: what the column makes of a value."""

    @staticmethod
    def alter(value: str) -> str:
        return value

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset, row.key, self.alter(row.value), row.event_time_ms) for row in batch]


class Altering(Waiting):
    alter: Any = staticmethod(str)

    def sink(self, scratch: Scratch) -> Any:
        sink = Whole(scratch.path)
        sink.alter = self.alter  # type: ignore[method-assign]
        return sink


class NothingAltered(Altering):
    """Right."""


class BlanksAtTheEnds(Altering):
    """Wrong: a column that takes no blanks at the end."""

    alter = staticmethod(lambda value: value.strip() or value)


class LikeNumbers(Altering):
    """Wrong: a column of numbers where a value looks like one."""

    alter = staticmethod(lambda value: str(int(value)) if value.isdecimal() else value)


class ShortTexts(Altering):
    """Wrong: a column of 65,535 characters."""

    alter = staticmethod(lambda value: value[:65_535])


class SlashesAreDashes(NamesFilesByKeys):
    def clean(self, key: str) -> str:
        return key.replace("/", "-")


class PathsOfKeys(Waiting):
    """Wrong: a key with a slash gets the name of a key with a dash."""

    make = SlashesAreDashes


class OnlyWithKeys(Waits):
    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch if row.key]


class EmptyKeysAreLeftOut(Waiting):
    """Wrong: an empty key is a key."""

    make = OnlyWithKeys


class ByContent(Waits):
    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset, row.key, row.value) for row in batch]

    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        self.digest = hashlib.sha256(json.dumps([row[2:] for row in rows]).encode()).hexdigest()
        super().publish(subtask, checkpoint_id, rows)

    def name(self, subtask: int, checkpoint_id: int) -> str:
        return self.digest


class NamedByContent(Waiting):
    """Wrong: a checkpoint with the keys and values of an earlier one is another one."""

    make = ByContent
