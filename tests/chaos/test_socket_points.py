"""What is sent over TCP is a point; a reply that is lost had come."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from sinkproof.chaos.lines import Unanswered
from sinkproof.chaos.socket_points import Unavailable, socket_points

Pair = tuple[socket.socket, list[bytes]]


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


@pytest.mark.parametrize("method", ["send", "sendall"])
def test_what_is_sent_is_a_point(connected: Pair, method: str) -> None:
    connection, received = connected
    reached: list[str] = []
    mine = threading.get_ident()
    with socket_points(lambda point: reached.append(point) if threading.get_ident() == mine else None):
        getattr(connection, method)(b"request")
        assert b"done" == connection.recv(100)
    connection.sendall(b"more")
    assert b"done" == connection.recv(100)
    assert ([b"request", b"more"], ["socket.send"]) == (received, reached)


@pytest.mark.parametrize(("error", "arrived"), [(OSError, []), (Unanswered, [b"request"])])
def test_it_fails_before_or_after_and_ends_the_connection(
    connected: Pair, error: type[OSError], arrived: list[bytes]
) -> None:
    connection, received = connected
    mine = threading.get_ident()

    def reach(point: str) -> None:
        if threading.get_ident() == mine:
            raise error("injected")

    with socket_points(reach), pytest.raises(ConnectionResetError, match="injected"):
        connection.sendall(b"request")
    assert b"" == connection.recv(100)
    assert arrived == received


@pytest.mark.timeout(60)
def test_a_client_with_patience_does_not_wait_for_more_than_the_reply(connected: Pair) -> None:
    connection, received = connected
    connection.settimeout(600)
    mine = threading.get_ident()

    def reach(point: str) -> None:
        if threading.get_ident() == mine:
            raise Unanswered("injected")

    with socket_points(reach), pytest.raises(ConnectionResetError):
        connection.sendall(b"request")
    assert [b"request"] == received


def test_sockets_of_this_machine_alone_have_none() -> None:
    reached: list[str] = []
    here, there = socket.socketpair()
    with here, there, socket_points(reached.append):
        here.sendall(b"request")
        assert b"request" == there.recv(100)
    assert [] == reached


@pytest.mark.parametrize(
    ("sent", "arrived", "reply"),
    [
        (b"PUT /part HTTP/1.1\r\n\r\n", [], b"HTTP/1.1 503 Service Unavailable\r\n"),
        (b"INSERT INTO rows", [b"INSERT INTO rows"], b"done"),
    ],
)
def test_a_request_of_http_is_refused_and_what_is_none_is_sent(
    connected: Pair, sent: bytes, arrived: list[bytes], reply: bytes
) -> None:
    connection, received = connected
    mine = threading.get_ident()

    def reach(point: str) -> None:
        if threading.get_ident() == mine and len(reached) < 1:
            reached.append(point)
            raise Unavailable("injected")

    reached: list[str] = []
    with socket_points(reach):
        connection.sendall(sent)
        if not arrived:
            connection.sendall(b"the body")  # of a request that is refused already
        assert connection.recv(100).startswith(reply)
    assert arrived == received
