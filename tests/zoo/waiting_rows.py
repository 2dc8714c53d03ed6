"""Sinks that keep rows in the state and then write them to a file of their own. Right: Waiting.

Nothing but the names and the bookkeeping can go wrong here; each of the wrong ones differs by a line or two.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sinkproof import Batch, Claim, Context, Scratch


class Waits:
    """out/<subtask that took the snapshot>-<checkpoint>: the same name in each attempt that publishes it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.rows: list[tuple[int, int]] = []
        self.pending: list[tuple[int, list[tuple[int, int]]]] = []

    def open(self, context: Context) -> None:
        self.context = context
        self.out.mkdir(parents=True, exist_ok=True)
        for subtask, state in context.restored:
            for checkpoint_id, rows in json.loads(state):
                self.restore(subtask, checkpoint_id, rows)

    def restore(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        self.publish(subtask, checkpoint_id, rows)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending.append((checkpoint_id, self.rows))
        self.rows = []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older, rows in [entry for entry in self.pending if entry[0] <= checkpoint_id]:
            self.publish(self.context.subtask, older, rows)
        self.pending = [entry for entry in self.pending if entry[0] > checkpoint_id]

    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        temporary = self.folder / f"temporary-{self.context.subtask}-{self.context.generation}"
        temporary.write_text(json.dumps(rows))
        os.replace(temporary, self.out / self.name(subtask, checkpoint_id))

    def name(self, subtask: int, checkpoint_id: int) -> str:
        return f"{subtask}-{checkpoint_id}"


class Waiting:
    """Right."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = Waits

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted((scratch.path / "out").iterdir()):
            yield from json.loads(file.read_text())


class NamesForItself(Waits):
    def restore(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        self.publish(self.context.subtask, checkpoint_id, rows)


class UnderANewNumber(Waiting):
    """Wrong: with fewer subtasks than before, the parts of two of them get one name."""

    make = NamesForItself


class SkipsWhatIsOld(Waits):
    def restore(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        if checkpoint_id > max((int(file.name.split("-")[1]) for file in self.out.iterdir()), default=0):
            self.publish(subtask, checkpoint_id, rows)


class OneMarkForAll(Waiting):
    """Wrong: what one subtask has published is taken for what all have."""

    make = SkipsWhatIsOld


class RestoresTheLast(Waits):
    def restore(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        if checkpoint_id == self.context.checkpoint_id_restored:
            self.publish(subtask, checkpoint_id, rows)


class OnlyTheRestored(Waiting):
    """Wrong: the restored checkpoint covers earlier ones, the notifications of which were lost."""

    make = RestoresTheLast


class NothingToSay(Waits):
    def snapshot(self, checkpoint_id: int) -> bytes:
        return super().snapshot(checkpoint_id) if self.rows else b"[]"


class EmptyEpochForgets(Waiting):
    """Wrong: without rows of its own, a snapshot leaves out what is still pending."""

    make = NothingToSay


class NothingToDo(Waits):
    def notify_complete(self, checkpoint_id: int) -> None:
        if any(rows for pending, rows in self.pending if pending == checkpoint_id):
            super().notify_complete(checkpoint_id)


class EmptyEpochReturns(Waiting):
    """Wrong: a checkpoint without rows covers earlier ones, too."""

    make = NothingToDo


class Sorts(Waits):
    def notify_complete(self, checkpoint_id: int) -> None:
        for entry in [entry for entry in self.pending if str(entry[0]) <= str(checkpoint_id)]:
            self.publish(self.context.subtask, *entry)
            self.pending.remove(entry)


class IdsAsText(Waiting):
    """Wrong: "10" comes before "9"."""

    make = Sorts


class SkipsWhatItHas(Waits):
    def snapshot(self, checkpoint_id: int) -> bytes:
        super().snapshot(checkpoint_id)
        return json.dumps(sorted(self.pending, key=lambda entry: str(entry[0]))).encode()

    def restore(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        if checkpoint_id > max((int(file.name.split("-")[1]) for file in self.out.glob(f"{subtask}-*")), default=0):
            self.publish(subtask, checkpoint_id, rows)


class RestoredAsText(Waiting):
    """Wrong: an attempt that restores checkpoints 9, 10 and 11 takes 9 for one that is published."""

    make = SkipsWhatItHas


class SharesItsList(Waits):
    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending.append((checkpoint_id, self.rows))
        return json.dumps([[checkpoint_id, self.rows]]).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        self.publish(self.context.subtask, checkpoint_id, self.rows)
        self.rows.clear()


class LiveList(Waiting):
    """Wrong: rows that come after the snapshot are in the list that it has set aside."""

    make = SharesItsList


class PublishesAll(Waits):
    def notify_complete(self, checkpoint_id: int) -> None:
        if self.pending and self.pending[0][0] <= checkpoint_id:
            super().notify_complete(self.pending[-1][0])


class AllAtOnce(Waiting):
    """Wrong: what is pending after the notified checkpoint is not complete."""

    make = PublishesAll


class KeepsTheCovered(Waits):
    def notify_complete(self, checkpoint_id: int) -> None:
        self.pending = [entry for entry in self.pending if entry[0] <= checkpoint_id]
        super().notify_complete(checkpoint_id)


class LaterOnesForgotten(Waiting):
    """Wrong: what is pending after the notified checkpoint is never published."""

    make = KeepsTheCovered


class TakesTheNextForAnAnswer(Waits):
    def snapshot(self, checkpoint_id: int) -> bytes:
        state = super().snapshot(checkpoint_id)
        self.notify_complete(checkpoint_id - 1)
        return state


class NextMeansDone(Waiting):
    """Wrong: that a checkpoint begins does not mean that the one before it is complete."""

    make = TakesTheNextForAnAnswer


class Hurries(Waits):
    def end_of_input(self) -> None:
        self.publish(self.context.subtask, 0, self.rows)
        self.rows = []


class EndPublishes(Waiting):
    """Wrong: the last rows are visible before a checkpoint covers them."""

    make = Hurries


class Shortens(Waits):
    def name(self, subtask: int, checkpoint_id: int) -> str:
        return f"{zlib.crc32(super().name(subtask, checkpoint_id).encode()) % 13:02}"


class NamesThatCollide(Waiting):
    """Wrong: two parts get one name, without any fault."""

    make = Shortens


class NamesItsAttempt(Waits):
    def name(self, subtask: int, checkpoint_id: int) -> str:
        return f"{subtask}-{checkpoint_id}-{self.context.generation}"


class NameOfThePublisher(Waiting):
    """Wrong: what is published again after a crash has another name."""

    make = NamesItsAttempt


class Forgets(Waits):
    def snapshot(self, checkpoint_id: int) -> bytes:
        super().snapshot(checkpoint_id)
        self.pending = self.pending[-5:]
        return json.dumps(self.pending).encode()


class KeepsTheLastFive(Waiting):
    """Wrong: any number of notifications may be lost."""

    make = Forgets


class Joins(Waits):
    def write(self, batch: Batch) -> None:
        self.rows += [f"{row.split},{row.offset},{row.value}" for row in batch]  # type: ignore[misc]

    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        super().publish(subtask, checkpoint_id, "\n".join(rows))


class LinesOfText(Waiting):
    """Wrong: a value may hold the end of a line."""

    make = Joins

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted((scratch.path / "out").iterdir()):
            for line in json.loads(file.read_text()).splitlines():
                split, offset, _ = line.split(",", 2)
                yield int(split), int(offset)


class EmptiesAFullBuffer(Waits):
    FULL = 1000

    def write(self, batch: Batch) -> None:
        super().write(batch)
        if len(self.rows) >= self.FULL:
            self.parts = getattr(self, "parts", 0) + 1
            self.publish(self.context.subtask, -self.parts, self.rows)
            self.rows = []


class FullBuffersAreNotHeldBack(Waiting):
    """Wrong: what does not fit into memory is visible before its checkpoint is complete."""

    make = EmptiesAFullBuffer


class NamesFilesByKeys(Waits):
    """A file for each key and checkpoint; a key becomes a part of a name, in which not every character may stand."""

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset, row.key) for row in batch]  # type: ignore[misc]

    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        by_name: dict[str, list[tuple[int, int]]] = {}
        for key in dict.fromkeys(key for _, _, key in rows):
            by_name[self.clean(key)] = [(split, offset) for split, offset, other in rows if other == key]
        for name, content in by_name.items():
            temporary = self.folder / f"temporary-{self.context.subtask}-{self.context.generation}"
            temporary.write_text(json.dumps(content))
            os.replace(temporary, self.out / f"{self.name(subtask, checkpoint_id)}-{name}")

    def clean(self, key: str) -> str:
        return "".join(letter if letter.isalnum() else "_" for letter in key)


class KeysAreMadeAlike(Waiting):
    """Wrong: keys that differ in one character only get one name, and one of them replaces the other."""

    make = NamesFilesByKeys


class NamesFilesByKeysUncleaned(NamesFilesByKeys):
    def clean(self, key: str) -> str:
        return key.encode().hex()


class AFileForEachKey(Waiting):
    """Right."""

    make = NamesFilesByKeysUncleaned


class OneFileADay(NamesFilesByKeys):
    """A file for each day of event time; a crash between two of them is made up for, but for the first one's sake."""

    DAY_MS = 24 * 3600 * 1000

    def write(self, batch: Batch) -> None:
        days = [(row, str(row.event_time_ms // self.DAY_MS)) for row in batch]
        self.rows += [(row.split, row.offset, day) for row, day in days]  # type: ignore[misc]

    def restore(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        if not any(self.out.glob(f"{self.name(subtask, checkpoint_id)}-*")):
            self.publish(subtask, checkpoint_id, rows)


class TheFirstDayStandsForAll(Waiting):
    """Wrong: one day's file is taken for a sign that all of the checkpoint's days have theirs."""

    make = OneFileADay
