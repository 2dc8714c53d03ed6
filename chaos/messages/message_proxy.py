"""A proxy in front of Kafka brokers that understands messages, and breaks the ones that it was told to break.

It is a process of its own, with one task for each direction of each connection. What is armed is one message each: the
n-th request, or reply, of one kind since it was armed. All others go through untouched, in order.

    drop     it is gone, and the connection with it: a reply that is lost belongs to a request that was carried out
    delay    it arrives later than its client waits for it
    double   a request is carried out twice, as after a retry; one reply is given
    hold     the connection is gone, and the request is carried out later, when its client has long asked again
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final

HOST: Final = "127.0.0.1"
APIS: Final = {0: "produce", 22: "init_producer", 24: "add_partitions", 26: "end_txn"}
DELAY_SECONDS: Final = 2.5  # our own clients wait for 2
HOLD_SECONDS: Final = 0.2  # after its repetition has been answered; a client that was cut off asks again at once
HEADER: Final = struct.Struct(">ihhi")  # length, kind, version, number of the request
BYTES_MOST: Final = 1 << 27


class Cut(Exception):
    """The connection ends here, in both directions."""


class Proxy:
    """What is armed, and what has passed since."""

    def __init__(self) -> None:
        self.armed: dict[tuple[str, int], str] = {}  # (which message, which of them) -> what is done to it
        self.passed: Counter[str] = Counter()
        self.struck: list[tuple[str, int, str]] = []
        self.requests = self.request_bytes = 0  # of every kind
        self.held = 0  # requests on their way without a client
        self.repetitions: dict[str, asyncio.Event] = {}  # what a held request waits for: an answer to another one
        self.landed = asyncio.Event()
        self.landed.set()
        self.ways: dict[int, int] = {}  # to a broker's port, by another port; those that are missing are straight
        self.tasks: set[asyncio.Task[None]] = set()

    def fate(self, message: str) -> str:
        """Of the next one of its kind; "": it goes through."""
        self.passed[message] += 1
        key = message, self.passed[message]
        kind = self.armed.pop(key, "")
        if kind:
            self.struck.append((*key, kind))
        return kind

    def hold(self, more: int) -> None:
        self.held += more
        self.landed.clear() if self.held else self.landed.set()

    def answered(self, message: str) -> None:
        if (repetition := self.repetitions.pop(message, None)) is not None:
            repetition.set()

    def go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One question a line. `arm` forgets what was armed and counted before."""
        with suppress(OSError):
            while line := await reader.readline():
                request = json.loads(line)
                if request["do"] == "arm":
                    self.armed = {(message, number): kind for message, number, kind in request["faults"]}
                    self.passed, self.struck = Counter(), []
                elif request["do"] == "land":
                    await self.landed.wait()
                elif request["do"] == "lead":
                    self.ways = dict(request["ways"])
                counted = {"requests": self.requests, "request_bytes": self.request_bytes}
                answer = {"passed": self.passed, "struck": self.struck, **counted}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        writer.close()


class Connection:
    """One client's, and the one to its broker."""

    def __init__(self, proxy: Proxy, client: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.proxy = proxy
        self.client_reader, self.client = client
        # Replies to come that matter, by the number of the request, which no other one of this connection has.
        self.awaited: dict[int, list[tuple[str, bool]]] = {}
        self.waits_alone = False  # the client is gone; a request of it is not

    async def run(self, port: int) -> None:
        try:
            self.broker_reader, self.broker = await asyncio.open_connection(HOST, port)
        except OSError:
            self.client.close()
            return
        pumps = [asyncio.create_task(self._requests()), asyncio.create_task(self._replies())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self.client.close()
            if not self.waits_alone:
                self.broker.close()

    async def _requests(self) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, Cut):
            while True:
                data = await frame(self.client_reader)
                if len(data) < HEADER.size:
                    raise Cut
                await self._request(data)

    async def _request(self, data: bytes) -> None:
        _, kind, _, number = HEADER.unpack_from(data)
        self.proxy.requests += 1
        self.proxy.request_bytes += len(data)
        api = APIS.get(kind, "")
        fate = self.proxy.fate(f"{api}.request") if api else ""
        if fate == "drop":
            raise Cut
        if fate == "hold":
            self.waits_alone = True
            self.proxy.hold(1)
            self.proxy.go(self._land(data, self.proxy.repetitions.setdefault(f"{api}.reply", asyncio.Event())))
            raise Cut
        if fate == "delay":
            await asyncio.sleep(DELAY_SECONDS)
        for again in range(2 if fate == "double" else 1):
            if api:
                self.awaited.setdefault(number, []).append((api, not again))
            self.broker.write(data)
        await self.broker.drain()

    async def _land(self, data: bytes, repeated: asyncio.Event) -> None:
        """After all. Nobody hears the answer."""
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(repeated.wait(), DELAY_SECONDS)
            await asyncio.sleep(HOLD_SECONDS)
            self.broker.write(data)
            await self.broker.drain()
            await asyncio.wait_for(frame(self.broker_reader), DELAY_SECONDS)
        except (OSError, asyncio.IncompleteReadError, TimeoutError, Cut):
            pass  # the broker is away: so is the request
        finally:
            self.proxy.hold(-1)
            self.broker.close()

    async def _replies(self) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, Cut):
            while True:
                data = await frame(self.broker_reader)
                (number,) = struct.unpack_from(">i", data, 4)
                waiting = self.awaited.pop(number, [])
                api, wanted = waiting.pop(0) if waiting else ("", True)
                if waiting:
                    self.awaited[number] = waiting
                if not wanted:
                    continue
                fate = self.proxy.fate(f"{api}.reply") if api else ""
                if fate == "drop":
                    raise Cut
                if fate == "delay":
                    await asyncio.sleep(DELAY_SECONDS)
                self.client.write(data)
                await self.client.drain()
                if api:
                    self.proxy.answered(f"{api}.reply")


async def frame(reader: asyncio.StreamReader) -> bytes:
    """One message with its length."""
    head = await reader.readexactly(4)
    (length,) = struct.unpack(">i", head)
    if not 4 <= length <= BYTES_MOST:
        raise Cut
    return head + await reader.readexactly(length)


async def serve(control_port: int, ways: list[tuple[int, int]]) -> None:
    """`ways`: where clients come in, and the broker that they are led to."""
    proxy = Proxy()

    async def lead(to: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Connection(proxy, (reader, writer)).run(proxy.ways.get(to, to))

    servers = [await asyncio.start_server(proxy.control, HOST, control_port)]
    for front, back in ways:
        servers.append(await asyncio.start_server(partial(lead, back), HOST, front))
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main(control_port: int, ways: list[tuple[int, int]]) -> None:
    """The process: until it is killed."""
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(control_port, ways))
    sys.exit(0)
