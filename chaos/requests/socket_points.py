"""Makes what code in Python sends over TCP a point, with replies that can be lost: for services of any kind.

A reply has come when it is lost, so the service has done what was requested: how a run ends is no matter of speed. As
in a real network, the call that sends succeeds then, and the one that reads the reply fails. The connection is of no
use afterwards. With TLS, only what Python's `ssl.SSLSocket` sends is a point; what native modules send is none.
"""

from __future__ import annotations

import os
import re
import select
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from errno import ECONNRESET
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from sinkproof.chaos.lines import Unanswered
from sinkproof.chaos.requests import delayed_requests
from sinkproof.chaos.requests.bulk_requests import END_OF_HEAD, begins_one, is_whole, rejection
from sinkproof.chaos.requests.bulk_requests_in_part import in_part, lacks_more
from sinkproof.chaos.requests.delayed_requests import HELD_BACK, NEXT, ON_ITS_WAY

POINT: Final = "socket.send"
METHODS: Final = ("send", "sendall")
READING: Final = ("recv", "recv_into")
PIECE_BYTES: Final = 3
FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
REPLY_SECONDS: Final = 0.5  # a request that is sent in several pieces has no reply before its last piece
READ_BYTES: Final = 1 << 16
REQUEST: Final = re.compile(rb"[A-Z]+ \S+ HTTP/1")  # methods of WebDAV, and of a service's own, are refused, too


OTHER_ENDS: Final[list[socket.socket]] = []  # of connections that are answered here
ANSWERS: Final[WeakKeyDictionary[socket.socket, bytearray]] = WeakKeyDictionary()  # the same, with TLS: what is left
FAILING: Final[WeakKeyDictionary[socket.socket, OSError]] = WeakKeyDictionary()  # connections: how the next read fails
HELD: Final[WeakKeyDictionary[socket.socket, tuple[bytearray, ItemsRejected]]] = WeakKeyDictionary()  # what was sent
INSTEAD: Final[WeakKeyDictionary[socket.socket, Callable[[bytes], bytes]]] = WeakKeyDictionary()  # of the next reply


class RefusedRequest(OSError):
    """Raised by `reach`: if a request of HTTP is about to be sent, it is answered with this status; anything else is
    sent. `carried_out`: the service gets it all the same.
    """

    carried_out = False
    status: str
    body: tuple[str, bytes]  # its type, and what it is

    @property
    def reply(self) -> bytes:
        return _reply(self.status, *self.body)


class Unavailable(RefusedRequest):
    status = "503 Service Unavailable"
    body = "text/plain", b"unavailable\n"


class Throttled(RefusedRequest):
    status = "429 Too Many Requests"
    body = "application/json", b'{"error": "too many requests"}\n'


class GatewayTimeout(RefusedRequest):
    carried_out = True
    status = "504 Gateway Timeout"
    body = "text/plain", b"gateway timeout\n"


class BadGateway(GatewayTimeout):
    status = "502 Bad Gateway"
    body = "text/plain", b"bad gateway\n"


class ReplyCut(OSError):
    """Raised by `reach`: a request of HTTP is carried out, and the connection ends amid the body of its reply."""


class RequestDelayed(OSError):
    """Raised by `reach`: see delayed_requests.py. What is no request of HTTP that may change something is sent."""


class ItemsRejected(OSError):
    """Raised by `reach`: see bulk_requests.py. What is no such request is sent."""

    all_of_them = True


class SomeRejected(ItemsRejected):
    """Every second item; the others are sent. All, where there is only one."""

    all_of_them = False


class ReplyTooLate(OSError):
    """Raised by `reach`: what is sent arrives. If the connection has a timeout, the read of the reply raises that it is
    over, and the reply is what the next read finds.
    """


class Closed(OSError):
    """Raised by `reach`: what is sent is lost, and where a reply is expected, the connection ends as servers end it."""


RAISED: Final[dict[str, type[OSError]]] = {  # by `reach`, for kinds of faults that strike at requests only
    "unavailable": Unavailable,
    "throttled": Throttled,
    "gateway-timeout": GatewayTimeout,
    "bad-gateway": BadGateway,
    "reply-cut": ReplyCut,
    "request-delayed": RequestDelayed,
    "items-rejected": ItemsRejected,
    "some-rejected": SomeRejected,
    "late-reply": ReplyTooLate,
    "closed": Closed,
}
RAISED_AT_CALLS: Final[dict[str, type[OSError]]] = {"error": OSError, "unanswered": Unanswered, **RAISED}


@contextmanager
def socket_points(reach: Callable[[str], None], *, in_pieces: bool = False) -> Iterator[None]:
    """`reach` is called right before bytes are sent. An OSError that it raises ends the connection before they are
    sent, and the call raises ConnectionResetError: clients connect again for that. Unanswered ends it after the reply
    has come, and the next read raises ConnectionResetError. Of other errors see their classes.
    `in_pieces`: each read brings a few bytes at most, as TCP may.
    """
    with ExitStack() as stack:
        for kind, methods in _kinds():
            for name in methods:
                stack.enter_context(_replaced(kind, name, _watched(name, getattr(kind, name), reach)))
            for name in READING:
                read = _received(getattr(kind, name), in_pieces=in_pieces)
                stack.enter_context(_replaced(kind, name, _answered_or_reset(read)))
        yield


def _kinds() -> Iterator[tuple[type[socket.socket], Sequence[str]]]:
    """Classes of sockets, and the methods by which each sends. That of TLS calls its `send` in `sendall`."""
    yield socket.socket, METHODS
    if "ssl" in sys.modules:
        yield sys.modules["ssl"].SSLSocket, METHODS[:1]


@contextmanager
def _replaced(kind: type[socket.socket], name: str, method: Callable[..., Any]) -> Iterator[None]:
    own = kind.__dict__.get(name)
    setattr(kind, name, method)
    try:
        yield
    finally:
        if own is None:
            delattr(kind, name)  # inherited again
        else:
            setattr(kind, name, own)


def _watched(name: str, send: Callable[..., Any], reach: Callable[[str], None]) -> Callable[..., Any]:
    def send_watched(connection: socket.socket, *arguments: Any) -> Any:
        if ANSWERS and connection in ANSWERS:
            return memoryview(arguments[0]).nbytes
        if HELD and connection in HELD:
            return _hold(connection, arguments[0])
        if HELD_BACK and connection in HELD_BACK:
            return _hold_back(connection, arguments[0])
        if connection.family in FAMILIES and connection.type == socket.SOCK_STREAM:
            try:
                reach(POINT)
            except RefusedRequest as refused:
                if REQUEST.match(arguments[0]) and refused.carried_out:
                    INSTEAD[connection] = partial(_replaced_by, refused.reply)
                elif REQUEST.match(arguments[0]):
                    _answer_instead(connection, refused.reply)
                    return (
                        send_watched(connection, *arguments) if connection in ANSWERS else send(connection, *arguments)
                    )
            except ItemsRejected as rejected:
                if begins_one(bytes(arguments[0])):
                    HELD[connection] = bytearray(), rejected
                    return _hold(connection, arguments[0])
            except ReplyCut:
                if REQUEST.match(arguments[0]):
                    INSTEAD[connection] = _without_its_end
            except RequestDelayed:
                if delayed_requests.can_be_delayed(connection, arguments[0]):
                    return _hold_back(connection, arguments[0])
            except ReplyTooLate:
                if connection.gettimeout():
                    FAILING[connection] = TimeoutError("timed out")
            except Closed:
                _disconnect(connection)
                return None if name == "sendall" else memoryview(arguments[0]).nbytes
            except Unanswered as injected:
                sent = send(connection, *arguments)
                _drop_reply(connection)
                FAILING[connection] = ConnectionResetError(ECONNRESET, injected.strerror or str(injected))
                return sent
            except OSError as injected:
                _disconnect(connection)
                raise ConnectionResetError(ECONNRESET, injected.strerror or str(injected)) from None
            if ON_ITS_WAY:
                delayed_requests.note_request(connection, bytes(arguments[0]))
        return send(connection, *arguments)

    return send_watched


def _reply(status: str, kind: str, text: bytes) -> bytes:
    head = (f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(text)}", "Connection: close")
    return "\r\n".join((*head, "", "")).encode() + text


def _hold(connection: socket.socket, part: Any) -> int:
    """How much of it was taken. `sendall` returns nothing, and its callers do not look."""
    held, rejected = HELD[connection]
    held += part
    if is_whole(bytes(held)):
        del HELD[connection]
        if not rejected.all_of_them and (split := in_part(bytes(held))):
            connection.sendall(split[0])
            INSTEAD[connection] = split[1]
        elif body := rejection(bytes(held)):
            _answer_instead(connection, _reply("200 OK", "application/json", body))
        else:
            connection.sendall(bytes(held))
    return memoryview(part).nbytes


def _hold_back(connection: socket.socket, part: Any) -> int:
    delayed_requests.hold_back(connection, bytes(part))
    return memoryview(part).nbytes


def _received(read: Callable[..., Any], *, in_pieces: bool) -> Callable[..., Any]:
    if not in_pieces:
        return read

    def read_a_piece(connection: socket.socket, size_or_room: Any, *others: int) -> Any:
        waits_for_all = bool(others) and others[-1] & socket.MSG_WAITALL
        if waits_for_all or connection.family not in FAMILIES or connection.type != socket.SOCK_STREAM:
            return read(connection, size_or_room, *others)
        if isinstance(size_or_room, int):
            return read(connection, min(size_or_room, PIECE_BYTES), *others)
        return read(connection, size_or_room, min(_size_of(size_or_room, *others), PIECE_BYTES), *others[1:])

    return read_a_piece


def _size_of(room: Any, *others: int) -> int:
    """How many bytes `recv_into` may read."""
    return (others[0] if others else 0) or memoryview(room).nbytes


def _answered_or_reset(read: Callable[..., Any]) -> Callable[..., Any]:
    def read_watched(connection: socket.socket, *arguments: Any) -> Any:
        failure = FAILING.pop(connection, None) if FAILING else None
        if failure is not None:
            if isinstance(failure, TimeoutError):
                select.select([connection], [], [], REPLY_SECONDS)
            raise failure
        if HELD_BACK or NEXT:
            delayed_requests.before_read(connection, _take_reply)
        if INSTEAD and (changed := INSTEAD.pop(connection, None)):
            _answer_instead(connection, changed(_take_reply(connection)))
        if ANSWERS and connection in ANSWERS:
            return _take_from(ANSWERS[connection], *(arguments or (READ_BYTES,)))
        return read(connection, *arguments)

    return read_watched


def _take_from(answer: bytearray, size_or_room: Any, *others: int) -> Any:
    """As `recv` and `recv_into` return it; what was taken is gone."""
    is_size = isinstance(size_or_room, int)
    size = size_or_room if is_size else _size_of(size_or_room, *others)
    part = bytes(answer[:size])
    del answer[:size]
    if is_size:
        return part
    memoryview(size_or_room).cast("B")[: len(part)] = part
    return len(part)


def _drop_reply(connection: socket.socket) -> None:
    _take_reply(connection)
    _disconnect(connection)


def _take_reply(connection: socket.socket) -> bytes:
    """What has come; of a reply of HTTP that says how long it is, all of it."""
    reply = b""
    with suppress(OSError):  # a socket with a timeout waits for that long in `recv`, whatever its flags
        while select.select([connection], [], [], REPLY_SECONDS if lacks_more(reply) else 0.0)[0]:
            if not (piece := connection.recv(READ_BYTES)):
                break
            reply += piece
    return reply


def _without_its_end(reply: bytes) -> bytes:
    head, end, body = reply.partition(END_OF_HEAD)
    return head + end + body[: len(body) // 2]


def _replaced_by(other: bytes, reply: bytes) -> bytes:
    return other


def _answer_instead(connection: socket.socket, reply: bytes) -> None:
    """What the client sends from now on is not read, and what it reads is the reply. Its end is kept open: else the
    client would fail as it sends the body.
    """
    if type(connection) is not socket.socket:  # with TLS, which another socket does not speak
        ANSWERS[connection] = bytearray(reply)
        return
    its, other = socket.socketpair()
    other.sendall(reply)
    other.shutdown(socket.SHUT_WR)
    os.dup2(its.fileno(), connection.fileno())
    its.close()
    OTHER_ENDS.append(other)


def _disconnect(connection: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # that of TLS would go on without it
