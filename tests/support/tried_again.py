"""Sinks that try a call again that has failed. Wrong: GivesUp, after three times without a word; TakesForDone, whatever
comes with the number EIO; BreaksForGood, as no attempt can open after three errors; PassesOver, what five attempts
have died with. Right: Raises, and CountsOnly, which publishes it all the same.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from parts_of_checkpoints import JsonParts, PartsOfCheckpoints

from sinkproof import Scratch


class GivingUp(PartsOfCheckpoints):
    def __init__(self, folder: Path, raises: bool) -> None:
        super().__init__()
        self.folder, self.raises = folder, raises

    def publish(self, name: str, rows: list[Any]) -> None:
        for tries_left in (2, 1, 0):
            try:
                self.put(self.folder / name, rows)
                break
            except OSError:
                if self.raises and not tries_left:
                    raise

    def put(self, part: Path, rows: list[Any]) -> None:
        part.with_suffix(".new").write_text(json.dumps(rows))
        os.replace(part.with_suffix(".new"), part.with_suffix(".json"))


class TakingForDone(GivingUp):
    def publish(self, name: str, rows: list[Any]) -> None:
        try:
            self.put(self.folder / name, rows)
        except OSError as error:
            if error.errno != errno.EIO:
                raise


class Breaking(GivingUp):
    def open(self, context: Any) -> None:
        if (self.folder / "broken").exists():
            raise RuntimeError("it needs a repair by hand")
        super().open(context)

    def publish(self, name: str, rows: list[Any]) -> None:
        try:
            super().publish(name, rows)
        except OSError:
            (self.folder / "broken").touch()
            raise


class CountingAttempts(GivingUp):
    """A part that has been begun too often is said to be poison."""

    passes_over = False

    def publish(self, name: str, rows: list[Any]) -> None:
        tries = self.folder / f"{name}.tries"
        before = tries.stat().st_size if tries.exists() else 0
        with tries.open("a") as file:
            file.write("+")
        if before < 5 or not self.passes_over:
            self.put(self.folder / name, rows)
        tries.unlink()


class PassingOver(CountingAttempts):
    passes_over = True


class GivesUp(JsonParts):
    raises = False

    def sink(self, scratch: Scratch) -> Any:
        return GivingUp(scratch.path, self.raises)


class Raises(GivesUp):
    raises = True


class TakesForDone(GivesUp):
    def sink(self, scratch: Scratch) -> Any:
        return TakingForDone(scratch.path, raises=True)


class BreaksForGood(GivesUp):
    def sink(self, scratch: Scratch) -> Any:
        return Breaking(scratch.path, raises=True)


class CountsOnly(GivesUp):
    def sink(self, scratch: Scratch) -> Any:
        return CountingAttempts(scratch.path, raises=True)


class PassesOver(GivesUp):
    def sink(self, scratch: Scratch) -> Any:
        return PassingOver(scratch.path, raises=True)
