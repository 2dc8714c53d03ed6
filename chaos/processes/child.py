"""One child process for its caller: the channel for messages, its captured output, signals, and its wait status."""

from __future__ import annotations

import enum
import os
import select
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.child_channel import HEADER

if TYPE_CHECKING:
    from sinkproof.chaos.processes.spawn import ForkServer

DEATH_SECONDS: Final = 10.0  # from SIGKILL to the wait status: 1 ms, unless the process sits in the kernel
MESSAGE_BYTES_MOST: Final = 1 << 28  # a longer one is garbage read as a length
READ_BYTES: Final = 1 << 16
OUTPUT_BYTES_SHOWN: Final = 4096
OUTPUT_BYTES_KEPT: Final = 1 << 22  # output is kept in memory, so it is truncated to its end beyond this
SLICE_SECONDS: Final = 0.25  # of a wait, after which its output is checked for its size


class Silence(enum.Enum):
    """The reason why no reply will come."""

    ENDED = "ended"
    STOPPED = "stopped"
    HUNG = "hung"
    GARBAGE = "garbage"
    STRUCK = "struck"  # a watch beside it has injected a fault


class NoReply(Exception):
    """The child has not replied. The reaction depends on `silence`."""

    def __init__(self, silence: Silence, *, evidence: str = "") -> None:
        super().__init__(silence.value, evidence)
        self.silence, self.evidence = silence, evidence


class ForkServerError(RuntimeError):
    """The server could not be started, died, or cannot fork. It says nothing about any child."""


class CapturedOutput:
    """The output of a process, kept in memory and never on the caller's terminal."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("output")
        self._kept = b""

    def cut(self) -> None:
        """Drops all but the end of too much output. The writer shares the offset, so it goes on at 0."""
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


class ChildProcess:
    """One forked process. The caller alternates between `send` and `receive`."""

    def __init__(self, server: ForkServer, pid: int, *, channel: socket.socket, output: CapturedOutput) -> None:
        self.server, self.pid, self.channel, self.output = server, pid, channel, output
        self.wait_status: int | None = None
        self.stopped = False
        self.struck = -1  # a descriptor that ends every wait when it can be read
        self._buffer = bytearray()
        self._polls: dict[tuple[int, int], select.poll] = {}  # by descriptor and events
        channel.setblocking(False)
        try:
            self._process = os.pidfd_open(pid)
        except ProcessLookupError:  # dead and reaped already; the status is in flight
            self._process = -1

    @property
    def alive(self) -> bool:
        self.server.receive_notices()
        return self.wait_status is None

    def end_waits_at(self, struck: int) -> None:
        """Every wait from now on, as soon as this descriptor can be read."""
        self.struck = struck
        self._polls.clear()

    # -- messages -------------------------------------------------------------------------------

    def send(self, message: bytes, deadline: Deadline) -> None:
        """Raises NoReply when the child does not read the message."""
        rest = memoryview(HEADER.pack(len(message)) + message)
        while rest:
            try:
                rest = rest[self.channel.send(rest) :]
            except BlockingIOError:
                self.await_ready(self.channel.fileno(), select.POLLOUT, deadline)
            except OSError:
                self.await_death(deadline)

    def receive(self, deadline: Deadline) -> bytes:
        """The next whole message. Messages sent before a death are still received; then NoReply is raised."""
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
                self.await_death(deadline)
            self._buffer += data

    def take(self) -> bytes | None:
        """The next whole message, or None if it has not arrived. Raises NoReply once there will be none."""
        self.server.receive_notices()
        dead = self.wait_status is not None  # checked first: a message sent before the death has arrived by then
        while (message := self._whole_message()) is None:
            try:
                data = self.channel.recv(READ_BYTES)
            except BlockingIOError:
                if dead:
                    raise NoReply(Silence.ENDED) from None
                return None
            except OSError:
                data = b""
            if not data:
                self.await_death(Deadline(DEATH_SECONDS))
            self._buffer += data
        return message

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
        """Waits until the descriptor is ready. Raises NoReply if the child is dead, stopped or late before that."""
        if deadline.over:  # a child may send without end
            raise NoReply(Silence.HUNG)
        poll = self._polls.get((descriptor, events)) or self._new_poll(descriptor, events)
        while True:
            silence = self._silence()  # checked before the poll: a message sent before the death is ready by then
            ready = dict(poll.poll(0 if silence else _milliseconds(deadline)))
            if descriptor in ready:
                return
            if self.struck in ready:
                raise NoReply(Silence.STRUCK)
            if silence is not None:
                raise NoReply(silence)
            if ready:
                self.server.receive_notices()
            elif deadline.over:
                raise NoReply(Silence.HUNG)
            self.output.cut()

    def _new_poll(self, descriptor: int, events: int) -> select.poll:
        """It also ends with a notice of the server. It is kept: most waits are for the next reply."""
        poll = self._polls[descriptor, events] = select.poll()
        poll.register(descriptor, events)
        poll.register(self.server.control, select.POLLIN)
        if self.struck >= 0:
            poll.register(self.struck, select.POLLIN)
        return poll

    def _silence(self) -> Silence | None:
        if self.wait_status is not None:
            return Silence.ENDED
        return Silence.STOPPED if self.stopped else None

    def await_death(self, deadline: Deadline) -> None:
        """After an end of file on the channel: the child is dying, or it has closed its channel."""
        soon = Deadline(min(1.0, deadline.left))
        while self.wait_status is None and not soon.over:
            self.server.wait(soon)
        if self.wait_status is None and self._has_exited():  # a busy server has not reported the death yet
            self.join(Deadline(DEATH_SECONDS))
        if self.wait_status is None:
            raise NoReply(Silence.GARBAGE, evidence="it closed its channel")
        raise NoReply(Silence.ENDED)

    def _has_exited(self) -> bool:
        if self._process < 0:
            return True
        poll = select.poll()
        poll.register(self._process, select.POLLIN)
        return bool(poll.poll(0))

    # -- signals --------------------------------------------------------------------------------

    def signal(self, number: int) -> None:
        """Sends it to the process alone. Its group and its daemons die with it, but are not stopped with it."""
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
        """SIGKILL. When this returns the wait status, no descendant of the child runs any more."""
        self.signal(signal.SIGKILL)
        self.join(Deadline(DEATH_SECONDS))
        if self.wait_status is None:
            raise ForkServerError(f"process {self.pid} does not die of SIGKILL within {DEATH_SECONDS:.0f} s")
        return self.wait_status

    def join(self, deadline: Deadline) -> int | None:
        """The wait status; None if the child is alive at the deadline."""
        while self.wait_status is None and not deadline.over:
            self.server.wait(deadline)
        return self.wait_status

    def hang_up(self) -> None:
        """Closes the channel: a child that waits for a message exits."""
        self.channel.close()

    def close(self) -> None:
        """Releases the descriptors; does not kill."""
        self.channel.close()
        self.output.close()
        if self._process >= 0:
            os.close(self._process)
            self._process = -1


def await_readable(descriptor: int, deadline: Deadline) -> None:
    poll = select.poll()  # select() cannot watch descriptors above 1023
    poll.register(descriptor, select.POLLIN)
    poll.poll(int(deadline.left * 1000) + 1)


def _milliseconds(deadline: Deadline) -> int:
    return int(min(deadline.left, SLICE_SECONDS) * 1000) + 1
