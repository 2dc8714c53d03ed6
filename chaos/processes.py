"""Processes that are forked in a millisecond, spoken to one message at a time, and killed without leaving anything behind.

A `ForkServer` is a fresh interpreter that imports once and forks on request. Every child has a session of its own, a
channel, and a place for what it prints. What is known of a child's fate is its wait status, as its parent got it.
Everything dies with the thread that made the server: the server by SIGTERM, so that it can kill the rest first.

One thread drives a server and all its children. Every wait watches the server as well, so that a death is never waited for.
"""

from __future__ import annotations

import enum
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.fork_server import CONTROL_BYTES_MOST, EXIT_OUT_OF_MEMORY, HEADER

__all__ = ["EXIT_OUT_OF_MEMORY", "Child", "ForkServer", "ForkServerError", "Limits", "NoReply", "Silence"]

START_SECONDS: Final = 60.0  # imports of a subject and of pyarrow take 1 s on an idle machine
DEATH_SECONDS: Final = 10.0  # from SIGKILL to the wait status: 1 ms, unless the process sits in the kernel
MESSAGE_BYTES_MOST: Final = 1 << 28  # a longer one is not a message, but garbage read as a length
READ_BYTES: Final = 1 << 16
OUTPUT_BYTES_SHOWN: Final = 4096
OUTPUT_BYTES_KEPT: Final = 1 << 22  # what a child prints is kept in memory, so it is cut now and then
SLICE_SECONDS: Final = 0.25  # of a wait, after which its output is looked at


class Silence(enum.Enum):
    """Why no reply will come."""

    ENDED = "ended"
    STOPPED = "stopped"
    HUNG = "hung"
    GARBAGE = "garbage"


class NoReply(Exception):
    """The child has not answered. What to do about it depends on `silence`."""

    def __init__(self, silence: Silence, *, evidence: str = "") -> None:
        super().__init__(silence.value, evidence)
        self.silence, self.evidence = silence, evidence


class ForkServerError(RuntimeError):
    """The server could not be started, died, or cannot fork; nothing was learnt about any child."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one child may use; None: as much as the server. Prefer data: libraries map far more than they use."""

    address_space_bytes: int | None = None
    data_bytes: int | None = None


class Output:
    """What a process prints, kept in memory and never on the caller's terminal."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("output")
        self._kept = b""

    def cut(self) -> None:
        """Forgets all but the end of what is too much. The writer appends where the descriptor stands: at 0 again."""
        if os.fstat(self.descriptor).st_size > OUTPUT_BYTES_KEPT:
            self._kept = self._end()
            os.ftruncate(self.descriptor, 0)
            os.lseek(self.descriptor, 0, os.SEEK_SET)

    def tail(self) -> str:
        if self.descriptor >= 0:
            self._kept = (self._kept + self._end())[-OUTPUT_BYTES_SHOWN:]
        return self._kept.decode(errors="replace")

    def close(self) -> None:
        if self.descriptor >= 0:
            self.tail()
            os.close(self.descriptor)
            self.descriptor = -1

    def _end(self) -> bytes:
        size = os.fstat(self.descriptor).st_size
        return os.pread(self.descriptor, OUTPUT_BYTES_SHOWN, max(0, size - OUTPUT_BYTES_SHOWN))


class ForkServer:
    """Use as a context manager. `preload`: names of modules, or .py files, that are imported once, before any fork."""

    def __init__(
        self, *, preload: Sequence[str] = (), path: Sequence[str] | None = None, start_seconds: float = START_SECONDS
    ) -> None:
        self.children: dict[int, Child] = {}
        self._tokens = 0
        self._unborn: dict[int, tuple[socket.socket, Output]] = {}
        self._born: dict[int, Child | OSError] = {}
        self._output = Output()
        self._ready = False
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = f"from sinkproof.chaos.fork_server import main; main({theirs.fileno()}, {os.getpid()})"
        optimize = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *optimize, "-u", "-P", "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=self._output.descriptor,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the caller, who decides
            )
        self.pid = self._process.pid
        try:
            self._start(preload, sys.path if path is None else path, Deadline(start_seconds))
        except BaseException:
            self._process.kill()
            self.close()
            raise

    def _start(self, preload: Sequence[str], path: Sequence[str], deadline: Deadline) -> None:
        files = [str(Path(name).resolve()) if name.endswith(".py") else name for name in preload]
        self.control.send(pickle.dumps(([os.path.abspath(folder) for folder in path], files)))
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
        limits: Limits = Limits(),  # noqa: B008
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
            _await_readable(self.control.fileno(), deadline)
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
        else:
            child = self.children[subject]
            child.stopped = what == "stopped"
            if what == "died":
                child.wait_status = detail
                del self.children[subject]

    def close(self) -> None:
        """Kills every child, whatever it has started, and the server."""
        self.control.close()  # its end of file is the order
        descriptor = os.pidfd_open(self.pid)
        _await_readable(descriptor, Deadline(DEATH_SECONDS + 1))
        os.close(descriptor)
        self._process.kill()
        self._process.wait()
        for child in list(self.children.values()):
            child.close()
        self.children.clear()
        self._output.close()


class Child:
    """One forked process. Whoever drives it sends a message and receives the next one."""

    def __init__(self, server: ForkServer, pid: int, *, channel: socket.socket, output: Output) -> None:
        self.server, self.pid, self.channel, self.output = server, pid, channel, output
        self.wait_status: int | None = None
        self.stopped = False
        self._buffer = bytearray()
        channel.setblocking(False)
        try:
            self._process = os.pidfd_open(pid)
        except ProcessLookupError:  # dead and buried already; the status is on its way
            self._process = -1

    @property
    def alive(self) -> bool:
        self.server.hear()
        return self.wait_status is None

    # -- messages -------------------------------------------------------------------------------

    def send(self, message: bytes, deadline: Deadline) -> None:
        """Raises NoReply when nobody takes it."""
        rest = memoryview(HEADER.pack(len(message)) + message)
        while rest:
            try:
                rest = rest[self.channel.send(rest) :]
            except BlockingIOError:
                self.await_ready(self.channel.fileno(), select.POLLOUT, deadline)
            except OSError:
                self._await_death(deadline)

    def receive(self, deadline: Deadline) -> bytes:
        """The next whole message. One that was sent before a death is received; then NoReply."""
        while True:
            message = self._whole_message()
            if message is not None:
                return message
            self.await_ready(self.channel.fileno(), select.POLLIN, deadline)
            try:
                data = self.channel.recv(READ_BYTES)
            except OSError:
                data = b""
            if not data:
                self._await_death(deadline)
            self._buffer += data

    def _whole_message(self) -> bytes | None:
        buffer = self._buffer
        if len(buffer) < HEADER.size:
            return None
        length = HEADER.unpack_from(buffer)[0]
        if length > MESSAGE_BYTES_MOST:
            raise NoReply(Silence.GARBAGE, evidence=repr(bytes(buffer[:200])))
        end = HEADER.size + length
        if len(buffer) < end:
            return None
        message = bytes(buffer[HEADER.size : end])
        del buffer[:end]
        return message

    def await_ready(self, descriptor: int, events: int, deadline: Deadline) -> None:
        """Until the descriptor is ready. Raises NoReply once the child is dead, stopped or late, and it is not."""
        poll = select.poll()
        poll.register(descriptor, events)
        poll.register(self.server.control, select.POLLIN)
        while True:
            silence = self._silence()  # asked before the poll: what was sent before a death is ready by then
            ready = dict(poll.poll(0 if silence else _milliseconds(deadline)))
            if descriptor in ready:
                return
            if silence is not None:
                raise NoReply(silence)
            if ready:
                self.server.hear()
            elif deadline.over:
                raise NoReply(Silence.HUNG)
            self.output.cut()

    def _silence(self) -> Silence | None:
        if self.wait_status is not None:
            return Silence.ENDED
        return Silence.STOPPED if self.stopped else None

    def _await_death(self, deadline: Deadline) -> None:
        """Its end of the channel is closed: it is dying, or it has closed what it must not."""
        soon = Deadline(min(1.0, deadline.left))
        while self.wait_status is None and not soon.over:
            self.server.wait(soon)
        if self.wait_status is None:
            raise NoReply(Silence.GARBAGE, evidence="it closed its channel")
        raise NoReply(Silence.ENDED)

    # -- signals --------------------------------------------------------------------------------

    def signal(self, number: int) -> None:
        """To the process itself; its group and its daemons die with it, but do not stop with it."""
        if self._process >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, number)

    def stop(self) -> None:
        self.signal(signal.SIGSTOP)
        deadline = Deadline(DEATH_SECONDS)
        while self.wait_status is None and not self.stopped and not deadline.over:
            self.server.wait(deadline)

    def resume(self) -> None:
        self.stopped = False
        self.signal(signal.SIGCONT)

    def kill(self) -> int:
        """SIGKILL. When this returns the wait status, nothing of the child runs any more."""
        self.signal(signal.SIGKILL)
        self.join(Deadline(DEATH_SECONDS))
        if self.wait_status is None:
            raise ForkServerError(f"process {self.pid} does not die of SIGKILL within {DEATH_SECONDS:.0f} s")
        return self.wait_status

    def join(self, deadline: Deadline) -> int | None:
        """Its wait status; None if it is still alive at the deadline."""
        while self.wait_status is None and not deadline.over:
            self.server.wait(deadline)
        return self.wait_status

    def hang_up(self) -> None:
        """No message will follow: a child that waits for one exits."""
        self.channel.close()

    def close(self) -> None:
        """Releases what the caller holds of it; does not kill."""
        self.channel.close()
        self.output.close()
        if self._process >= 0:
            os.close(self._process)
            self._process = -1


def _await_readable(descriptor: int, deadline: Deadline) -> None:
    poll = select.poll()  # select() cannot watch descriptors above 1023
    poll.register(descriptor, select.POLLIN)
    poll.poll(int(deadline.left * 1000) + 1)


def _milliseconds(deadline: Deadline) -> int:
    return int(min(deadline.left, SLICE_SECONDS) * 1000) + 1
