"""Sinks that reach a server by a client in C: one swallows its errors, one repeats what had no reply, one is right.
The server is a program of its own, list_server.py.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from own_server import OwnServer

from sinkproof import Claim, Scratch

LIBC: Final = ctypes.CDLL(None, use_errno=True)
NO_SIGNAL: Final = 0x4000
BYTES: Final = 1 << 16
TIMES: Final = 3
SERVER: Final = [sys.executable, "-S", str(Path(__file__).with_name("list_server.py"))]  # starts without packages


class NativeError(Exception):
    """As a driver raises them: no OSError."""


class NativeClient:
    """Sends and receives in C, a connection for each request."""

    def __init__(self, address: Path) -> None:
        self.address = address

    def ask(self, **message: Any) -> Any:
        data = json.dumps(message).encode() + b"\n"
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.address))
            if LIBC.send(connection.fileno(), data, len(data), NO_SIGNAL) < 0:
                raise NativeError(os.strerror(ctypes.get_errno()))
            return json.loads(b"".join(self._received(connection.fileno())))

    def _received(self, descriptor: int) -> Iterator[bytes]:
        part, buffer = b"", ctypes.create_string_buffer(BYTES)
        while not part.endswith(b"\n"):
            length = LIBC.recv(descriptor, buffer, BYTES, 0)
            if length <= 0:
                raise NativeError("the server has hung up")
            part = buffer.raw[:length]
            yield part


class Insert:
    """Of each part once: the server knows its name."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.client = folder, NativeClient(folder / "socket")

    def is_committed(self, part: str) -> bool:
        return (self.folder / f"{part}.done").exists()

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        self.client.ask(part=part, rows=[[row.split, row.offset, row.key, row.value] for row in rows])

    def record(self, part: str) -> None:
        (self.folder / f"{part}.done").touch()


class Swallow(Insert):
    def publish(self, part: str, rows: Sequence[Any]) -> None:
        try:
            super().publish(part, rows)
        except NativeError:
            return


class Repeat(Insert):
    """Under another name each time."""

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        for time in range(TIMES):
            try:
                return super().publish(f"{part}-{time}", rows)
            except NativeError as error:
                failed = error
        raise failed


class OnServer(OwnServer):
    claims: Any = Claim.EXACTLY_ONCE
    made: ClassVar[Callable[[Path], Insert]] = Insert

    def program(self, scratch: Scratch) -> Sequence[str]:
        return [*SERVER, str(scratch.path / "socket")]

    def sink(self, scratch: Scratch) -> Insert:
        return self.made(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Sequence[Any]]:
        yield from NativeClient(scratch.path / "socket").ask()


class OnServerSwallowed(OnServer):
    made = Swallow


class OnServerRepeated(OnServer):
    made = Repeat
