"""A table server, where a lock ends with the session that holds it, and sinks that hold theirs in a session of its own.
Wrong: LooksThenAppends, which the session that appends outlives. Right: PutsIfAbsent.
"""

from __future__ import annotations

import json
import socket
import socketserver
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from own_server import OwnServer, port_of, serve
from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Claim, Context, Scratch


class Table(socketserver.StreamRequestHandler):
    locks: dict[str, threading.Lock] = defaultdict(threading.Lock)  # noqa: RUF012
    parts: list[tuple[str, Any]] = []  # noqa: RUF012
    one_at_a_time = threading.Lock()

    def handle(self) -> None:
        held = []
        try:
            for line in self.rfile:
                what, name, rows = json.loads(line)
                if what == "lock":
                    self.locks[name].acquire()
                    held.append(name)
                with self.one_at_a_time:
                    answer = self.answer(what, name, rows)
                self.wfile.write(json.dumps(answer).encode() + b"\n")
        except ConnectionError:
            pass
        for name in held:
            self.locks[name].release()

    def answer(self, what: str, name: str, rows: Any) -> Any:
        is_there = any(part == name for part, _ in self.parts)
        if what == "append" or (what == "put" and not is_there):
            self.parts.append((name, rows))
        return [rows for _, rows in self.parts] if what == "read" else is_there


class Session:
    def __init__(self, port: int) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.answers = self.connection.makefile("rb")

    def ask(self, what: str, *, name: str = "", rows: Any = None) -> Any:
        self.connection.sendall(json.dumps([what, name, rows]).encode() + b"\n")
        return json.loads(self.answers.readline())

    def close(self) -> None:
        self.answers.close()
        self.connection.close()


class Leased(PartsOfCheckpoints):
    def __init__(self, port: int, *, looks: bool) -> None:
        super().__init__()
        self.port, self.looks = port, looks

    def open(self, context: Context) -> None:
        self.lease, self.writer = Session(self.port), Session(self.port)
        self.lease.ask("lock", name=str(context.subtask))
        super().open(context)

    def publish(self, name: str, rows: list[Any]) -> None:
        if not self.looks:
            self.writer.ask("put", name=name, rows=rows)
        elif not self.writer.ask("has", name=name):
            self.writer.ask("append", name=name, rows=rows)


class LooksThenAppends(OwnServer):
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False
    looks = True

    def program(self, scratch: Scratch) -> Sequence[str]:
        return [sys.executable, __file__]

    def sink(self, scratch: Scratch) -> Leased:
        return Leased(port_of(scratch), looks=self.looks)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        reader = Session(port_of(scratch))
        for rows in reader.ask("read"):
            yield from rows
        reader.close()


class PutsIfAbsent(LooksThenAppends):
    looks = False


if __name__ == "__main__":
    serve(Table)
