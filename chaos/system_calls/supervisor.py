"""Answers the outward calls of one program and of all that it starts, and injects a fault at one of them.

A thread of this process receives each call before it is carried out, names it, and lets it go on. At the armed place it
strikes instead; from then on every further outward call waits until the owner of the watch has reacted. If this process
dies, the kernel closes the listener: what waits fails with ENOSYS, and so does each later call.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from sinkproof.chaos.system_calls.acts import INSTEAD, Act
from sinkproof.chaos.system_calls.answered_requests import Answers, is_request
from sinkproof.chaos.system_calls.carried_out import (
    can_be_refused,
    carried_out,
    half_sent,
    hang_up,
    kill_program,
    sent,
    sent_bytes,
)
from sinkproof.chaos.system_calls.outward_calls import BIND, CALLS, CONNECT, MAP, error_of, number_of
from sinkproof.chaos.system_calls.place_names import SOCKET, OutwardChange, PlaceNames, Tracee
from sinkproof.chaos.system_calls.waiting_request import WaitingRequest

RECEIVE, SEND, IS_VALID, SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104  # SECCOMP_IOCTL_NOTIF_...
SYNC_WAKE_UP: Final = 1  # where the kernel has it (6.6 and newer), a call takes less
NOTIFICATION: Final = struct.Struct("QIIiIQ6Q")
ZEROES: Final = bytes(NOTIFICATION.size)
ANSWER: Final = struct.Struct("QqiI")
CARRY_ON: Final = 1
NAMES: Final = {number: name for name, call in CALLS.items() if (number := number_of(call)) is not None}
MAP_NUMBER, CONNECT_NUMBER, BIND_NUMBER = map(number_of, (MAP, CONNECT, BIND))
END_SECONDS: Final = 10.0
UNREADABLE: Final = "the arguments of its system calls cannot be read"
MAPS: Final = "it maps "  # a file, by its path from the watched folder; else the whole path


def maps_below_folder(unseen: str) -> bool:
    """Whether a reason why changes may have been missed is that a file of the watched folder was mapped."""
    return unseen.startswith(MAPS) and not unseen.startswith(f"{MAPS}/")


Armed = tuple[str, int, Act]  # a point, its occurrence, and what happens there


class NotifiedCall(NamedTuple):
    identity: int
    tracee: Tracee
    arguments: tuple[int, ...]
    change: OutwardChange


class PassedCall(NamedTuple):
    """`mark`: what `marks` gave when it was notified. `thread`: that made it. `is_statement`: Act.REFUSE can strike."""

    point: str
    mark: int
    thread: int
    is_statement: bool = False


class Record(Protocol):
    """Told of what is carried out, right before it is. Called by the threads of the watches."""

    def carry_out(self, call: NotifiedCall) -> None: ...
    def fail(self, call: NotifiedCall) -> None:
        """It is not carried out, and fails."""

    def map(self, path: str) -> None:
        """A file below the folder is mapped, and may be written to."""


class SystemCallWatch:
    """`listener`: of the filter (seccomp_filter.py). `kill`: ends the program; called by the thread of the watch.
    `marks`: called at each outward call, before it is carried out.

    `struck` is a descriptor that is readable from a strike until `take_strike`.
    """

    def __init__(
        self,
        listener: int,
        names: PlaceNames,
        *,
        kill: Callable[[], object],
        marks: Callable[[], int] = int,
        record: Record | None = None,
        armed: Armed | None = None,
        process: int = 0,
        held: WaitingRequest | None = None,
    ) -> None:
        """`armed`: a place from the very first call on, as for `arm`. `process`: the program watched. `held`: a request
        of another program, which goes on when this one sends the same.
        """
        self.held = held or WaitingRequest()
        self.listener, self.names, self.kill = listener, names, kill
        self._answers = Answers(listener)
        self.marks, self.record, self.process = marks, record, process
        self.struck, self._end = os.eventfd(0, os.EFD_CLOEXEC), os.eventfd(0, os.EFD_CLOEXEC)
        self.unseen: dict[str, None] = {}  # why changes may have been missed
        self._message = bytearray(NOTIFICATION.size)
        self._lock = threading.Lock()  # of all that follows
        self._calls: list[PassedCall] = []  # since they were last taken
        self._passed: Counter[str] = Counter()
        self._armed = armed
        self._strike: Act | None = None  # not taken yet
        self._waits = False  # after a strike
        self._dies_next = False
        self._answered: tuple[int, int, int | None] | None = None  # the call that was struck, for `go_on`
        self._swallowing: set[str] = set()  # sockets, as the kernel names them
        self._held: list[NotifiedCall] = []
        self._suspended: NotifiedCall | None = None
        with suppress(OSError):
            fcntl.ioctl(listener, SET_FLAGS, SYNC_WAKE_UP)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    # -- for the owner ----------------------------------------------------------------------------

    def arm(self, point: str, left: int, act: Act) -> None:
        """Strikes when the point is reached so many times more; counted from the points that were taken."""
        with self._lock:
            taken = self._passed[point] - sum(call.point == point for call in self._calls)
            self._armed = point, taken + left, act

    def disarm(self) -> None:
        with self._lock:
            self._armed = None

    def take_points(self) -> list[str]:
        """The outward calls since the last time, in order; the one that was struck is the last."""
        return [call.point for call in self.take_calls()]

    def take_calls(self) -> list[PassedCall]:
        """The same, with more of each."""
        with self._lock:
            calls, self._calls = self._calls, []
        return calls

    def take_strike(self) -> Act | None:
        """What has happened at the armed place, once."""
        with self._lock:
            strike, self._strike = self._strike, None
            if strike is not None:
                os.eventfd_read(self.struck)
        return strike

    def go_on(self, *, then_die: bool = False) -> None:
        """The held call is carried out, and further ones are served. `then_die`: up to the next outward call only."""
        self.held.forget(self.go_on)
        with self._lock:
            self._waits, self._dies_next = False, then_die
            suspended, self._suspended = self._suspended, None
            held, self._held = self._held, []
            self._reply_at_last()
            if suspended is not None:
                self._let_pass(suspended, surely=then_die)
            for call in held:
                self._decide(call)

    def close(self) -> None:
        os.eventfd_write(self._end, 1)
        self._thread.join(END_SECONDS)
        os.close(self._end)
        os.close(self.struck)
        self._answers.close()

    # -- the thread -------------------------------------------------------------------------------

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        poll.register(self._end, select.POLLIN)
        is_over = False
        try:
            while not is_over:
                ready = poll.poll()
                is_over = ready != [(self.listener, select.POLLIN)]  # the end, or no process is left
                if not is_over:
                    self._receive()
        finally:
            if not is_over:
                self.unseen["the supervisor of its system calls has failed"] = None
                self.kill()  # else its calls would fail with ENOSYS
            os.close(self.listener)

    def _receive(self) -> None:
        message = self._message
        message[:] = ZEROES  # else the kernel refuses it
        try:
            fcntl.ioctl(self.listener, RECEIVE, message)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINTR):  # the caller was killed meanwhile
                raise
            return
        identity, thread, _, number, _, _, *arguments = NOTIFICATION.unpack(message)
        tracee, change = Tracee(thread), None
        try:
            if number == MAP_NUMBER:
                self._note_map(tracee, arguments[4])
            elif number == CONNECT_NUMBER:
                self.names.note_peer(tracee, arguments)
            elif number == BIND_NUMBER:
                self.names.note_bound(tracee, arguments)
            else:
                change = self.names.change(tracee, NAMES[number], tuple(arguments))
            fcntl.ioctl(self.listener, IS_VALID, struct.pack("Q", identity))  # else another thread was looked at
        except PermissionError as error:
            self.unseen[f"{UNREADABLE}: {error.strerror}"] = None
        except OSError as error:  # it has died, or the call names what does not exist
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                self.unseen[f"{UNREADABLE}: {error.strerror}"] = None
            change = None
        with self._lock:
            if change is None:
                self._reply(identity)
            else:
                self._decide(NotifiedCall(identity, tracee, tuple(arguments), change))

    def _note_map(self, tracee: Tracee, descriptor: int) -> None:
        if not (path := self.names.mapped(tracee, descriptor)):
            return
        about = self.names.below(path)
        self.unseen[f"{MAPS}{about or path} into its memory: what it writes there is no system call"] = None
        if about and self.record is not None:
            self.record.map(path)

    def _decide(self, call: NotifiedCall) -> None:
        if self._waits:
            self._held.append(call)
            return
        point = call.change.point
        self._calls.append(PassedCall(point, self.marks(), call.tracee.thread, is_statement=is_statement(call)))
        self._passed[point] += 1
        if self._dies_next:
            self._inject(call, Act.KILL)
        elif self._armed is not None and self._armed[:2] == (point, self._passed[point]):
            self._inject(call, self._armed[2])
        elif self._swallowing and call.change.about == SOCKET and _socket_of(call) in self._swallowing:
            self._answer_otherwise(call, Act.SWALLOW)
        else:
            if self.held.waits and call.change.about == SOCKET:
                self.held.meet(sent_bytes(call.tracee, call.change.call, call.arguments))
            self._answer(call)

    def _inject(self, call: NotifiedCall, act: Act) -> None:
        is_socket = call.change.about == SOCKET
        self._armed, self._waits = None, True
        match act:
            case Act.KILL_CALLER if kill_program(call.tracee, but=self.process):
                pass
            case Act.KILL | Act.KILL_CALLER | Act.KILL_HALFWAY:
                if act is Act.KILL_HALFWAY:
                    half_sent(call.tracee, call.change.call, call.arguments)
                act = Act.KILL
                self._note_strike(act)  # first: what notices the death asks at once whether this was the cause
                self.kill()
                return
            case Act.HOLD:
                self._suspended = call
            case Act.OVERLAP | Act.MEET:
                self._suspended = call
                sent = None if act is Act.MEET else sent_bytes(call.tracee, call.change.call, call.arguments)
                self.held.hold(sent, go_on=self.go_on)
            case Act.FAIL:
                if is_socket:
                    hang_up(call.tracee, call.arguments[CALLS[call.change.call].descriptor or 0])
                elif self.record is not None and call.change.is_below:
                    self.record.fail(call)
                self._answer(call, error=error_of(call.change.call, is_socket=is_socket))
            case Act.LOSE_REPLY if not is_socket:
                self._answer(call, error=carried_out(call.change, call.arguments) or errno.EIO)
            case Act.LOSE_REPLY | Act.SILENCE | Act.SWALLOW | Act.REFUSE | Act.TIME_OUT | Act.CUT:
                connection = _socket_of(call)
                if not self._answer_otherwise(call, act):
                    self._waits = False
                    self._reply_at_last()
                    return
                if act is Act.SWALLOW:
                    self._swallowing.add(connection)
        self._note_strike(act)

    def _answer_otherwise(self, call: NotifiedCall, act: Act) -> bool:
        """False: the call is carried out. It sends otherwise, or the container forbids pidfd_getfd(2)."""
        made = call.tracee, call.change.call, call.arguments
        try:
            if act is Act.REFUSE and is_request(sent_bytes(*made)):
                value = self._answers.refuse(*made, identity=call.identity)
            else:
                value = INSTEAD[act](*made)
        except OSError:
            self._answer(call)
            return False
        self._answer(call, value=value)
        return True

    def _let_pass(self, call: NotifiedCall, *, surely: bool) -> None:
        """`surely`: what it sends is sent before any other call."""
        if surely and call.change.about == SOCKET:
            with suppress(OSError):
                self._answer(call, value=sent(call.tracee, call.change.call, call.arguments))
                return
        self._answer(call)

    def _note_strike(self, act: Act) -> None:
        self._strike = act
        os.eventfd_write(self.struck, 1)

    def _answer(self, call: NotifiedCall, *, error: int = 0, value: int | None = None) -> None:
        if self.record is not None and call.change.is_below and not error and value is None:
            self.record.carry_out(call)
        self._answered = call.identity, error, value
        if not self._waits:
            self._reply_at_last()

    def _reply_at_last(self) -> None:
        """To a call that was struck only when the program is to go on: its next fault is armed by then."""
        if self._answered is not None:
            identity, error, value = self._answered
            self._answered = None
            self._reply(identity, error=error, value=value)

    def _reply(self, identity: int, *, error: int = 0, value: int | None = None) -> None:
        carries_on = CARRY_ON if not error and value is None else 0
        with suppress(OSError):  # the caller is dead
            fcntl.ioctl(self.listener, SEND, ANSWER.pack(identity, value or 0, -error, carries_on))


def is_statement(call: NotifiedCall) -> bool:
    """Whether Act.REFUSE can strike it."""
    return call.change.about == SOCKET and can_be_refused(sent_bytes(call.tracee, call.change.call, call.arguments))


def _socket_of(call: NotifiedCall) -> str:
    """As the kernel names it; "": it is closed."""
    with suppress(OSError):
        return call.tracee.opened(call.arguments[CALLS[call.change.call].descriptor or 0])
    return ""
