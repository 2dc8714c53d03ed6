"""What is sent over TCP is a point; a reply that is lost had come."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from sinkproof.chaos.lines import Unanswered
from sinkproof.chaos.requests.socket_points import (
    OTHER_ENDS,
    Closed,
    GatewayTimeout,
    ItemsRejected,
    RefusedRequest,
    ReplyTooLate,
    Throttled,
    Unavailable,
    socket_points,
)

CERTIFICATE: Final = Path(__file__).parents[1] / "support" / "localhost.pem"  # of no use elsewhere
Pair = tuple[socket.socket, list[bytes]]


@pytest.fixture(autouse=True)
def closed_ends() -> Iterator[None]:
    yield
    while OTHER_ENDS:
        OTHER_ENDS.pop().close()


@pytest.fixture
def connected() -> Iterator[Pair]:
    """A connection to a server that answers, and what the server has received."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                while text := connection.recv(100):
                    received.append(text)
                    connection.sendall(b"done")

        thread = threading.Thread(target=serve)
        thread.start()
        with socket.create_connection(server.getsockname()) as connection:
            yield connection, received
        thread.join()


@pytest.mark.parametrize("fixture", ["connected", "connected_by_tls"])
@pytest.mark.parametrize("method", ["send", "sendall"])
def test_what_is_sent_is_one_point(fixture: str, method: str, request: pytest.FixtureRequest) -> None:
    connection, received = request.getfixturevalue(fixture)
    reached: list[str] = []
    mine = threading.get_ident()
    with socket_points(lambda point: reached.append(point) if threading.get_ident() == mine else None):
        getattr(connection, method)(b"request")
        assert b"done" == connection.recv(100)
    connection.sendall(b"more")
    assert b"done" == connection.recv(100)
    assert ([b"request", b"more"], ["socket.send"]) == (received, reached)


def failing(error: type[OSError]) -> Callable[[str], None]:
    """What this thread sends fails."""
    mine = threading.get_ident()

    def reach(point: str) -> None:
        if threading.get_ident() == mine:
            raise error("injected")

    return reach


def failing_once(error: type[OSError]) -> Callable[[str], None]:
    fails, errors = failing(error), [error]

    def reach(point: str) -> None:
        if errors:
            errors.clear()
            fails(point)

    return reach


def read_into(connection: socket.socket) -> bytes:
    room = bytearray(100)
    return bytes(room[: connection.recv_into(room)])


@pytest.mark.parametrize("method", ["send", "sendall"])
def test_it_fails_before_it_is_sent(connected: Pair, method: str) -> None:
    connection, received = connected
    with socket_points(failing(OSError)), pytest.raises(ConnectionResetError, match="injected"):
        getattr(connection, method)(b"request")
    assert b"" == connection.recv(100)
    assert [] == received


@pytest.mark.parametrize("method", ["send", "sendall"])
@pytest.mark.parametrize("read", [lambda connection: connection.recv(100), read_into])
@pytest.mark.parametrize(("error", "arrived"), [(Closed, []), (Unanswered, [b"request"])])
def test_a_reply_is_lost_where_it_is_read_and_the_connection_is_of_no_use_then(
    connected: Pair, error: type[OSError], arrived: list[bytes], read: Callable[[socket.socket], bytes], method: str
) -> None:
    connection, received = connected
    with socket_points(failing(error)):
        assert getattr(connection, method)(b"request") == (7 if method == "send" else None)
        if error is Unanswered:
            with pytest.raises(ConnectionResetError, match="injected"):
                read(connection)
        assert b"" == read(connection)
    with pytest.raises(BrokenPipeError):
        connection.sendall(b"more")
    assert arrived == received


@pytest.mark.parametrize(("error", "arrived"), [(Closed, []), (Unanswered, [b"request"])])
def test_a_client_of_asyncio_loses_its_reply_in_the_same_ways(
    connected: Pair, error: type[OSError], arrived: list[bytes]
) -> None:
    connection, received = connected

    async def ask() -> bytes | str:
        reader, writer = await asyncio.open_connection(sock=connection.dup())
        writer.write(b"request")
        try:
            return await asyncio.wait_for(reader.read(100), 20)
        except ConnectionResetError as reset:
            return str(reset)
        finally:
            writer.close()

    with socket_points(failing(error)):
        reply = asyncio.run(ask())
    assert (b"" if error is Closed else "[Errno 104] injected") == reply
    assert arrived == received


@pytest.mark.timeout(60)
def test_a_client_with_patience_does_not_wait_for_more_than_the_reply(connected: Pair) -> None:
    connection, received = connected
    connection.settimeout(600)
    with socket_points(failing(Unanswered)):
        connection.sendall(b"request")
        with pytest.raises(ConnectionResetError):
            connection.recv(100)
    assert [b"request"] == received


def test_sockets_of_this_machine_alone_have_none() -> None:
    reached: list[str] = []
    here, there = socket.socketpair()
    with here, there, socket_points(reached.append):
        here.sendall(b"request")
        assert b"request" == there.recv(100)
    assert [] == reached


@pytest.mark.parametrize(
    ("kind", "sent", "arrived", "reply"),
    [
        (Unavailable, b"PUT /part HTTP/1.1\r\n\r\n", [], b"HTTP/1.1 503 Service Unavailable\r\n"),
        (Unavailable, b"MOVE /part HTTP/1.1\r\n\r\n", [], b"HTTP/1.1 503 Service Unavailable\r\n"),
        (Throttled, b"PUT /part HTTP/1.1\r\n\r\n", [], b"HTTP/1.1 429 Too Many Requests\r\n"),
        (Unavailable, b"INSERT INTO rows", [b"INSERT INTO rows"], b"done"),
    ],
)
def test_a_request_of_http_is_refused_and_what_is_none_is_sent(
    connected: Pair, kind: type[RefusedRequest], sent: bytes, arrived: list[bytes], reply: bytes
) -> None:
    connection, received = connected
    mine = threading.get_ident()

    def reach(point: str) -> None:
        if threading.get_ident() == mine and len(reached) < 1:
            reached.append(point)
            raise kind("injected")

    reached: list[str] = []
    with socket_points(reach):
        connection.sendall(sent)
        if not arrived:
            connection.sendall(b"the body")  # of a request that is refused already
        assert connection.recv(100).startswith(reply)
    assert arrived == received


@pytest.mark.parametrize("read", [lambda connection: connection.recv(30), read_into])
@pytest.mark.parametrize("by", ["connected", "connected_by_tls"])
def test_a_request_of_http_is_carried_out_and_a_gateway_answers_for_the_service(
    by: str, read: Callable[[socket.socket], bytes], request: pytest.FixtureRequest
) -> None:
    connection, received = request.getfixturevalue(by)
    connection.settimeout(5)
    with socket_points(failing(GatewayTimeout)):
        connection.sendall(b"PUT /part HTTP/1.1\r\n\r\n")
        reply = b"".join(iter(lambda: read(connection), b""))
    assert GatewayTimeout("injected").reply == reply
    assert [b"PUT /part HTTP/1.1\r\n\r\n"] == received


@pytest.mark.parametrize("read", [lambda connection: connection.recv(30), read_into])
@pytest.mark.parametrize("by", ["connected", "connected_by_tls"])
def test_a_reply_comes_when_the_timeout_of_its_connection_is_over(
    by: str, read: Callable[[socket.socket], bytes], request: pytest.FixtureRequest
) -> None:
    connection, received = request.getfixturevalue(by)
    connection.settimeout(600)
    with socket_points(failing(ReplyTooLate)):
        connection.sendall(b"request")
        with pytest.raises(TimeoutError):
            read(connection)
        assert b"done" == read(connection).rstrip(b"\0")
    assert [b"request"] == received


@pytest.mark.parametrize("by", ["connected", "connected_by_tls"])
@pytest.mark.parametrize("split", [0, 20, 60, 90])
def test_each_item_of_a_bulk_request_is_rejected_by_a_reply_of_200(
    by: str, split: int, request: pytest.FixtureRequest
) -> None:
    connection, received = request.getfixturevalue(by)
    body = b'{"create": {"_id": "0-1"}}\n[0, 1]\n{"delete": {"_id": "0-0"}}\n'
    sent = b"POST /rows/_bulk HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    first = sent.index(b"\r\n") + split  # what is sent first has the line of the request
    connection.settimeout(5)
    with socket_points(failing_once(ItemsRejected)):
        connection.sendall(sent[:first])
        connection.sendall(sent[first:])
        reply = b"".join(iter(lambda: connection.recv(30), b""))
    head, _, text = reply.partition(b"\r\n\r\n")
    rejected = [(next(iter(item)), *item.values()) for item in json.loads(text)["items"]]
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert [("create", "0-1", 429), ("delete", "0-0", 429)] == [
        (action, about["_id"], about["status"]) for action, about in rejected
    ]
    assert json.loads(text)["errors"]
    assert [] == received


@pytest.mark.parametrize(
    "sent",
    [
        b"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.BatchWriteItem\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /rows HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /_bulk HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]",
        b"POST /_bulk HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_what_is_no_bulk_request_is_sent(connected: Pair, sent: bytes) -> None:
    connection, received = connected
    with socket_points(failing_once(ItemsRejected)):
        connection.sendall(sent)
        assert b"done" == connection.recv(100)
    assert [sent] == received


def test_without_a_timeout_a_late_reply_is_awaited(connected: Pair) -> None:
    connection, received = connected
    with socket_points(failing(ReplyTooLate)):
        connection.sendall(b"request")
        assert b"done" == connection.recv(100)
    assert [b"request"] == received


@pytest.mark.parametrize("read", [lambda connection: connection.recv(100), read_into])
def test_a_reply_comes_in_pieces_unless_a_client_waits_for_all_of_it(
    connected: Pair, read: Callable[[socket.socket], bytes]
) -> None:
    connection, _ = connected
    with socket_points(lambda point: None, in_pieces=True):
        for _ in range(2):
            connection.sendall(b"ask")  # a piece, for the server, too
            assert b"done" == connection.recv(4, socket.MSG_WAITALL | socket.MSG_PEEK)
            assert [b"don", b"e"] == [read(connection) for _ in range(2)]


@pytest.fixture
def connected_by_tls() -> Iterator[Pair]:
    """The same, encrypted."""
    received: list[bytes] = []
    ours, theirs = ssl.create_default_context(cafile=CERTIFICATE), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(CERTIFICATE)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with suppress(OSError), theirs.wrap_socket(connection, server_side=True) as secured:
                while text := secured.recv(100):
                    received.append(text)
                    secured.sendall(b"done")

        thread = threading.Thread(target=serve)
        thread.start()
        with (
            socket.create_connection(server.getsockname()) as plain,
            ours.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            yield connection, received
        thread.join()


@pytest.mark.parametrize("read", [lambda connection: connection.recv(100), read_into])
@pytest.mark.parametrize(("error", "arrived"), [(Closed, []), (Unanswered, [b"request"])])
def test_a_reply_by_tls_is_lost_where_it_is_read(
    connected_by_tls: Pair, error: type[OSError], arrived: list[bytes], read: Callable[[socket.socket], bytes]
) -> None:
    connection, received = connected_by_tls
    with socket_points(failing(error)):
        connection.sendall(b"request")
        if error is Unanswered:
            with pytest.raises(ConnectionResetError, match="injected"):
                read(connection)
        assert b"" == read(connection)
    assert arrived == received


def test_a_request_by_tls_fails_before_it_is_sent(connected_by_tls: Pair) -> None:
    connection, received = connected_by_tls
    with socket_points(failing(OSError)), pytest.raises(ConnectionResetError, match="injected"):
        connection.sendall(b"request")
    assert [] == received


@pytest.mark.parametrize("read", [lambda connection: connection.recv(30), read_into])
@pytest.mark.parametrize("kind", [Unavailable, Throttled])
def test_a_request_of_http_by_tls_is_refused(
    connected_by_tls: Pair, kind: type[RefusedRequest], read: Callable[[socket.socket], bytes]
) -> None:
    connection, received = connected_by_tls
    with socket_points(failing(kind)):
        connection.sendall(b"PUT /part HTTP/1.1\r\n\r\n")
        connection.sendall(b"the body")
        reply = b"".join(iter(lambda: read(connection), b""))
    assert kind("injected").reply == reply
    assert [] == received
