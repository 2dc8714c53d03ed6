"""A server that keeps an open journal in the scratch folder, each part once, and a right sink of it."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from socketserver import StreamRequestHandler
from typing import Any, TextIO

sys.path.insert(0, str(Path(__file__).parent))

from own_server import OwnServer, port_of, serve

from sinkproof import Claim, Scratch


class Journal(StreamRequestHandler):
    known: set[str] = set()  # noqa: RUF012
    lock = threading.Lock()
    journal: TextIO

    def handle(self) -> None:
        part, rows = json.loads(self.rfile.readline())
        with self.lock:
            if part not in self.known:
                self.journal.write("".join(f"{json.dumps(row)}\n" for row in rows))
                self.journal.flush()
                self.known.add(part)
        self.wfile.write(b"done\n")


class Target:
    def __init__(self, port: int) -> None:
        self.port = port

    def is_committed(self, part: str) -> bool:
        return False

    def publish(self, part: str, rows: Iterable[Any]) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(json.dumps([part, [[row.split, row.offset] for row in rows]]).encode() + b"\n")
            if not connection.makefile().readline():
                raise ConnectionError("no reply")

    def record(self, part: str) -> None:
        """The journal has it."""


class Journaled(OwnServer):
    claims = Claim.EXACTLY_ONCE

    def program(self, scratch: Scratch) -> Sequence[str]:
        return [sys.executable, __file__, str(scratch.path / "journal")]

    def sink(self, scratch: Scratch) -> Target:
        return Target(port_of(scratch))

    def committed(self, scratch: Scratch) -> Iterator[tuple[int, int]]:
        yield from (tuple(json.loads(line)) for line in (scratch.path / "journal").read_text().splitlines())


if __name__ == "__main__":
    with open(sys.argv[1], "a") as Journal.journal:
        serve(Journal)
