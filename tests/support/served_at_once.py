"""Sinks that send each part to a server of their own, which leaves out what it has. It is wrong where it looks first,
and appends then (InTwoSteps): two equal requests at once find nothing, both of them; and where it notes the part of a
request that ends early (NotesHalves).
"""

from __future__ import annotations

import json
import re
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from socketserver import StreamRequestHandler
from threading import Barrier, BrokenBarrierError, Lock
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from own_server import OwnServer, port_of, serve

from sinkproof import Batch, Claim, Context, Scratch

MEETING_SECONDS = 2.0  # for so long a request waits for an equal one, while its subtask has two connections


class Parts(StreamRequestHandler):
    rows: list[tuple[str, list[Any]]] = []  # noqa: RUF012
    connected: Counter[int] = Counter()  # noqa: RUF012
    meeting, lock = Barrier(2), Lock()
    decides_at_once = True

    def handle(self) -> None:
        subtask = None
        with suppress(ConnectionError):
            for line in self.rfile:
                if not line.endswith(b"\n"):
                    self.end_early(line)
                    break
                message = json.loads(line)
                if "subtask" in message:
                    subtask = message["subtask"]
                    self.connected[subtask] += 1
                self.wfile.write(json.dumps(self.answer(message, subtask)).encode() + b"\n")
        if subtask is not None:
            self.connected[subtask] -= 1

    def answer(self, message: dict[str, Any], subtask: int | None) -> object:
        if "part" not in message:
            return [row for _, rows in self.rows for row in rows]
        if self.decides_at_once:
            with self.lock:
                return self.append(message, is_there=self.has(message["part"]))
        is_there = self.has(message["part"])
        if not is_there and self.connected[subtask or 0] > 1:
            with suppress(BrokenBarrierError):
                self.meeting.wait(MEETING_SECONDS)
            self.meeting.reset()
        return self.append(message, is_there=is_there)

    def end_early(self, line: bytes) -> None:
        """The client has died."""

    def has(self, part: str) -> bool:
        return part in [name for name, _ in self.rows]

    def append(self, message: dict[str, Any], *, is_there: bool) -> str:
        if not is_there:
            self.rows.append((message["part"], message["rows"]))
        return "done"


class PartsInTwoSteps(Parts):
    decides_at_once = False


class HalvesToo(Parts):
    def end_early(self, line: bytes) -> None:
        if found := re.match(rb'{"part": "([^"]+)"', line):
            self.append({"part": found[1].decode(), "rows": []}, is_there=self.has(found[1].decode()))


class PartsSink:
    def __init__(self, port: int) -> None:
        self.port = port
        self.rows: list[tuple[Any, ...]] = []
        self.pending: dict[int, list[tuple[Any, ...]]] = {}

    def open(self, context: Context) -> None:
        self.context = context
        self.connection = socket.create_connection(("127.0.0.1", self.port))
        self.replies = self.connection.makefile("rb")
        self.ask({"subtask": context.subtask})
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.ask({"part": f"{subtask}-{checkpoint}", "rows": rows})

    def ask(self, message: dict[str, Any]) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")
        if not self.replies.readline():
            raise ConnectionError("the server has hung up")

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset, row.key, row.value) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for number in sorted(number for number in self.pending if number <= checkpoint_id):
            self.ask({"part": f"{self.context.subtask}-{number}", "rows": self.pending.pop(number)})

    def close(self) -> None:
        self.connection.close()


class AtOnce(OwnServer):
    claims = Claim.EXACTLY_ONCE
    handler = Parts

    def program(self, scratch: Scratch) -> Sequence[str]:
        return [sys.executable, __file__, self.handler.__name__]

    def sink(self, scratch: Scratch) -> PartsSink:
        return PartsSink(port_of(scratch))

    def committed(self, scratch: Scratch) -> Iterator[tuple[Any, ...]]:
        with socket.create_connection(("127.0.0.1", port_of(scratch))) as connection:
            connection.sendall(b"{}\n")
            yield from map(tuple, json.loads(connection.makefile().readline()))


class InTwoSteps(AtOnce):
    """Wrong."""

    handler = PartsInTwoSteps


class NotesHalves(AtOnce):
    """Wrong."""

    handler = HalvesToo


if __name__ == "__main__":
    serve({handler.__name__: handler for handler in (Parts, PartsInTwoSteps, HalvesToo)}[sys.argv[1]])
