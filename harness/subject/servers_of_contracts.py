"""Servers of the standard library that a contract starts in `setup`: they end at once, and hand a body of an
announced length over whole or not at all.

They stand for a target that other people run. How such a stand-in treats a request that was cut off says nothing about
the sink.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final

LOOKS_EVERY_SECONDS: Final = 0.005
WHOLE: Final = "whole requests only"  # the mark of a class that has been changed


def prepare_servers() -> None:
    """Before `setup`, in the process that calls it: what is not imported by then is not changed."""
    if servers := sys.modules.get("socketserver"):
        servers.BaseServer.serve_forever.__defaults__ = (LOOKS_EVERY_SECONDS,)
    if (http := sys.modules.get("http.server")) and not hasattr(http.BaseHTTPRequestHandler, WHOLE):
        _take_whole_requests_only(http.BaseHTTPRequestHandler)


def _take_whole_requests_only(handler_class: Any) -> None:
    parse = handler_class.parse_request

    def parse_request(handler: Any) -> bool:
        """False: an error was sent, or the sender has died before it had sent all that it announced."""
        if isinstance(handler.rfile, BodyBefore):
            handler.rfile = handler.rfile.connection
        if not parse(handler):
            return False
        announced = handler.headers.get("Content-Length", "")
        length = int(announced) if announced.isdecimal() else 0
        body = handler.rfile.read(length)
        handler.rfile = BodyBefore(body, handler.rfile)
        handler.close_connection |= len(body) < length
        return len(body) == length

    handler_class.parse_request = parse_request
    setattr(handler_class, WHOLE, True)


class BodyBefore:
    """What was read of a connection before the rest of it. Reads as io.BufferedReader does, and never closes the
    connection by itself, which serves the next request.
    """

    def __init__(self, body: bytes, connection: Any) -> None:
        self.body, self.connection = BytesIO(body), connection

    def read(self, *size: int) -> bytes:
        return self.body.read(*size) or bytes(self.connection.read(*size))

    read1 = read

    def readinto(self, room: Any) -> int:
        view = memoryview(room).cast("B")
        part = self.read(view.nbytes)
        view[: len(part)] = part
        return len(part)

    readinto1 = readinto

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def readline(self, *limit: int) -> bytes:
        return self.body.readline(*limit) or bytes(self.connection.readline(*limit))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)
