"""A request is sent, and its reply is lost: however soon the reply comes, and whichever kind of socket it is."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sinkproof.chaos.system_calls.carried_out import send_and_be_deaf

Pair = tuple[socket.socket, socket.socket]
SECONDS = 60.0


def connected(family: int) -> Pair:
    if family == socket.AF_UNIX:
        return socket.socketpair()
    with socket.create_server(("127.0.0.1" if family == socket.AF_INET else "::1", 0), family=family) as listener:
        client = socket.create_connection(listener.getsockname()[:2])
        return client, listener.accept()[0]


@pytest.fixture(params=[socket.AF_UNIX, socket.AF_INET, socket.AF_INET6], ids=["unix", "ipv4", "ipv6"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    client, server = connected(request.param)
    with client, server:
        client.settimeout(SECONDS)
        server.settimeout(SECONDS)
        yield client, server


def test_a_reply_that_is_there_at_once_is_lost_and_so_are_later_ones(pair: Pair) -> None:
    client, server = pair
    assert send_and_be_deaf(client, b"request") == len(b"request")
    assert server.recv(100) == b"request"
    for _ in range(2):
        with suppress(BrokenPipeError):  # a local socket tells the server
            server.sendall(b"reply")
        assert client.recv(100) == b""
    assert client.send(b"next") == len(b"next")
    assert server.recv(100) == b"next"


def test_a_reply_to_what_was_sent_before_is_read(pair: Pair) -> None:
    client, server = pair
    server.sendall(b"earlier")
    client.recv(len(b"earlier"), socket.MSG_PEEK)
    send_and_be_deaf(client, b"request")
    assert client.recv(100) == b"earlier"
    assert client.recv(100) == b""


def test_nothing_is_lost_where_nothing_can_be_sent(pair: Pair) -> None:
    client, server = pair
    client.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            client.send(bytes(1 << 16))
    with pytest.raises(OSError, match="full") as refused:
        send_and_be_deaf(client, b"request")
    assert refused.value.errno == errno.EAGAIN
    server.sendall(b"reply")
    client.settimeout(SECONDS)
    assert client.recv(100) == b"reply"


def test_a_datagram_in_reply_is_lost() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as server, socket.socket(type=socket.SOCK_DGRAM) as client:
        server.bind(("127.0.0.1", 0))
        client.connect(server.getsockname())
        server.settimeout(SECONDS)
        send_and_be_deaf(client, b"request")
        request, address = server.recvfrom(100)
        assert request == b"request"
        server.sendto(b"reply", address)
        with pytest.raises(BlockingIOError):
            client.recv(100, socket.MSG_DONTWAIT)
