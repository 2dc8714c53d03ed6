"""A server that reserves the name of a part when its head has come, and gives it back if no body follows; and sinks
that send both in one line. Wrong: TakesBusyForDone. Right: AsksAgain, of which the attempt fails.
"""

from __future__ import annotations

import json
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

from own_server import OwnServer, port_of, serve

from sinkproof import Claim, Scratch

DONE, BUSY = b"done\n", b"busy\n"


class Parts(socketserver.StreamRequestHandler):
    reserved: ClassVar[set[str]] = set()
    stored: ClassVar[dict[str, Any]] = {}
    one_at_a_time = threading.Lock()

    def handle(self) -> None:
        for head in self.rfile:
            name = json.loads(head)
            self.wfile.write(self.answer(name))

    def answer(self, name: str) -> bytes:
        if not name:
            return json.dumps([row for rows in self.stored.values() for row in rows]).encode() + b"\n"
        with self.one_at_a_time:
            is_ours = name not in self.reserved and name not in self.stored
            self.reserved.update([name] if is_ours else [])
        body = self.rfile.readline()
        with self.one_at_a_time:
            if not is_ours:
                return DONE if name in self.stored else BUSY
            self.reserved.discard(name)
            if body:
                self.stored[name] = json.loads(body)
            return DONE


class Sender:
    asks_again = False

    def __init__(self, port: int) -> None:
        self.port = port

    @cached_property
    def connection(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port))

    def is_committed(self, part: str) -> bool:
        return False

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        texts = json.dumps(part), json.dumps([[row.split, row.offset] for row in rows])
        [self.connection.sendall(text.encode() + b"\n") for text in texts]
        if self.connection.recv(100) == BUSY and self.asks_again:
            raise ConnectionError("another attempt is about to send it")

    def record(self, part: str) -> None:
        """The server knows it."""

    def close(self) -> None:
        self.connection.close()


class AskingSender(Sender):
    asks_again = True


class TakesBusyForDone(OwnServer):
    claims = Claim.EXACTLY_ONCE
    made: ClassVar[type[Sender]] = Sender

    def program(self, scratch: Scratch) -> Sequence[str]:
        return [sys.executable, __file__]

    def sink(self, scratch: Scratch) -> Sender:
        return self.made(port_of(scratch))

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        with (
            socket.create_connection(("127.0.0.1", port_of(scratch))) as connection,
            connection.makefile("rwb") as file,
        ):
            file.write(b'""\n')
            file.flush()
            yield from json.loads(file.readline())


class AsksAgain(TakesBusyForDone):
    made = AskingSender


if __name__ == "__main__":
    serve(Parts)
