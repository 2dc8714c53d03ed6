"""Sinks that settle later, and what grows old meanwhile. Right: OneAtATime, NotYet, TooOldIsLost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from renamed_files import Links, OutFolder
from waiting_rows import Waiting, Waits

from sinkproof import Claim, Context, TransactionLost


class Settles(Waits):
    """What is decided is published one by one, by the timer."""

    def open(self, context: Context) -> None:
        super().open(context)
        self.decided = 0

    def notify_complete(self, checkpoint_id: int) -> list[int]:  # type: ignore[override]
        self.decided = max(self.decided, checkpoint_id)
        return self.settle(0)

    def settle(self, now: float) -> list[int]:
        if self.pending and self.pending[0][0] <= self.decided:
            self.publish(self.context.subtask, *self.pending[0])
            del self.pending[0]
        return [pending for pending, _ in self.pending if pending <= self.decided]


class OneAtATime(Waiting):
    """Right."""

    make = Settles


class MovesWhatIsDecided(Settles):
    def snapshot(self, checkpoint_id: int) -> bytes:
        super().snapshot(checkpoint_id)
        return json.dumps([entry for entry in self.pending if entry[0] > self.decided]).encode()


class DecidedIsForgotten(Waiting):
    """Wrong: what is decided, but not published yet, is in no snapshot."""

    make = MovesWhatIsDecided


class AsksAgain(Waits):
    """The target does not know at first what became of a part that an earlier attempt may have published."""

    def open(self, context: Context) -> list[int]:  # type: ignore[override]
        self.unknown: list[tuple[int, int, Any]] = []
        super().open(context)
        return [checkpoint_id for _, checkpoint_id, _ in self.unknown]

    def restore(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        self.unknown.append((subtask, checkpoint_id, rows))

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self.unknown:
            raise TimeoutError("earlier checkpoints are in doubt")
        return super().snapshot(checkpoint_id)

    def settle(self, now: float) -> list[int]:
        for part in self.unknown:
            self.publish(*part)
        self.unknown = []
        return []

    def notify_complete(self, checkpoint_id: int) -> list[int]:  # type: ignore[override]
        super().notify_complete(checkpoint_id)
        return [checkpoint_id for _, checkpoint_id, _ in self.unknown]


class NotYet(Waiting):
    """Right: `open` says what it could not settle."""

    claims = Claim.EXACTLY_ONCE | Claim.LIVENESS
    make = AsksAgain


class KeepsItToItself(AsksAgain):
    def open(self, context: Context) -> None:  # type: ignore[override]
        super().open(context)

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.settle(0)
        return super().snapshot(checkpoint_id)

    def notify_complete(self, checkpoint_id: int) -> None:  # type: ignore[override]
        self.settle(0)
        super().notify_complete(checkpoint_id)


class InDoubtUnsaid(Waiting):
    """Wrong: what was restored stays invisible until the next checkpoint, and an idle job has none."""

    claims = Claim.EXACTLY_ONCE | Claim.LIVENESS
    make = KeepsItToItself


class Expires(Links):
    """What was staged more than an hour ago is no longer to be had."""

    def open(self, context: Context) -> None:
        self.clock = context.clock
        super().open(context)

    def name(self, checkpoint_id: int) -> str:
        return f"{super().name(checkpoint_id)}-{self.clock():.0f}"

    def publish(self, name: str) -> None:
        if self.clock() - float(name.split("-")[-1]) > 3600 and not (self.out / name).exists():
            self.too_old(name)
        else:
            super().publish(name)

    def too_old(self, name: str) -> None:
        raise TransactionLost(f"{name} is too old to be published")


class TooOldIsLost(OutFolder):
    """Right: it says so."""

    make = Expires


class Drops(Expires):
    def too_old(self, name: str) -> None:
        (self.staged / name).unlink(missing_ok=True)


class TooOldIsDropped(OutFolder):
    """Wrong: rows of a complete checkpoint are dropped silently."""

    make = Drops


class Sweeps(Links):
    def open(self, context: Context) -> None:
        self.staged.mkdir(exist_ok=True)
        probe = self.staged / f"probe-{context.subtask}-{context.generation}"
        probe.touch()
        now = probe.stat().st_mtime
        for file in list(self.staged.iterdir()):
            if file == probe or now - file.stat().st_mtime > 3600:
                file.unlink(missing_ok=True)
        super().open(context)

    def publish(self, name: str) -> None:
        if (self.staged / name).exists():
            super().publish(name)


class SweepsByAge(OutFolder):
    """Wrong: after a long outage, what is old is what is just to be published."""

    make = Sweeps


class NumbersItsParts(Links):
    """A new attempt counts from 0 again."""

    number = 0

    def name(self, checkpoint_id: int) -> str:
        self.number += 1
        return f"{self.context.subtask}-{self.number}"

    def publish(self, name: str) -> None:
        if (self.staged / name).exists():
            os.replace(self.staged / name, self.out / name)


class NumbersFromNothing(OutFolder):
    """Wrong: what was published before a crash is overwritten after it."""

    make = NumbersItsParts


class AppendsToItsPart(Links):
    def name(self, checkpoint_id: int) -> str:
        return f"{self.context.subtask}-{checkpoint_id}"

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self.rows:
            self.pending[checkpoint_id] = name = self.name(checkpoint_id)
            with open(self.staged / name, "a") as file:
                file.writelines(f"[{split}, {offset}]\n" for split, offset in self.rows)
            self.rows = []
        return json.dumps(self.pending).encode()


class StagesInWhatIsThere(OutFolder):
    """Wrong: a checkpoint that was never complete comes again, and its part has rows already."""

    make = AppendsToItsPart

    def committed(self, scratch: Any) -> Any:
        for file in sorted(Path(scratch.path / "out").iterdir()):
            yield from map(json.loads, file.read_text().splitlines())
