"""Admits connections to a listening socket: each proves that it belongs to the job, in time, while others go on.

A connection that proves nothing costs a few hundred bytes until its deadline, and one line in the log. It is neither
waited for nor read from beyond one small message, and there are never more than a few of them.
"""

from __future__ import annotations

import select
import socket
from typing import Final, NamedTuple

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.shared.event_log import EventLog
from sinkproof.reference_engine.shells.spark.peer_authentication import Accepting, Seals, Unproved, is_local

SECONDS: Final = 10.0  # for the two small messages of a handshake, on a busy machine
PENDING_MOST: Final = 128  # at once; one more, and the oldest of them has to go
RECORDED_MOST: Final = 100  # a flood must not fill the disk


class Admitted(NamedTuple):
    socket: socket.socket
    introduced: tuple[int, int]  # generation and actor id
    seals: Seals | None


class Entrance:
    """For a loop around `poll`, in which the listening socket and the pending connections are registered."""

    def __init__(
        self, listening: socket.socket, poll: select.epoll, *, secret: bytes, destination: int, events: EventLog
    ) -> None:
        listening.setblocking(False)  # a connection may be gone by the time it is accepted
        self.listening, self.poll, self.events = listening, poll, events
        self.secret, self.destination = secret, destination
        self.pending: dict[int, tuple[Accepting, Deadline]] = {}  # by descriptor, oldest first
        self.refusals = 0
        poll.register(listening, select.EPOLLIN)

    def owns(self, descriptor: int) -> bool:
        return descriptor == self.listening.fileno() or descriptor in self.pending

    def ready(self, descriptor: int) -> Admitted | None:
        """A connection that has proved itself just now."""
        if descriptor in self.pending:
            return self._advance(self.pending[descriptor][0])
        try:
            connected, _ = self.listening.accept()
        except OSError:
            return None  # it did not wait, or another process of ours took it
        try:
            handshake = Accepting(without_delay(connected), self.secret, destination=self.destination)
        except Unproved as error:
            self._refuse(connected, str(error))
            return None
        if len(self.pending) >= PENDING_MOST:
            self._drop(next(iter(self.pending.values()))[0], "others wait, and it was the slowest")
        self.pending[handshake.fileno()] = handshake, Deadline(SECONDS)
        self.poll.register(handshake, select.EPOLLIN)
        return self._advance(handshake)  # on one host all that is wanted is there already

    def patience(self, seconds: float) -> float:
        """No longer than this may the loop wait; negative means for ever."""
        if not self.pending:
            return seconds
        left = next(iter(self.pending.values()))[1].left
        return left if seconds < 0 else min(seconds, left)

    def drop_late(self) -> None:
        for handshake, deadline in [*self.pending.values()]:
            if deadline.over and not _has_unread(handshake):  # else this process was busy: the next round reads it
                self._drop(handshake, f"it has proved nothing in {SECONDS:.0f} s")

    def _advance(self, handshake: Accepting) -> Admitted | None:
        try:
            if not handshake.advance():
                return None
        except Unproved as error:
            self._drop(handshake, str(error))
            return None
        self._forget(handshake)
        return Admitted(handshake.socket, handshake.introduced, handshake.seals)

    def _forget(self, handshake: Accepting) -> None:
        self.poll.unregister(handshake)
        del self.pending[handshake.fileno()]

    def _drop(self, handshake: Accepting, why: str) -> None:
        self._forget(handshake)
        self._refuse(handshake.socket, why)

    def _refuse(self, connected: socket.socket, why: str) -> None:
        peer = name_of(connected)
        connected.close()
        self.refusals += 1
        if self.refusals <= RECORDED_MOST:
            last = "; further ones are not recorded" if self.refusals == RECORDED_MOST else ""
            self.events.record("refused", peer=peer, destination=self.destination, why=why + last)


def _has_unread(handshake: Accepting) -> bool:
    poll = select.poll()
    poll.register(handshake, select.POLLIN)
    return bool(poll.poll(0))


def name_of(connected: socket.socket) -> str:
    """For the log: where the other end is."""
    try:
        return "this host" if is_local(connected) else str(connected.getpeername()[0])
    except OSError:
        return "a host that is gone"


def without_delay(connected: socket.socket) -> socket.socket:
    """Small messages must not wait for more."""
    if not is_local(connected):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected
