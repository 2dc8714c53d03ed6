"""Sinks that reach a server over TCP, with a timeout: one sends again under another name what had no reply, and one
takes it for done.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from native_client import SERVER, Insert, OnServer

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


class InsertPatiently(InsertAgain):
    client_made = PatientClient


class InsertUnderAnotherName(InsertAgain):
    times_later = "-again"


class SentAgain(OnServer):
    """Right."""

    made = InsertAgain

    def setup(self, scratch: Scratch) -> None:
        self.server = subprocess.Popen(SERVER, stdout=subprocess.PIPE, text=True)
        assert self.server.stdout is not None
        (scratch.path / "port").write_text(self.server.stdout.readline())

    def committed(self, scratch: Scratch) -> Iterator[Sequence[Any]]:
        yield from TimedClient(int((scratch.path / "port").read_text())).ask()


class SentWithoutTimeout(SentAgain):
    """Right."""

    made = InsertPatiently


class SentUnderAnotherName(SentAgain):
    """Wrong: the request may have been carried out, and only the reply was late."""

    made = InsertUnderAnotherName


class TakenForDone(SentAgain):
    """Wrong: what is not done when the time is over is left alone."""

    made = InsertAndGoOn
