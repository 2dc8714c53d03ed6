"""Processes that are forked in a millisecond, spoken to one message at a time, and killed without leaving anything
behind.

A `ForkServer` is a fresh interpreter that imports once and forks on request. Every child has a session of its
own, a channel, and a place for what it prints. What is known of a child's fate is its wait status, as its
parent got it. Everything dies with the thread that made the server: the server by SIGTERM, so that it can
kill the rest first.

One thread drives a server and all its children. Every wait watches the server as well, so that a death is
never waited for.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.child import (
    DEATH_SECONDS,
    Child,
    ForkServerError,
    NoReply,
    Output,
    Silence,
    await_readable,
)
from sinkproof.chaos.processes.child_channel import EXIT_OUT_OF_MEMORY
from sinkproof.chaos.processes.fork_server import CONTROL_BYTES_MOST

__all__ = ["EXIT_OUT_OF_MEMORY", "Child", "ForkServer", "ForkServerError", "Limits", "NoReply", "Output", "Silence"]

START_SECONDS: Final = 60.0  # imports of a subject and of pyarrow take 1 s on an idle machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one child may use; None: as much as the server. Prefer data: libraries map far more than they use."""

    address_space_bytes: int | None = None
    data_bytes: int | None = None


class ForkServer:
    """Use as a context manager.

    `preload`: names of modules, or .py files, that are imported once, before any fork. `warm`: calls, each
    ("module:function", *arguments), that are made once after that: what they look up, children find in memory.
    `hash_seed`: of all strings in its children; None: as everywhere.
    """

    def __init__(
        self,
        *,
        preload: Sequence[str] = (),
        warm: Sequence[tuple[str, ...]] = (),
        path: Sequence[str] | None = None,
        start_seconds: float = START_SECONDS,
        hash_seed: int | None = None,
    ) -> None:
        self.children: dict[int, Child] = {}
        self._tokens = 0
        self._unborn: dict[int, tuple[socket.socket, Output]] = {}
        self._born: dict[int, Child | OSError] = {}
        self._output = Output()
        self._ready = False
        self._warm = tuple(warm)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = f"from sinkproof.chaos.processes.fork_server import main; main({theirs.fileno()}, {os.getpid()})"
        optimize = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *optimize, "-u", "-P", "-c", program],
                env=os.environ if hash_seed is None else {**os.environ, "PYTHONHASHSEED": str(hash_seed)},
                stdin=subprocess.DEVNULL,
                stdout=self._output.descriptor,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the caller, who decides
            )
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)  # it is not reaped yet, so it is this one
        try:
            self._start(preload, sys.path if path is None else path, Deadline(start_seconds))
        except BaseException:
            self._process.kill()
            self.close()
            raise

    def _start(self, preload: Sequence[str], path: Sequence[str], deadline: Deadline) -> None:
        files = [str(Path(name).resolve()) if name.endswith(".py") else name for name in preload]
        self.control.send(pickle.dumps(([os.path.abspath(folder) for folder in path], files, self._warm)))
        self.control.setblocking(False)
        while not self._ready:
            if deadline.over:
                raise ForkServerError(f"not ready in time. Does one of {', '.join(preload)} hang when it is imported?")
            self.wait(deadline)

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def spawn(
        self,
        entry: str,
        *arguments: Any,
        descriptors: Sequence[int] = (),
        limits: Limits = Limits(),
    ) -> Child:
        """A child that calls entry(inside, *arguments), where entry is "module:function", and exits when it returns.

        Copies of the descriptors are its `inside.descriptors`; the arguments are pickled.
        """
        mine, theirs = socket.socketpair()
        output = Output()
        self._tokens += 1
        self._unborn[self._tokens] = mine, output
        message = pickle.dumps((self._tokens, (limits.address_space_bytes, limits.data_bytes)))
        with theirs:
            socket.send_fds(self.control, [message], [theirs.fileno(), output.descriptor, *descriptors])
            child = self._await_birth(self._tokens)
        with suppress(NoReply):  # whoever speaks to it next is told the same
            child.send(pickle.dumps((entry, arguments)), Deadline(START_SECONDS))
        return child

    def _await_birth(self, token: int) -> Child:
        deadline = Deadline(START_SECONDS)
        while token not in self._born:
            self.wait(deadline)
            if deadline.over:
                raise ForkServerError("the fork server does not answer")
        born = self._born.pop(token)
        if isinstance(born, OSError):
            raise ForkServerError(f"cannot fork: {born}")
        return born

    def wait(self, deadline: Deadline) -> None:
        """Until there is news of any child, or the deadline is over."""
        if not self.hear():
            await_readable(self.control.fileno(), deadline)
            self.hear()

    def hear(self) -> bool:
        """Takes in what the server has told so far; whether that was anything."""
        heard = False
        while True:
            try:
                message = self.control.recv(CONTROL_BYTES_MOST)
            except BlockingIOError:
                return heard
            except OSError:
                message = b""
            if not message:
                raise ForkServerError(f"the fork server died. It last said: {self._output.tail().strip() or 'nothing'}")
            heard = True
            self._note(*pickle.loads(message))

    def _note(self, what: str, subject: Any, detail: Any) -> None:
        if what == "ready":
            self._ready = True
        elif what == "refused":
            raise ForkServerError(f"importing {subject} failed: {detail}")
        elif what == "forked":
            channel, output = self._unborn.pop(subject)
            self._born[subject] = self.children[detail] = Child(self, detail, channel=channel, output=output)
        elif what == "not forked":
            for end in self._unborn.pop(subject):
                end.close()
            self._born[subject] = OSError(detail, os.strerror(detail))
        elif subject in self.children:  # and not one that was forked ahead
            child = self.children[subject]
            child.stopped = what == "stopped"
            if what == "died":
                child.wait_status = detail
                del self.children[subject]

    def close(self) -> None:
        """Kills every child, whatever it has started, and the server."""
        if self._pidfd < 0:
            return
        self.control.close()  # its end of file is the order
        await_readable(self._pidfd, Deadline(DEATH_SECONDS + 1))
        os.close(self._pidfd)
        self._pidfd = -1
        self._process.kill()
        self._process.wait()
        for child in list(self.children.values()):
            child.close()
        self.children.clear()
        self._output.close()
