"""Requests are pinned byte for byte: their version decides their effect, and kafka-python must not choose another."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sinkproof.chaos.kafka_client.client_settings import NO_SETTINGS
from sinkproof.chaos.services.ports import HOST
from sinkproof.sink_adapters.kafka.broker_requests import RequestingConnection

SOON = 60.0  # seconds: ends a test that has failed
Send = Callable[[RequestingConnection], Any]
CLIENT = b"\0\x09sinkproof".hex()
FLEXIBLE = CLIENT + "00"


def sent(send: Send) -> str:
    """The request without its length and number, in hexadecimal digits."""
    with socket.create_server((HOST, 0)) as server:
        received: list[bytes] = []

        def receive() -> None:
            connection, _ = server.accept()
            with connection:
                (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                received.append(connection.recv(length, socket.MSG_WAITALL))

        broker = threading.Thread(target=receive)
        broker.start()
        client = RequestingConnection(f"{HOST}:{server.getsockname()[1]}", NO_SETTINGS, seconds=SOON)
        with pytest.raises(ConnectionError, match="closed the connection"):
            send(client)
        client.close()
        broker.join()
    (request,) = received
    return request[:4].hex() + " " + request[8:].hex()


@pytest.mark.parametrize(
    ("send", "expected"),
    [
        (lambda c: c.brokers(), f"00030004 {CLIENT}0000000000"),
        (lambda c: c.partitions("t"), f"00030004 {CLIENT}0000000100017400"),
        (lambda c: c.finalized_features(), f"00120003 {FLEXIBLE}0a73696e6b70726f6f66023100"),
        (lambda c: c.coordinator("id"), f"000a0001 {CLIENT}0002696401"),
        (
            lambda c: c.end("id", 7, 2, commit=True, version=3),
            f"001a0003 {FLEXIBLE}036964000000000000000700020100",
        ),
        (
            lambda c: c.end("id", 7, 2, commit=False, version=5),
            f"001a0005 {FLEXIBLE}036964000000000000000700020000",
        ),
        (lambda c: c.take_over("id", timeout_ms=60_000), f"00160004 {FLEXIBLE}0369640000ea60ffffffffffffffffffff00"),
        (lambda c: c.describe("id"), f"00410000 {FLEXIBLE}0203696400"),
        (
            lambda c: c.transactions("a.*", ["Ongoing"]),
            f"00420002 {FLEXIBLE}02084f6e676f696e6701ffffffffffffffff04612e2a00",
        ),
        (
            lambda c: c.end_offset("t", 1, committed=True),
            f"00020002 {CLIENT}ffffffff01000000010001740000000100000001ffffffffffffffff",
        ),
        (lambda c: c.producers("t", 1), f"003d0000 {FLEXIBLE}02027402000000010000"),
    ],
)
def test_a_request_has_these_bytes(send: Send, expected: str) -> None:
    assert expected == sent(send)
