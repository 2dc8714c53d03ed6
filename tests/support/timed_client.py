"""Sinks that reach a server over TCP, with a timeout: one sends again under another name what had no reply, and one
takes it for done.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from native_client import SERVER, Insert, OnServer
from own_server import port_of

from sinkproof import Scratch

TIMEOUT_SECONDS: Final = 0.5


class TimedClient:
    """A connection for each request."""

    timeout: float | None = TIMEOUT_SECONDS

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, **message: Any) -> Any:
        with socket.create_connection(("127.0.0.1", self.port), timeout=self.timeout) as connection:
            connection.sendall(json.dumps(message).encode() + b"\n")
            with connection.makefile("rb") as replies:
                reply = replies.readline()
        if not reply:
            raise ConnectionError("the server has hung up")
        return json.loads(reply)


class OneConnection(TimedClient):
    """Asks once more on the same connection, where a reply is that of the first question then."""

    @cached_property
    def connection(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=self.timeout)

    def ask(self, **message: Any) -> Any:
        try:
            return self.ask_once(message)
        except TimeoutError:
            self.give_up()
            return self.ask_once(message)

    def give_up(self) -> None:
        """The connection goes on."""

    def ask_once(self, message: object) -> Any:
        reply = b""
        self.connection.sendall(json.dumps(message).encode() + b"\n")
        while not reply.endswith(b"\n"):
            part = self.connection.recv(1)
            if not part:
                raise ConnectionError("the server has hung up")
            reply += part
        return json.loads(reply)


class NewConnection(OneConnection):
    """Asks once more on another one."""

    def give_up(self) -> None:
        self.connection.close()
        del self.connection


class PatientClient(TimedClient):
    timeout = None


class InsertAgain(Insert):
    """The server knows the name of what it has got before."""

    times_later = ""
    client_made = TimedClient

    def __init__(self, folder: Path) -> None:
        self.folder, self.client = folder, self.client_made(int((folder / "port").read_text()))

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        try:
            super().publish(part, rows)
        except TimeoutError:
            super().publish(f"{part}{self.times_later}", rows)


class InsertAndGoOn(InsertAgain):
    def publish(self, part: str, rows: Sequence[Any]) -> None:
        asyncio.run(self.send(part, rows))

    async def send(self, part: str, rows: Sequence[Any]) -> None:
        request = asyncio.get_running_loop().run_in_executor(None, Insert.publish, self, part, rows)
        done, _ = await asyncio.wait([request], timeout=TIMEOUT_SECONDS / 2)
        for each in done:
            each.result()


class InsertUnlessThere(InsertAgain):
    client_made = OneConnection

    def is_committed(self, part: str) -> bool:
        return bool(self.client.ask(part=part))

    def record(self, part: str) -> None:
        """Nothing: the server has it."""


class InsertUnlessThereSafely(InsertUnlessThere):
    client_made = NewConnection


class InsertPatiently(InsertAgain):
    client_made = PatientClient


class InsertUnderAnotherName(InsertAgain):
    times_later = "-again"


class SentAgain(OnServer):
    """Right."""

    made = InsertAgain

    def program(self, scratch: Scratch) -> Sequence[str]:
        return SERVER

    def committed(self, scratch: Scratch) -> Iterator[Sequence[Any]]:
        yield from TimedClient(port_of(scratch)).ask()


class SentWithoutTimeout(SentAgain):
    """Right."""

    made = InsertPatiently


class LateRepliesTaken(SentAgain):
    """Wrong: after a timeout each reply is that of the request before."""

    made = InsertUnlessThere


class LateRepliesLeft(SentAgain):
    """Right."""

    made = InsertUnlessThereSafely


class SentUnderAnotherName(SentAgain):
    """Wrong: the request may have been carried out, and only the reply was late."""

    made = InsertUnderAnotherName


class TakenForDone(SentAgain):
    """Wrong: what is not done when the time is over is left alone."""

    made = InsertAndGoOn
