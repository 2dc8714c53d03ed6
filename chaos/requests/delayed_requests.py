"""A request of HTTP that is slow on its way: its client gives up waiting, and it arrives after later ones.

It is held until the client reads the reply, which raises that the time is over. When the service has answered two other
requests that may change something, it comes by a connection of its own. A repetition, equal to it, is none of these.
"""

from __future__ import annotations

import _socket
import re
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

ANSWERED_FIRST: Final = 2  # other requests
REPLY_SECONDS_MOST: Final = 10.0
CHANGES: Final = re.compile(rb"(?!GET|HEAD|OPTIONS)[A-Z]+ \S+ HTTP/1")


@dataclass
class DelayedRequest:
    """`begins`: what was sent of it first."""

    begins: bytes
    address: tuple[str, int]
    held: bytearray = field(default_factory=bytearray)
    left: int = ANSWERED_FIRST


HELD_BACK: Final[WeakKeyDictionary[socket.socket, DelayedRequest]] = WeakKeyDictionary()  # until its reply is read
ON_ITS_WAY: Final[list[DelayedRequest]] = []
# The connections of requests that are answered first: it comes when their reply has.
NEXT: Final[WeakKeyDictionary[socket.socket, DelayedRequest]] = WeakKeyDictionary()


def can_be_delayed(connection: socket.socket, begins: bytes) -> bool:
    """Not by TLS, which another connection would have to begin anew; nor where its client would wait forever."""
    return bool(type(connection) is socket.socket and connection.gettimeout() and CHANGES.match(begins))


def hold_back(connection: socket.socket, part: bytes) -> None:
    """This part of it, the first one or a later one."""
    if connection not in HELD_BACK:
        HELD_BACK[connection] = DelayedRequest(part, connection.getpeername()[:2])
    HELD_BACK[connection].held += part


def note_request(connection: socket.socket, begins: bytes) -> None:
    """Before the first part of any other request is sent."""
    if not CHANGES.match(begins):
        return
    for delayed in [delayed for delayed in ON_ITS_WAY if delayed.begins != begins]:
        delayed.left -= 1
        if not delayed.left:
            ON_ITS_WAY.remove(delayed)
            NEXT[connection] = delayed


def before_read(connection: socket.socket, take_reply: Callable[[socket.socket], bytes]) -> None:
    """Raises TimeoutError where the reply to a held one would be read. `take_reply`: all of one that has come."""
    if delayed := HELD_BACK.pop(connection, None):
        ON_ITS_WAY.append(delayed)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        raise TimeoutError("timed out")
    if delayed := NEXT.pop(connection, None):
        select.select([connection], [], [], REPLY_SECONDS_MOST)
        _arrive(delayed, take_reply)


def _arrive(delayed: DelayedRequest, take_reply: Callable[[socket.socket], bytes]) -> None:
    with suppress(OSError), socket.create_connection(delayed.address, timeout=REPLY_SECONDS_MOST) as connection:
        _socket.socket.sendall(connection, bytes(delayed.held))  # not a point
        select.select([connection], [], [], REPLY_SECONDS_MOST)
        take_reply(connection)
