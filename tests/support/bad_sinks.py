"""A small correct sink, and versions of it that hang, exit, raise or print. Certified by test_bad_input.py.

Every class with `behave` misbehaves whenever it is written to; those with `recover`, only in an attempt that takes
over from another one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from sinkproof import Batch, Claim, Context, Scratch

EATEN_AT_ONCE_BYTES: Final = 1 << 26


class Sink:
    """Each checkpoint of each subtask becomes one file, by one rename, under a name that is always the same."""

    def __init__(self, folder: Path, contract: type[Contract]) -> None:
        self.folder, self.contract = folder, contract
        self.rows: list[tuple[int, int]] = []
        self.pending: dict[int, list[tuple[int, int]]] = {}

    def open(self, context: Context) -> None:
        self.context = context
        os.makedirs(self.folder / "out", exist_ok=True)
        if context.restored:
            self.contract.recover()
        for subtask, state in context.restored:
            for checkpoint_id, rows in json.loads(state):
                self.publish(f"{subtask}-{checkpoint_id}", rows)

    def write(self, batch: Batch) -> None:
        self.contract.behave()
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in [older for older in self.pending if older <= checkpoint_id]:
            self.publish(f"{self.context.subtask}-{older}", self.pending.pop(older))

    def publish(self, name: str, rows: list[Any]) -> None:
        temporary = self.folder / f"temporary-{self.context.subtask}-{self.context.generation}"
        temporary.write_text(json.dumps(rows))
        os.replace(temporary, self.folder / "out" / f"{name}.json")


class Contract:
    """Nothing is wrong with it."""

    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch: Scratch) -> Any:
        return Sink(scratch.path, type(self))

    def committed(self, scratch: Scratch) -> Iterator[tuple[int, int]]:
        for file in sorted((scratch.path / "out").glob("*.json")):
            yield from json.loads(file.read_text())

    @staticmethod
    def behave() -> None:
        pass

    @staticmethod
    def recover() -> None:
        pass


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- no job with them finishes -------------------------------------------------------------------


class Hangs(Contract):
    @staticmethod
    def behave() -> None:
        say("waiting for a lock that is never released")
        while True:
            signal.pause()


class Exits(Contract):
    @staticmethod
    def behave() -> None:
        say("the licence has expired")
        os._exit(3)


class Raises(Contract):
    @staticmethod
    def behave() -> None:
        raise ConnectionRefusedError("no server at port 1")


class EatsMemory(Contract):
    eaten: Final[list[bytes]] = []

    @staticmethod
    def behave() -> None:
        while True:
            EatsMemory.eaten.append(bytes(EATEN_AT_ONCE_BYTES))


class LosesAllRows(Contract):
    def committed(self, scratch: Scratch) -> Iterator[tuple[int, int]]:
        return iter(())


# -- only after a fault --------------------------------------------------------------------------


class RaisesInRecovery(Contract):
    @staticmethod
    def recover() -> None:
        raise LookupError("no transaction of that name")


class ExitsInRecovery(Contract):
    @staticmethod
    def recover() -> None:
        say("the transaction log is locked")
        os._exit(4)


# -- harmless ------------------------------------------------------------------------------------


class Prints(Contract):
    @staticmethod
    def behave() -> None:
        print("\x00\x1b[2J{ this is no JSON")
        os.write(1, b"\xff\xfe\n")


class StartsDaemons(Contract):
    """Each process of the sink starts a daemon in a session of its own, which never ends."""

    started: ClassVar[set[int]] = set()

    @staticmethod
    def behave() -> None:
        if os.getpid() in StartsDaemons.started:
            return
        StartsDaemons.started.add(os.getpid())
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        os.setsid()
        if os.fork() == 0:
            while True:
                signal.pause()
        os._exit(0)


# -- invalid contracts ---------------------------------------------------------------------------


class WithoutCommitted:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch: Scratch) -> Any:
        return Sink(scratch.path, Contract)


class WithoutClaims:
    def sink(self, scratch: Scratch) -> Any:
        return None

    def committed(self, scratch: Scratch) -> list[Any]:
        return []


class ClaimsWhatIsUnknown(Contract):
    claims = "FASTER_THAN_LIGHT"  # type: ignore[assignment]


class CannotBeMade(Contract):
    def __init__(self) -> None:
        raise RuntimeError("no configuration found")


class ReturnsNoSink(Contract):
    def sink(self, scratch: Scratch) -> Any:
        return object()


class SinkRaises(Contract):
    def sink(self, scratch: Scratch) -> Any:
        raise RuntimeError("no credentials")


class CommittedRaises(Contract):
    def committed(self, scratch: Scratch) -> Iterator[tuple[int, int]]:
        raise KeyError("offset")


class CommittedGivesNonsense(Contract):
    def committed(self, scratch: Scratch) -> Any:
        return [1, 2, 3]


def make() -> type:
    class Inside(Contract):
        pass

    return Inside


Inside = make()
