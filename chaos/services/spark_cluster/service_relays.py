"""External systems on the hosts of a cluster: each finds them at the addresses that they have on this machine.

A host has a loopback of its own. The relay holds sockets that listen there, and connects to the same address here: no
broker has to advertise another one. What leads there is not the bridge, so a host that is cut off from the others still
reaches the external system, until its relay is cut, too.

One request a line on standard input, answered by a line: after `cut N` nothing passes between host N and its external
systems, until `heal N`: then what was sent meanwhile arrives. Ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final

from sinkproof.chaos.services.service import ServiceFailed
from sinkproof.chaos.services.spark_cluster.host_commands import HostCommands

CHUNK: Final = 1 << 16
END_SECONDS: Final = 5.0
PROGRAM: Final = "from sinkproof.chaos.services.spark_cluster.service_relays import main; main()"
LOOPBACK: Final = ("127.", "localhost:")


class ServiceRelays:
    """A context manager. `lead_to` makes the addresses reachable on every host."""

    def __init__(self, hosts: HostCommands) -> None:
        self.hosts = hosts
        self.known: frozenset[str] = frozenset()
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> ServiceRelays:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def lead_to(self, addresses: Sequence[str]) -> None:
        """Replaces what was led to before. Addresses that are not on this machine's loopback are left out."""
        wanted = frozenset(each for each in addresses if each.startswith(LOOPBACK))
        if wanted == self.known:
            return
        self.close()
        self.known = wanted
        if not wanted:
            return
        names = sorted(wanted)
        made = [self.hosts.listen(host, names) for host in range(self.hosts.count)]
        listening = [[one.fileno() for one in each] for each in made]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, json.dumps([names, listening])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[descriptor for each in listening for descriptor in each],
            start_new_session=True,
        )
        for each in made:
            for one in each:
                one.close()
        self._await_answer("its start")

    def cut(self, host: int) -> None:
        """The host reaches no external system any more."""
        self._request(f"cut {host}")

    def heal(self, host: int) -> None:
        self._request(f"heal {host}")

    def _request(self, line: str) -> None:
        if self.process is None:
            return
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        self._await_answer(line)

    def _await_answer(self, line: str) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            raise ServiceFailed(
                "the relay between the hosts and their external systems has ended",
                evidence=f"it did not answer {line!r}",
                next_step="Run the command again",
            )

    def close(self) -> None:
        if self.process is None:
            return
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process, self.known = None, frozenset()


class Relay:
    """The process. `whole`: an event for each host, which is not set while the host is cut off."""

    def __init__(self, addresses: Sequence[str], hosts: int) -> None:
        self.addresses = addresses
        self.whole = [asyncio.Event() for _ in range(hosts)]

    async def serve(self, listening: Sequence[Sequence[int]]) -> None:
        for host, descriptors in enumerate(listening):
            self.whole[host].set()
            for address, descriptor in zip(self.addresses, descriptors, strict=True):
                led = partial(self.relay, (host, address))
                await asyncio.start_server(led, sock=socket.socket(fileno=descriptor))
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while line := await lines.readline():
            what, _, number = line.decode().strip().partition(" ")
            whole = self.whole[int(number)]
            whole.set() if what == "heal" else whole.clear()
            sys.stdout.write("done\n")
            sys.stdout.flush()

    async def relay(self, way: tuple[int, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, address = way
        await self.whole[host].wait()
        name, _, port = address.rpartition(":")
        try:
            from_service, to_service = await asyncio.open_connection(name, int(port))
        except OSError:
            writer.transport.abort()  # as if nothing listened here
            return
        try:
            await asyncio.gather(self.pump(host, reader, to_service), self.pump(host, from_service, writer))
        finally:
            for each in (writer, to_service):
                each.close()

    async def pump(self, host: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until one end is closed: then the other one is, and an error of either ends both."""
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await self.whole[host].wait()
                writer.write(chunk)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
            return
        writer.transport.abort()


def main() -> None:
    """Arguments: the addresses, and the descriptors of the sockets for them, by host."""
    addresses, listening = json.loads(sys.argv[1])
    asyncio.run(Relay(addresses, len(listening)).serve(listening))
