"""Sends the few requests that settle transactions from a process that did not begin them.

No client library offers these requests. Each is sent in one fixed version, because the version decides its effect.
Answers of a broker, errors included, are values; a missing answer is an OSError.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from itertools import count
from typing import Final, NamedTuple

ANSWER_BYTES_MOST: Final = 1 << 26
FIND_COORDINATOR, API_VERSIONS, INIT_PRODUCER_ID, END_TXN, METADATA = 10, 18, 22, 26, 3
LIST_OFFSETS, DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 2, 61, 65, 66
CLIENT: Final = b"sinkproof"
ANY_LENGTH: Final = -1  # open for any time
NEW_PRODUCER: Final = -1
NO_LEADER: Final = 5
NO_REPLICA: Final = -1  # the client is no replica
LATEST: Final = -1


class TransactionDescription(NamedTuple):
    """A transactional id as its coordinator knows it."""

    error: int
    state: str
    producer: int
    epoch: int
    partitions: frozenset[tuple[str, int]]  # topic, number


class ListedTransaction(NamedTuple):
    """A transactional id in a ListTransactions answer."""

    name: str
    producer: int
    state: str


class ActiveProducer(NamedTuple):
    """A producer of a partition, as its leader knows it. `since`: offset of its open transaction; -1: none."""

    producer: int
    epoch: int
    since: int


class ResponseReader:
    """Decodes an answer from its beginning to its end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> int:
        (value,) = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return int(value)

    def text(self) -> str:
        return self._text(self.take("h"))

    def length(self) -> int:
        """Of a compact array or text: sent plus one, so that 0 means null."""
        return self.number() - 1

    def compact_text(self) -> str:
        return self._text(self.length())

    def number(self) -> int:
        """A varint: seven bits a byte, the lowest first."""
        value = shift = 0
        while True:
            byte = self.take("B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def tags(self) -> dict[int, bytes]:
        """Tagged fields, which newer versions add to the end of a structure."""
        found = {}
        for _ in range(self.number()):
            tag, size = self.number(), self.number()
            found[tag] = self.data[self.at : self.at + size]
            self.at += size
        return found

    def _text(self, length: int) -> str:
        start, self.at = self.at, self.at + max(length, 0)
        return self.data[start : self.at].decode()


class BrokerConnection:
    """A connection to one broker. One request at a time; after an OSError it cannot be used any more."""

    def __init__(self, address: str, *, seconds: float) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self.socket = socket.create_connection((host, int(port)), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._numbers = count(1)

    def close(self) -> None:
        self.socket.close()

    # -- requests ---------------------------------------------------------------------------------

    def brokers(self) -> dict[int, str]:
        """Their addresses by node id."""
        return self._metadata(())[0]

    def partitions(self, topic: str) -> tuple[int, list[int]]:
        """(error, numbers). A missing topic is not created."""
        answer = self._metadata((topic,))[1]
        answer.take("i")  # the number of topics: one
        error = answer.take("h")
        answer.text()
        answer.take("b")  # internal
        numbers = []
        for _ in range(answer.take("i")):
            problem = answer.take("h")
            error = problem if problem == NO_LEADER else error
            numbers.append(answer.take("i"))
            answer.take("i")  # its leader
            for _ in range(2):  # replicas; those in sync
                count_of_ids = answer.take("i")
                answer.at += 4 * count_of_ids
        return error, sorted(numbers)

    def _metadata(self, topics: Sequence[str]) -> tuple[dict[int, str], ResponseReader]:
        """Brokers, and a reader at the topics of the answer."""
        answer = self._request(METADATA, 4, struct.pack(">i", len(topics)) + b"".join(map(_text, topics)) + b"\0")
        answer.take("i")  # throttled
        found = {}
        for _ in range(answer.take("i")):
            node, host, port = answer.take("i"), answer.text(), answer.take("i")
            answer.text()  # its rack
            found[node] = f"{host}:{port}"
        answer.text()  # the cluster's id
        answer.take("i")  # its controller
        return found, answer

    def finalized_features(self) -> dict[str, int]:
        """The level of each that the whole cluster has agreed on."""
        name = _compact(CLIENT.decode())
        answer = self._request(API_VERSIONS, 3, name + _compact("1") + b"\0", flexible=True, plain_answer=True)
        if answer.take("h"):
            return {}
        for _ in range(answer.length()):
            answer.at += 6
            answer.tags()
        answer.take("i")  # throttled
        features = ResponseReader(answer.tags().get(2, b"\x01"))
        found = {}
        for _ in range(features.length()):
            feature = features.compact_text()
            found[feature] = features.take("h")
            features.take("h")
            features.tags()
        return found

    def coordinator(self, transactional_id: str) -> tuple[int, str]:
        """(error, address)."""
        answer = self._request(FIND_COORDINATOR, 1, _text(transactional_id) + b"\x01")
        answer.take("i")
        error = answer.take("h")
        answer.text()  # error message
        answer.take("i")
        host, port = answer.text(), answer.take("i")
        return error, f"{host}:{port}"

    def end(self, transactional_id: str, producer: int, epoch: int, *, commit: bool, version: int) -> int:
        """The error. Version 5 also increments the epoch, so that a client with the old one is fenced."""
        content = _compact(transactional_id) + struct.pack(">qh?", producer, epoch, commit) + b"\0"
        answer = self._request(END_TXN, version, content, flexible=True)
        answer.take("i")
        return answer.take("h")

    def take_over(self, transactional_id: str, *, timeout_ms: int) -> int:
        """The error. On success the open transaction is aborted, and its producer is fenced by a higher epoch."""
        content = _compact(transactional_id) + struct.pack(">iqh", timeout_ms, NEW_PRODUCER, NEW_PRODUCER) + b"\0"
        answer = self._request(INIT_PRODUCER_ID, 4, content, flexible=True)
        answer.take("i")
        return answer.take("h")

    def describe(self, transactional_id: str) -> TransactionDescription:
        answer = self._request(DESCRIBE_TRANSACTIONS, 0, b"\x02" + _compact(transactional_id) + b"\0", flexible=True)
        answer.take("i")
        answer.length()
        error = answer.take("h")
        answer.compact_text()
        state = answer.compact_text()
        answer.take("i")  # its timeout
        answer.take("q")  # its start
        producer, epoch = answer.take("q"), answer.take("h")
        partitions = []
        for _ in range(answer.length()):
            topic = answer.compact_text()
            partitions += [(topic, answer.take("i")) for _ in range(answer.length())]
            answer.tags()
        return TransactionDescription(error, state, producer, epoch, frozenset(partitions))

    def transactions(self, pattern: str, states: Sequence[str]) -> tuple[int, list[ListedTransaction]]:
        """(error, transactions that this broker coordinates). `pattern`: RE2, for the whole id. No states: all."""
        content = _number(len(states) + 1) + b"".join(map(_compact, states)) + b"\x01"
        content += struct.pack(">q", ANY_LENGTH) + _compact(pattern) + b"\0"
        answer = self._request(LIST_TRANSACTIONS, 2, content, flexible=True)
        answer.take("i")
        error = answer.take("h")
        for _ in range(answer.length()):
            answer.compact_text()  # states that the broker does not know
        found = []
        for _ in range(answer.length()):
            found.append(ListedTransaction(answer.compact_text(), answer.take("q"), answer.compact_text()))
            answer.tags()
        return error, found

    def end_offset(self, topic: str, partition: int, *, committed: bool) -> tuple[int, int]:
        """(error, end offset); with `committed`, the last stable offset."""
        content = struct.pack(">ib", NO_REPLICA, committed) + struct.pack(">i", 1) + _text(topic)
        answer = self._request(LIST_OFFSETS, 2, content + struct.pack(">iiq", 1, partition, LATEST))
        answer.take("i")
        answer.take("i")
        answer.text()
        for _ in range(2):  # number of partitions, partition
            answer.take("i")
        error = answer.take("h")
        answer.take("q")  # its time
        return error, answer.take("q")

    def producers(self, topic: str, partition: int) -> tuple[int, list[ActiveProducer]]:
        """(error, recent producers)."""
        content = b"\x02" + _compact(topic) + b"\x02" + struct.pack(">i", partition) + b"\0\0"
        answer = self._request(DESCRIBE_PRODUCERS, 0, content, flexible=True)
        answer.take("i")
        answer.length()
        answer.compact_text()
        answer.length()
        answer.take("i")
        error = answer.take("h")
        answer.compact_text()  # error message
        found = []
        for _ in range(answer.length()):
            producer, epoch = answer.take("q"), answer.take("i")
            for form in ("i", "q", "i"):  # its last record, when that was, the coordinator's epoch
                answer.take(form)
            found.append(ActiveProducer(producer, epoch, answer.take("q")))
            answer.tags()
        return error, found

    # -- bytes ------------------------------------------------------------------------------------

    def _request(
        self, key: int, version: int, content: bytes, *, flexible: bool = False, plain_answer: bool = False
    ) -> ResponseReader:
        number = next(self._numbers)
        header = struct.pack(">hhih", key, version, number, len(CLIENT)) + CLIENT + (b"\0" if flexible else b"")
        message = header + content
        self.socket.sendall(struct.pack(">i", len(message)) + message)
        (length,) = struct.unpack(">i", self._receive(4))
        if not 4 <= length <= ANSWER_BYTES_MOST:
            raise ConnectionError(f"{self.address} does not speak the Kafka protocol")
        answer = ResponseReader(self._receive(length))
        if answer.take("i") != number:
            raise ConnectionError(f"{self.address} answers another request")
        if flexible and not plain_answer:
            answer.tags()
        return answer

    def _receive(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self.socket.recv(length - len(parts))
            if not part:
                raise ConnectionError(f"{self.address} closed the connection")
            parts += part
        return bytes(parts)


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def _number(value: int) -> bytes:
    low = b""
    while value > 0x7F:
        low += bytes([value & 0x7F | 0x80])
        value >>= 7
    return low + bytes([value])


def _compact(value: str) -> bytes:
    data = value.encode()
    return _number(len(data) + 1) + data
