"""Makes what code in Python sends over TCP a point, with replies that can be lost: for services of any kind.

A lost reply has come when the call fails, so the service has done what was requested: how a run ends is no matter of
speed. The connection is of no use afterwards. Encrypted connections, and those of native modules, have no points.
"""

from __future__ import annotations

import os
import re
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import ECONNRESET
from typing import Any, Final

from sinkproof.chaos.lines import Unanswered

POINT: Final = "socket.send"
METHODS: Final = ("send", "sendall")
FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
REPLY_SECONDS: Final = 0.5  # a request that is sent in several pieces has no reply before the last one
READ_BYTES: Final = 1 << 16
REQUEST: Final = re.compile(rb"(?:DELETE|GET|HEAD|PATCH|POST|PUT) \S+ HTTP/1")
REFUSAL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 12\r\nConnection: close\r\n"
    b"\r\nunavailable\n"
)


OTHER_ENDS: Final[list[socket.socket]] = []  # of connections that are answered here


class Unavailable(OSError):
    """Raised by `reach`: if a request of HTTP is about to be sent, its reply is REFUSAL; anything else is sent."""


@contextmanager
def socket_points(reach: Callable[[str], None]) -> Iterator[None]:
    """`reach` is called right before bytes are sent. An OSError that it raises ends the connection: before they are
    sent, or (Unanswered) after the reply to them has come. The call raises ConnectionResetError, as a real one would:
    clients connect again for that. Unavailable is not raised.
    """
    for name in METHODS:
        setattr(socket.socket, name, _watched(getattr(socket.socket, name), reach))
    try:
        yield
    finally:
        for name in METHODS:
            delattr(socket.socket, name)  # inherited again


def _watched(send: Callable[..., Any], reach: Callable[[str], None]) -> Callable[..., Any]:
    def send_watched(connection: socket.socket, *arguments: Any) -> Any:
        if connection.family in FAMILIES and connection.type == socket.SOCK_STREAM:
            try:
                reach(POINT)
            except Unavailable:
                if REQUEST.match(arguments[0]):
                    _answer_instead(connection)
            except Unanswered as injected:
                send(connection, *arguments)
                _drop_reply(connection)
                raise ConnectionResetError(ECONNRESET, injected.strerror or str(injected)) from None
            except OSError as injected:
                _disconnect(connection)
                raise ConnectionResetError(ECONNRESET, injected.strerror or str(injected)) from None
        return send(connection, *arguments)

    return send_watched


def _drop_reply(connection: socket.socket) -> None:
    wait = REPLY_SECONDS
    with suppress(OSError):  # a socket with a timeout waits for that long in `recv`, whatever its flags
        while select.select([connection], [], [], wait)[0] and connection.recv(READ_BYTES):
            wait = 0.0
    _disconnect(connection)


def _answer_instead(connection: socket.socket) -> None:
    """What the client sends from now on is not read, and what it reads is the refusal. Its end is kept open: else the
    client would fail as it sends the body.
    """
    its, other = socket.socketpair()
    other.sendall(REFUSAL)
    other.shutdown(socket.SHUT_WR)
    os.dup2(its.fileno(), connection.fileno())
    its.close()
    OTHER_ENDS.append(other)


def _disconnect(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
