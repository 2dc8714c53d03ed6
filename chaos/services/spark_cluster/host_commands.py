"""How a process of this machine runs commands on a host in a namespace, gets sockets that listen there, and kills it.

A host is known by the pid of the process that holds it, so any process of the same user can enter it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sinkproof.chaos.services.service import ServiceUnavailable

NETWORK: Final = "198.18.0."  # for tests of networks (RFC 2544): routed nowhere
SECONDS: Final = 20.0  # until a namespace is made, on a busy machine
LISTEN: Final = """\
import socket, sys
channel = socket.socket(fileno=int(sys.argv[1]))
for address in sys.argv[2:]:
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port)), backlog=128, reuse_port=True) as listening:
        socket.send_fds(channel, [b"."], [listening.fileno()])
"""  # several commands on one cluster may lead the same address to the same service


class HostCommands:
    """`count` hosts. `as_user`: they are inside a user namespace."""

    def __init__(self, count: int, *, pids: Sequence[int] = (), as_user: bool = True) -> None:
        self.count, self.as_user, self._pids = count, as_user, pids

    def pid(self, host: int) -> int:
        """Of the process that holds it."""
        return self._pids[host]

    def address(self, host: int) -> str:
        return f"{NETWORK}{host + 1}"

    def command(self, host: int, *arguments: str) -> list[str]:
        """The command that runs this one on the host."""
        return [*self.enter(self.pid(host)), *arguments]

    def enter(self, pid: int) -> list[str]:
        """How a command begins that runs where this process is."""
        user = ["--user", "--preserve-credentials"] if self.as_user else []
        return ["nsenter", "--target", str(pid), *user, "--net", "--mount"]

    def listen(self, host: int, addresses: Sequence[str]) -> list[socket.socket]:
        """Sockets that listen on the host, at addresses of its own; they are this process's, and outlive its death."""
        ours, its = socket.socketpair()
        with ours, its:
            given = [str(its.fileno()), *addresses]
            command = self.command(host, sys.executable, "-I", "-S", "-c", LISTEN, *given)
            run_to_its_end(command, pass_fds=[its.fileno()])
            found = [socket.recv_fds(ours, 1, 1)[1][0] for _ in addresses]
        return [socket.socket(fileno=descriptor) for descriptor in found]

    # -- what runs there ---------------------------------------------------------------------------

    def processes(self, host: int) -> list[int]:
        """Everything that runs on the host, whichever process started it, but for the one that holds it."""
        holder = self.pid(host)
        network = _network_of(holder)
        others = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in others if pid != holder and network and _network_of(pid) == network]

    def everything(self) -> list[int]:
        """What runs on any of the hosts, and the processes that hold them."""
        return [pid for host in range(self.count) for pid in (self.pid(host), *self.processes(host))]

    def kill(self, host: int) -> list[int]:
        """Everything on the host dies at once; returns what was killed. The empty host stays."""
        killed: set[int] = set()  # with what dies of its parent's death, before its own signal
        for number in (signal.SIGSTOP, signal.SIGKILL):  # all stop before the first dies: no death is observed there
            killed.update(pid for pid in self.processes(host) if self._signal(host, pid, number))
        return sorted(killed)

    def _signal(self, host: int, pid: int, number: int) -> bool:
        """False if it has ended, even if another process has its number by now."""
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if _network_of(pid) != _network_of(self.pid(host)):
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    def host_of(self, pid: int) -> int | None:
        """Where a process runs; None: on none of these hosts."""
        network = _network_of(pid)
        return next((host for host in range(self.count) if network and _network_of(self.pid(host)) == network), None)


def run_to_its_end(command: Sequence[str], *, pass_fds: Sequence[int] = ()) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True, pass_fds=pass_fds)
    except subprocess.SubprocessError as error:
        raise ServiceUnavailable(
            "the hosts could not be joined",
            evidence=f"{error}. {getattr(error, 'stderr', None) or ''}".strip(),
            next_step="See `sinkproof doctor`, or try again when this machine is less busy",
        ) from error


def _network_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""  # it has just ended, or is another user's
