"""A proxy in front of Kafka brokers that parses messages and injects the armed faults into them.

It is a process of its own, with one task for each direction of each connection. An armed fault applies to one message:
the n-th request, or reply, of one kind since it was armed. All other messages pass unchanged, in order.

    drop     the message is lost, and the connection with it: a lost reply belongs to a request that was carried out
    delay    the message arrives after its client has timed out
    double   a request is carried out twice, as after a retry; the client gets one reply
    hold     the connection is lost, and the request is carried out after its client has repeated it
    kill-sender    the client dies, and the message is lost: a request before it is carried out, a reply afterwards
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

from sinkproof.chaos.messages.message_sender import kill_sender

HOST: Final = "127.0.0.1"
KILL_SENDER: Final = "kill-sender"
APIS: Final = {0: "produce", 22: "init_producer", 24: "add_partitions", 26: "end_txn"}
DELAY_SECONDS: Final = 2.5  # request timeout of our own clients: 2
REPETITION_SECONDS: Final = 2.5  # a held request is sent after this, if its client does not repeat it
# After the answer to its repetition; a client that was disconnected repeats a request at once.
HOLD_SECONDS: Final = 0.2
HEADER: Final = struct.Struct(">ihhi")  # length, API, version, correlation id
BYTES_MOST: Final = 1 << 27


class Disconnected(Exception):
    """Closes the connection, in both directions."""


class Proxy:
    """The armed faults, and what has passed since they were armed."""

    def __init__(self, repetition_seconds: float) -> None:
        self.repetition_seconds = repetition_seconds
        self.armed: dict[tuple[str, int], str] = {}  # (message, occurrence) -> kind
        self.armed_by = 0  # the process that has armed them
        self.passed: Counter[str] = Counter()
        self.injected: list[tuple[str, int, str]] = []
        self.requests = self.request_bytes = 0  # of every kind
        self.held = 0  # requests that have not reached their broker yet
        self.repetitions: dict[str, asyncio.Event] = {}  # reply -> set when a repetition is answered
        self.landed = asyncio.Event()
        self.landed.set()
        self.routes: dict[int, int] = {}  # port of a broker -> port to connect to instead
        self.tasks: set[asyncio.Task[None]] = set()

    def take_fault(self, message: str) -> str:
        """Counts the message; returns the fault that is armed for this occurrence, "" for none."""
        self.passed[message] += 1
        key = message, self.passed[message]
        kind = self.armed.pop(key, "")
        if kind:
            self.injected.append((*key, kind))
        return kind

    def take_back(self, kind: str) -> None:
        """It had no effect, so that it counts as not injected."""
        self.injected = [each for each in self.injected if each[2] != kind]

    def count_held(self, more: int) -> None:
        self.held += more
        self.landed.clear() if self.held else self.landed.set()

    def answered(self, message: str) -> None:
        if (repetition := self.repetitions.pop(message, None)) is not None:
            repetition.set()

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request per line. `arm` replaces the armed faults and resets the counts."""
        with suppress(OSError):
            while line := await reader.readline():
                request = json.loads(line)
                if request["do"] == "arm":
                    self.armed = {(message, number): kind for message, number, kind in request["faults"]}
                    self.passed, self.injected, self.armed_by = Counter(), [], request["below"]
                elif request["do"] == "land":
                    await self.landed.wait()
                elif request["do"] == "reroute":
                    self.routes = dict(request["routes"])
                counted = {"requests": self.requests, "request_bytes": self.request_bytes}
                answer = {"passed": self.passed, "injected": self.injected, **counted}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        writer.close()


class ProxiedConnection:
    """The connection of one client, and the one to its broker."""

    def __init__(self, proxy: Proxy, client: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.proxy = proxy
        self.client_reader, self.client = client
        # Expected replies by correlation id, which is unique within a connection: (API, whether it goes to the client).
        self.awaited: dict[int, list[tuple[str, bool]]] = {}
        self.holds_request = False  # the client is disconnected, and its request is still to be sent

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
            if not self.holds_request:
                self.broker.close()

    async def _requests(self) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, Disconnected):
            while True:
                data = await frame(self.client_reader)
                if len(data) < HEADER.size:
                    raise Disconnected
                await self._request(data)

    async def _request(self, data: bytes) -> None:
        _, kind, _, number = HEADER.unpack_from(data)
        self.proxy.requests += 1
        self.proxy.request_bytes += len(data)
        api = APIS.get(kind, "")
        fault = self.proxy.take_fault(f"{api}.request") if api else ""
        self._end_client(fault)
        if fault == "hold":
            self.holds_request = True
            self.proxy.count_held(1)
            repeated = self.proxy.repetitions.setdefault(f"{api}.reply", asyncio.Event())
            self.proxy.start_task(self._send_late(data, repeated))
            raise Disconnected
        if fault == "delay":
            await asyncio.sleep(DELAY_SECONDS)
        for again in range(2 if fault == "double" else 1):
            if api:
                self.awaited.setdefault(number, []).append((api, not again))
            self.broker.write(data)
        await self.broker.drain()

    def _end_client(self, fault: str) -> None:
        """It loses its connection, or its life."""
        if fault == KILL_SENDER:
            port, front = (self.client.get_extra_info(end)[1] for end in ("peername", "sockname"))
            if not kill_sender(port, front, below=self.proxy.armed_by):
                self.proxy.take_back(fault)
        if fault in ("drop", KILL_SENDER):
            raise Disconnected

    async def _send_late(self, data: bytes, repeated: asyncio.Event) -> None:
        """Sends a held request after its repetition was answered. Its reply is discarded."""
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(repeated.wait(), self.proxy.repetition_seconds)
            await asyncio.sleep(HOLD_SECONDS)
            self.broker.write(data)
            await self.broker.drain()
            await asyncio.wait_for(frame(self.broker_reader), DELAY_SECONDS)
        except (OSError, asyncio.IncompleteReadError, TimeoutError, Disconnected):
            pass  # the broker is down, so the request is lost
        finally:
            self.proxy.count_held(-1)
            self.broker.close()

    async def _replies(self) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, Disconnected):
            while True:
                data = await frame(self.broker_reader)
                (number,) = struct.unpack_from(">i", data, 4)
                waiting = self.awaited.pop(number, [])
                api, wanted = waiting.pop(0) if waiting else ("", True)
                if waiting:
                    self.awaited[number] = waiting
                if not wanted:
                    continue
                fault = self.proxy.take_fault(f"{api}.reply") if api else ""
                self._end_client(fault)
                if fault == "delay":
                    await asyncio.sleep(DELAY_SECONDS)
                self.client.write(data)
                await self.client.drain()
                if api:
                    self.proxy.answered(f"{api}.reply")


async def frame(reader: asyncio.StreamReader) -> bytes:
    """One message, including its length."""
    head = await reader.readexactly(4)
    (length,) = struct.unpack(">i", head)
    if not 4 <= length <= BYTES_MOST:
        raise Disconnected
    return head + await reader.readexactly(length)


async def serve(control_port: int, routes: list[tuple[int, int]], *, repetition_seconds: float) -> None:
    """`routes`: (port for clients, port of their broker)."""
    proxy = Proxy(repetition_seconds)

    async def forward(to: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ProxiedConnection(proxy, (reader, writer)).run(proxy.routes.get(to, to))

    servers = [await asyncio.start_server(proxy.control, HOST, control_port)]
    for front, back in routes:
        servers.append(await asyncio.start_server(partial(forward, back), HOST, front))
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main(control_port: int, routes: list[tuple[int, int]], *, repetition_seconds: float = REPETITION_SECONDS) -> None:
    """The proxy process: runs until it is killed."""
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(control_port, routes, repetition_seconds=repetition_seconds))
    sys.exit(0)
