"""Requests cluster metadata from one broker: the shortest request that only a ready broker answers."""

from __future__ import annotations

import socket
import struct
from typing import Final, NamedTuple

METADATA: Final = 3
VERSION: Final = 1  # understood from Kafka 0.10 to 4
ANSWER_BYTES_MOST: Final = 1 << 24
ANSWER_SECONDS: Final = 2.0


class Membership(NamedTuple):
    brokers: dict[int, str]  # node id: host:port
    controller: int  # -1: none


def request_metadata(address: str, *, seconds: float) -> Membership:
    """Raises OSError without a reply, or if the reply is not Kafka's."""
    host, _, port = address.rpartition(":")
    request = struct.pack(">hhi", METADATA, VERSION, 1) + _text("sinkproof") + struct.pack(">i", 0)  # without topics
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", _receive(connection, 4))
        if not 0 < length <= ANSWER_BYTES_MOST:
            raise OSError(f"{address} does not speak the Kafka protocol")
        answer = _receive(connection, length)
    try:
        return _membership(answer)
    except (struct.error, UnicodeDecodeError) as error:
        raise OSError(f"{address} does not speak the Kafka protocol: {error}") from error


def is_ready(address: str, *, node: int, nodes: int) -> bool:
    """Whether this node lists itself, all other nodes, and a controller."""
    try:
        found = request_metadata(address, seconds=ANSWER_SECONDS)
    except OSError:
        return False
    return node in found.brokers and len(found.brokers) >= nodes and found.controller >= 0


def _membership(answer: bytes) -> Membership:
    (count,) = struct.unpack_from(">i", answer, 4)
    at, brokers = 8, {}
    for _ in range(count):
        (node,) = struct.unpack_from(">i", answer, at)
        host, at = _read_text(answer, at + 4)
        (port,) = struct.unpack_from(">i", answer, at)
        _, at = _read_text(answer, at + 4)  # rack
        brokers[node] = f"{host}:{port}"
    return Membership(brokers, struct.unpack_from(">i", answer, at)[0])


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _read_text(answer: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", answer, at)
    end = at + 2 + max(length, 0)
    return answer[at + 2 : end].decode(), end


def _receive(connection: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise ConnectionError("it has closed the connection")
        parts += part
    return parts
