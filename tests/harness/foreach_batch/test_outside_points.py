"""Which calls to the outside are a function's: not those of threads that ran before it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from sinkproof.foreach_batch.outside_points import outside_points

SECONDS = 60.0


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        yield client


def sender(connection: socket.socket) -> tuple[threading.Thread, SimpleQueue[bytes]]:
    """A thread that sends the first bytes that it is given."""
    given: SimpleQueue[bytes] = SimpleQueue()

    def send() -> None:
        what = given.get(timeout=SECONDS)
        connection.sendall(what)

    thread = threading.Thread(target=send)
    thread.start()
    return thread, given


def test_a_thread_of_before_is_not_of_the_function_and_one_that_it_starts_is(
    connection: socket.socket, tmp_path: Path
) -> None:
    before, to_before = sender(connection)
    reached: list[str] = []
    with outside_points(tmp_path, reached.append, files=()):
        to_before.put(b"heartbeat")
        before.join(SECONDS)
        assert [] == reached
        started, to_started = sender(connection)
        to_started.put(b"row")
        started.join(SECONDS)
        assert ["socket.send"] == reached
        connection.sendall(b"row")
        assert ["socket.send"] * 2 == reached
