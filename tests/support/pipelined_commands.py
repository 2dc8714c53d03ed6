"""Sinks that send several commands in one request to a server like Redis: some of them may be refused."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from typing import Any, ClassVar, Final

from own_server import OwnServer, port_of

from sinkproof import Claim, Scratch

SERVER: Final = [sys.executable, "-S", str(Path(__file__).with_name("redis_server.py"))]
PARTS, ROWS = "parts", "rows"


class RefusedError(Exception):
    """As a client raises it: no OSError."""


class Client:
    def __init__(self, port: int) -> None:
        self.port = port

    @cached_property
    def connection(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port))

    @cached_property
    def replies(self) -> BufferedReader:
        return self.connection.makefile("rb")

    def ask(self, *commands: Sequence[str]) -> list[Any]:
        """Raises the first error after all replies have come."""
        self.connection.sendall(b"".join(map(_command, commands)))
        replies = [self._reply() for _ in commands]
        for error in (reply for reply in replies if isinstance(reply, RefusedError)):
            raise error
        return replies

    def close(self) -> None:
        self.replies.close()
        self.connection.close()

    def _reply(self) -> Any:
        head = self.replies.readline()
        if not head:
            raise ConnectionError("the server has hung up")
        kind, about = head[:1], head[1:-2]
        if kind == b"-":
            return RefusedError(about.decode())
        if kind == b"*":
            return [self._reply() for _ in range(int(about))]
        return int(about) if kind == b":" else self.replies.read(int(about) + 2)[:-2].decode()


def _command(words: Sequence[str]) -> bytes:
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Pipelined:
    """The mark comes first, and holds although rows were refused."""

    def __init__(self, port: int) -> None:
        self.client = Client(port)

    def close(self) -> None:
        self.client.close()

    def is_committed(self, part: str) -> bool:
        [found] = self.client.ask(("HEXISTS", PARTS, part))
        return bool(found)

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        self.client.ask(self.mark(part), *map(inserted, rows))

    def record(self, part: str) -> None:
        """Published with the rows."""

    def mark(self, part: str) -> Sequence[str]:
        return "HSET", PARTS, part, "1"


class MarkedAfterwards(Pipelined):
    def publish(self, part: str, rows: Sequence[Any]) -> None:
        self.client.ask(*map(inserted, rows))

    def record(self, part: str) -> None:
        self.client.ask(self.mark(part))


class Skipping(MarkedAfterwards):
    """What is refused is left out."""

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        for row in rows:
            try:
                self.client.ask(inserted(row))
            except RefusedError:
                continue


def inserted(row: Any) -> Sequence[str]:
    return "HSET", ROWS, f"{row.split}:{row.offset}", json.dumps([row.split, row.offset, row.key, row.value])


class MarkedFirst(OwnServer):
    """Wrong: a mark beside refused rows."""

    claims: Any = Claim.EXACTLY_ONCE
    made: ClassVar[type[Pipelined]] = Pipelined

    def program(self, scratch: Scratch) -> Sequence[str]:
        return SERVER

    def sink(self, scratch: Scratch) -> Pipelined:
        return self.made(port_of(scratch))

    def committed(self, scratch: Scratch) -> Iterator[Sequence[Any]]:
        client = Client(port_of(scratch))
        [rows] = client.ask(("HVALS", ROWS))
        client.close()
        yield from map(json.loads, rows)


class MarkedLast(MarkedFirst):
    """Right: rows may be sent again."""

    made = MarkedAfterwards


class Skipped(MarkedFirst):
    """Wrong: rows that are refused are passed over."""

    made = Skipping
