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
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sinkproof.chaos.processes.parent_death import die_with
from sinkproof.chaos.system_calls.seccomp_filter import put_on, receive_listener
from sinkproof.chaos.system_calls.watched_program import EXIT_NOT_FOUND

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
    daemon = ServiceDaemon(Path(folder), socket.socket(fileno=listener), entry=Path(entry), owner=owner)
    try:
        daemon.serve()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        daemon.kill_nodes()
        Path(entry).unlink(missing_ok=True)
        daemon.confirm_end()
        os._exit(0)


def become_watched(channel: int, words: Sequence[str]) -> NoReturn:
    """The first program of a watched node: it hands over the listener of its system calls, and becomes the node."""
    with socket.socket(fileno=channel) as ours:
        put_on(ours)
    try:
        os.execvp(words[0], list(words))
    except OSError as error:
        print(f"cannot run {words[0]}: {error}", file=sys.stderr, flush=True)
        os._exit(EXIT_NOT_FOUND)


class NodeProcess:
    """One process of the service. Only the daemon reaps it, so its pid cannot be reused before that."""

    def __init__(self, name: str, request: dict[str, Any], folder: Path) -> None:
        self.stopped = False
        self.end_requested = False
        self._channel, theirs = socket.socketpair()
        command, number = request["command"], theirs.fileno()
        if request.get("watched"):
            program = f"from {__name__} import become_watched; become_watched({number}, {command!r})"
            command = [sys.executable, "-P", "-c", program]
        with theirs, (folder / f"{name}.out").open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(die_with, os.getpid()),
                pass_fds=[number] if request.get("watched") else [],
            )

    def listener(self) -> int:
        """Of a new node that is watched. Negative: the number of the error for which there is none."""
        with self._channel:
            return receive_listener(self._channel).listener

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
    def __init__(self, folder: Path, listener: socket.socket, *, entry: Path, owner: int) -> None:
        """`owner`: its pidfd, or -1."""
        self.folder, self.listener, self.entry, self.owner = folder, listener, entry, owner
        self.nodes: dict[str, NodeProcess | ContainerNode] = {}
        self.end_requester: socket.socket | None = None  # waits for the confirmation

    def serve(self) -> None:
        while self.end_requester is None:
            poll = select.poll()
            poll.register(self.listener, select.POLLIN)
            if self.owner >= 0:
                poll.register(self.owner, select.POLLIN)
            if self.owner in dict(poll.poll()):
                return
            self.answer(self.listener.accept()[0])

    def answer(self, caller: socket.socket) -> None:
        caller.settimeout(1.0)  # a client sends its request right after connecting
        with suppress(OSError):  # the client has disconnected
            message = caller.recv(MESSAGE_BYTES_MOST)
            request = json.loads(message) if message else {"do": "nothing"}
            if request["do"] == "end":
                self.end_requester = caller
                return
            answer, listener = self.do(request)
            if listener < 0:
                caller.send(json.dumps(answer).encode())
            else:
                try:
                    socket.send_fds(caller, [json.dumps(answer).encode()], [listener])
                finally:  # else calls of the node would wait for ever
                    os.close(listener)
        caller.close()

    def do(self, request: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """The answer, and the listener of a new node that is watched, else -1."""
        name, listener, answer = request.get("name", ""), -1, dict[str, Any]()
        if request["do"] == "spawn":
            try:
                self.nodes[name] = node = self.started(name, request)
                if request.get("watched"):
                    assert isinstance(node, NodeProcess), "a container's calls are not watched"
                    listener = node.listener()
                    answer = {"unwatched": -listener}
            except OSError as error:
                return {"refused": str(error)}, -1
        elif request["do"] == "disown":
            self.disown()
        elif request["do"] == "signal":
            self.nodes[name].signal(request["number"])
        return {**answer, "nodes": {name: node.status() for name, node in self.nodes.items()}}, listener

    def disown(self) -> None:
        """The entry keeps its file, because that is locked, and its length, because others may read it now."""
        before = self.entry.read_bytes()
        after = json.dumps({**json.loads(before), "owner": 0}).encode()
        with self.entry.open("r+b", buffering=0) as file:
            file.write(after.ljust(len(before)))
        if self.owner >= 0:
            os.close(self.owner)
        self.owner = -1

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
