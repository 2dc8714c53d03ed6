"""The process that keeps a service: the parent of all its nodes, which ends them when its time has come.

It runs until it is told to end or until its owner, if it has one, is dead; then it kills the nodes, removes their
folder and its own entry, and exits. Nodes die with it, even if it is killed itself. It has no opinion about what it
keeps. Requests come over a socket, one message each, from any process of the same user; one at a time is served.
"""

from __future__ import annotations

import ctypes
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
from typing import Any, Final, NoReturn, Protocol

MESSAGE_BYTES_MOST: Final = 1 << 17  # a class path of 50 jars takes 5 KB
PR_SET_PDEATHSIG: Final = 1
DEATH_SECONDS: Final = 30.0  # of a JVM whose memory is handed back by a busy kernel
LIBC: Final = ctypes.CDLL(None, use_errno=True)


def main(folder: str, entry: str, descriptors: tuple[int, int, int]) -> NoReturn:
    """`descriptors`: a listening socket; the lock on the entry, held for life; a pidfd of the owner, or -1."""
    listener, _, owner = descriptors
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    keeper = Keeper(Path(folder), socket.socket(fileno=listener))
    try:
        keeper.serve(owner)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        keeper.bury()
        Path(entry).unlink(missing_ok=True)
        keeper.tell_the_last()
        os._exit(0)


class Node:
    """One process that is kept. It is reaped by its keeper alone, so that its number always means this process."""

    def __init__(self, name: str, request: dict[str, Any], folder: Path) -> None:
        self.stopped = False
        self.ordered = False  # to end
        with (folder / f"{name}.out").open("ab") as output:
            self.process = subprocess.Popen(
                request["command"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(_die_with, os.getpid()),
            )

    def look(self) -> dict[str, Any]:
        """`status` as subprocess has it: negative for a signal, None while it lives."""
        if self.process.returncode is None:
            with suppress(ChildProcessError):
                changed = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
                if changed is not None:
                    self.stopped = changed.si_code == os.CLD_STOPPED
        return {
            "pid": self.process.pid,
            "status": self.process.poll(),
            "stopped": self.stopped,
            "ordered": self.ordered,
        }

    def signal(self, number: int) -> None:
        self.ordered = self.ordered or number in (signal.SIGTERM, signal.SIGKILL)
        self.process.send_signal(number)

    def end(self) -> None:
        self.signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(DEATH_SECONDS)


class KeptNode(Protocol):
    """A node as its keeper sees it, wherever it runs."""

    def look(self) -> dict[str, Any]: ...

    def signal(self, number: int) -> None: ...

    def end(self) -> None: ...


class Keeper:
    def __init__(self, folder: Path, listener: socket.socket) -> None:
        self.folder, self.listener = folder, listener
        self.nodes: dict[str, KeptNode] = {}
        self.last: socket.socket | None = None  # who asked for the end, and waits for it

    def serve(self, owner: int) -> None:
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        if owner >= 0:
            poll.register(owner, select.POLLIN)
        while self.last is None and owner not in dict(ready := poll.poll()):
            if ready:
                self.answer(self.listener.accept()[0])

    def answer(self, caller: socket.socket) -> None:
        caller.settimeout(1.0)  # whoever connects sends at once
        with suppress(OSError):  # it is gone, which is its own affair
            message = caller.recv(MESSAGE_BYTES_MOST)
            request = json.loads(message) if message else {"do": "nothing"}
            if request["do"] == "end":
                self.last = caller
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
        return {"nodes": {name: node.look() for name, node in self.nodes.items()}}

    def started(self, name: str, request: dict[str, Any]) -> KeptNode:
        if not request.get("image"):
            return Node(name, request, self.folder)
        from sinkproof.chaos.services.container_nodes import ContainedNode

        if name in self.nodes:
            self.nodes[name].end()  # what has ended is still there until somebody removes it
        return ContainedNode(request, self.folder, self.folder / f"{name}.out")

    def bury(self) -> None:
        for node in self.nodes.values():
            with suppress(OSError):
                node.signal(signal.SIGKILL)
        for node in self.nodes.values():
            node.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tell_the_last(self) -> None:
        if self.last is not None:
            with suppress(OSError):
                self.last.send(b"{}")


def _die_with(keeper: int) -> None:
    """Between fork and exec; the keeper has one thread, so this is safe, and the signal comes when that one ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)
