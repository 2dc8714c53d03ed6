"""Forks processes in a millisecond through a fork server, and kills them with all their descendants.

A `ForkServer` is a fresh interpreter that imports once and forks on request. Every child has a session, a channel and
captured output of its own. The outcome of a child is its wait status, as the server collected it. All processes die
with the thread that made the server: the server gets SIGTERM, so that it can kill its children first.

One thread uses a server and all its children. Every wait polls the server as well, so a death ends the wait at once.
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
from sinkproof.chaos.processes import recorded_inputs
from sinkproof.chaos.processes.child import (
    DEATH_SECONDS,
    CapturedOutput,
    ChildProcess,
    ForkServerError,
    NoReply,
    Silence,
    await_readable,
)
from sinkproof.chaos.processes.child_channel import EXIT_OUT_OF_MEMORY
from sinkproof.chaos.processes.fork_server import CONTROL_BYTES_MOST, ORPHANS_LIVE, REPEATED_CALL

__all__ = [
    "EXIT_OUT_OF_MEMORY",
    "CapturedOutput",
    "ChildProcess",
    "ForkServer",
    "ForkServerError",
    "Limits",
    "NoReply",
    "RepeatedCall",
    "Silence",
]

START_SECONDS: Final = 60.0  # imports of a subject and of pyarrow take 1 s on an idle machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one child; None: that of the server. Not of addresses: libraries map far more than they use."""

    data_bytes: int | None = None


class RepeatedCall:
    """The call of many children. The server unpickles it, too, so that children which are forked later inherit it.

    Only for arguments that may be shared: they are made before the fork, without any code of a sink.
    """

    def __init__(self, entry: str, *arguments: Any) -> None:
        self.pickled = pickle.dumps((entry, arguments))


class ForkServer:
    """Use as a context manager.

    `preload`: names of modules, or .py files, that are imported once, before any fork. `warm`: calls, each
    ("module:function", *arguments), that are made once after that, so that children inherit what they cache.
    `hash_seed`: PYTHONHASHSEED of all children; None: inherited.
    """

    def __init__(
        self,
        *,
        preload: Sequence[str] = (),
        warm: Sequence[tuple[str, ...]] = (),
        hash_seed: int | None = None,
    ) -> None:
        self.children: dict[int, ChildProcess] = {}
        self._tokens = 0
        self._inherited = b""  # the call that the server has unpickled
        self._requested: dict[int, tuple[socket.socket, CapturedOutput]] = {}
        self._forked: dict[int, ChildProcess | OSError] = {}
        self._output = CapturedOutput()
        self._ready, self._orphans_seconds = False, 0.0
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
                start_new_session=True,  # Ctrl-C goes to the caller only, which ends the server
            )
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)  # not reaped yet, so the pid has not been reused
        try:
            self._start(preload)
        except BaseException:
            self._process.kill()
            self.close()
            raise

    def _start(self, preload: Sequence[str]) -> None:
        deadline = Deadline(START_SECONDS)
        files = [str(Path(name).resolve()) if name.endswith(".py") else name for name in preload]
        path = [os.path.abspath(folder) for folder in sys.path]
        self.control.send(pickle.dumps((path, files, self._warm, recorded_inputs.current())))
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
        entry: str | RepeatedCall,
        *arguments: Any,
        descriptors: Sequence[int] = (),
        limits: Limits = Limits(),
    ) -> ChildProcess:
        """A child that calls entry(inside, *arguments), where entry is "module:function", and exits when it returns.

        `inside.descriptors` are copies of `descriptors`; the arguments are pickled.
        """
        call = pickle.dumps((entry, arguments)) if isinstance(entry, str) else self._let_inherit(entry)
        mine, theirs = socket.socketpair()
        output = CapturedOutput()
        self._tokens += 1
        self._requested[self._tokens] = mine, output
        message = pickle.dumps((self._tokens, limits.data_bytes))
        with theirs:
            socket.send_fds(self.control, [message], [theirs.fileno(), output.descriptor, *descriptors])
            child = self._await_fork(self._tokens)
        with suppress(NoReply):  # the next call on the child raises it again
            child.send(call, Deadline(START_SECONDS))
        return child

    def _let_inherit(self, repeated: RepeatedCall) -> bytes:
        call = repeated.pickled
        if call != self._inherited and len(call) < CONTROL_BYTES_MOST // 2:
            self.control.send(pickle.dumps((REPEATED_CALL, call)))
            self._inherited = call
        return call

    def let_orphans_live(self, seconds: float) -> None:
        """From now on, what a dead child has started has so long to end by itself; then it is killed."""
        if seconds != self._orphans_seconds:
            self.control.send(pickle.dumps((ORPHANS_LIVE, seconds)))
            self._orphans_seconds = seconds

    def _await_fork(self, token: int) -> ChildProcess:
        deadline = Deadline(START_SECONDS)
        while token not in self._forked:
            self.wait(deadline)
            if deadline.over:
                raise ForkServerError("the fork server does not reply")
        child = self._forked.pop(token)
        if isinstance(child, OSError):
            raise ForkServerError(f"cannot fork: {child}")
        return child

    def wait(self, deadline: Deadline) -> None:
        """Waits for a notice about any child, or until the deadline is over."""
        if not self.receive_notices():
            await_readable(self.control.fileno(), deadline)
            self.receive_notices()

    def receive_notices(self) -> bool:
        """Processes all notices of the server that have arrived; whether there was any."""
        received = False
        while True:
            try:
                message = self.control.recv(CONTROL_BYTES_MOST)
            except BlockingIOError:
                return received
            except OSError:
                message = b""
            if not message:
                last = self._output.tail().strip() or "nothing"
                raise ForkServerError(f"the fork server died. Its last output: {last}")
            received = True
            self._apply(*pickle.loads(message))

    def _apply(self, what: str, subject: Any, detail: Any) -> None:
        if what == "ready":
            self._ready = True
        elif what == "refused":
            raise ForkServerError(f"importing {subject} failed: {detail}")
        elif what == "forked":
            channel, output = self._requested.pop(subject)
            self._forked[subject] = self.children[detail] = ChildProcess(self, detail, channel=channel, output=output)
        elif what == "not forked":
            for end in self._requested.pop(subject):
                end.close()
            self._forked[subject] = OSError(detail, os.strerror(detail))
        elif subject in self.children:  # else one that was forked in advance
            child = self.children[subject]
            child.stopped = what == "stopped"
            if what == "died":
                child.wait_status = detail
                del self.children[subject]

    def close(self) -> None:
        """Kills every child with all its descendants, and the server."""
        if self._pidfd < 0:
            return
        self.control.close()  # the end of file ends the server
        await_readable(self._pidfd, Deadline(DEATH_SECONDS + 1))
        os.close(self._pidfd)
        self._pidfd = -1
        self._process.kill()
        self._process.wait()
        for child in list(self.children.values()):
            child.close()
        self.children.clear()
        self._output.close()
