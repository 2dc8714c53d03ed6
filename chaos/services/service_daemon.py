"""The daemon process of a service: the parent of all its nodes, which starts, signals and ends them.

It runs until it gets the request to end, or until its owner, if it has one, is dead; then it kills the nodes, removes
their folder and its own entry, and exits. Nodes die with it, even if it is killed itself. It is independent of the kind
of service. Requests come over a socket, one message each, from any process of the same user; they are served in turn.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sinkproof.chaos.processes.parent_death import die_with

if TYPE_CHECKING:
    from sinkproof.chaos.services.container_nodes import ContainerNode

MESSAGE_BYTES_MOST: Final = 1 << 17  # a class path of 50 jars takes 5 KB
DEATH_SECONDS: Final = 30.0  # of a JVM: a busy kernel needs time to free its memory


def main(folder: str, entry: str, descriptors: tuple[int, int, int]) -> NoReturn:
    """`descriptors`: a listening socket; the lock on the entry, held for life; a pidfd of the owner, or -1."""
    listener, _, owner = descriptors
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    daemon = ServiceDaemon(Path(folder), socket.socket(fileno=listener))
    try:
        daemon.serve(owner)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        daemon.kill_nodes()
        Path(entry).unlink(missing_ok=True)
        daemon.confirm_end()
        os._exit(0)


class NodeProcess:
    """One process of the service. Only the daemon reaps it, so its pid cannot be reused before that."""

    def __init__(self, name: str, request: dict[str, Any], folder: Path) -> None:
        self.stopped = False
        self.end_requested = False
        with (folder / f"{name}.out").open("ab") as output:
            self.process = subprocess.Popen(
                request["command"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(die_with, os.getpid()),
            )

    def status(self) -> dict[str, Any]:
        """`exit_status`: as Popen.returncode, negative for a signal, None while it lives."""
        if self.process.returncode is None:
            with suppress(ChildProcessError):
                changed = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
                if changed is not None:
                    self.stopped = changed.si_code == os.CLD_STOPPED
        return {
            "pid": self.process.pid,
            "exit_status": self.process.poll(),
            "stopped": self.stopped,
            "end_requested": self.end_requested,
        }

    def signal(self, number: int) -> None:
        self.end_requested = self.end_requested or number in (signal.SIGTERM, signal.SIGKILL)
        self.process.send_signal(number)

    def end(self) -> None:
        self.signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(DEATH_SECONDS)


class ServiceDaemon:
    def __init__(self, folder: Path, listener: socket.socket) -> None:
        self.folder, self.listener = folder, listener
        self.nodes: dict[str, NodeProcess | ContainerNode] = {}
        self.end_requester: socket.socket | None = None  # waits for the confirmation

    def serve(self, owner: int) -> None:
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        if owner >= 0:
            poll.register(owner, select.POLLIN)
        while self.end_requester is None and owner not in dict(ready := poll.poll()):
            if ready:
                self.answer(self.listener.accept()[0])

    def answer(self, caller: socket.socket) -> None:
        caller.settimeout(1.0)  # a client sends its request right after connecting
        with suppress(OSError):  # the client has disconnected
            message = caller.recv(MESSAGE_BYTES_MOST)
            request = json.loads(message) if message else {"do": "nothing"}
            if request["do"] == "end":
                self.end_requester = caller
                return
            caller.send(json.dumps(self.do(request)).encode())
        caller.close()

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        name = request.get("name", "")
        if request["do"] == "spawn":
            try:
                self.nodes[name] = self.started(name, request)
            except OSError as error:
                return {"refused": str(error)}
        elif request["do"] == "signal":
            self.nodes[name].signal(request["number"])
        return {"nodes": {name: node.status() for name, node in self.nodes.items()}}

    def started(self, name: str, request: dict[str, Any]) -> NodeProcess | ContainerNode:
        if not request.get("image"):
            return NodeProcess(name, request, self.folder)
        from sinkproof.chaos.services.container_nodes import ContainerNode

        if name in self.nodes:
            self.nodes[name].end()  # a container that has ended exists until it is removed
        return ContainerNode(request, self.folder, self.folder / f"{name}.out")

    def kill_nodes(self) -> None:
        for node in self.nodes.values():
            with suppress(OSError):
                node.signal(signal.SIGKILL)
        for node in self.nodes.values():
            node.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def confirm_end(self) -> None:
        if self.end_requester is not None:
            with suppress(OSError):
                self.end_requester.send(b"{}")
