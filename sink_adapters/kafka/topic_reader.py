"""An independent reader of topics: what a consumer of its own sees, which never waits behind an open transaction.

A read_committed reader ends each partition at the last stable offset: what is behind an open transaction is hidden from
every such reader, and that is just what it shows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from sinkproof.sink_adapters.kafka.records import SEGMENT
from sinkproof.sink_adapters.kafka.transaction_control import Control

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
BATCH: Final = 1000
SILENCE_SECONDS: Final = 10.0  # without a record and without an end: the broker is away
OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    segment: str  # of a masked sink; "" of all others


class ReadFailed(Exception):
    """The topic could not be read to its end; nothing is known of what it holds."""


class Reader:
    """A client that is kept, because a new one takes five times as long as what it is for: 80 ms. Nothing of a topic
    is: each reading begins at its beginning, and asks how many partitions there are.
    """

    def __init__(self, endpoint: str, isolation: str) -> None:
        self.consumer, self.control = _consumer(endpoint, isolation), Control(endpoint)
        self.known: dict[str, list[int]] = {}  # to the client, which else finds out half a second later

    def read(self, topic: str) -> list[Record]:
        from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

        error, partitions = self.control.partitions(topic)
        if error:
            raise ReadFailed(f"topic {topic}: Kafka's error {error}")
        if self.known.get(topic) != partitions:
            try:
                self.consumer.list_topics(topic, timeout=SILENCE_SECONDS)
            except KafkaException as failed:
                raise ReadFailed(f"topic {topic}: {failed.args[0].str()}") from failed
            self.known[topic] = partitions
        self.consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        records = sorted(_to_the_end(self.consumer, set(partitions)))
        self.consumer.unassign()
        return records

    def close(self) -> None:
        self.consumer.close()
        self.control.close()


READERS: Final[dict[tuple[int, str, str], Reader]] = {}  # by process: a client does not survive a fork


def read(endpoint: str, topic: str, *, isolation: str = READ_COMMITTED) -> list[Record]:
    """Every record, from the beginning of each partition to its end, by partition and offset."""
    kept = (os.getpid(), endpoint, isolation)
    if kept in READERS:
        try:
            return _read(kept, topic)
        except ReadFailed:
            pass  # it may be the client, which knew another broker at this address: a new one is asked
    READERS[kept] = Reader(endpoint, isolation)
    return _read(kept, topic)


def _read(kept: tuple[int, str, str], topic: str) -> list[Record]:
    try:
        return READERS[kept].read(topic)
    except BaseException:
        READERS.pop(kept).close()  # who knows what it still waits for
        raise


def _consumer(endpoint: str, isolation: str) -> Any:
    from confluent_kafka import Consumer

    return Consumer(
        {
            "bootstrap.servers": endpoint,
            "group.id": "sinkproof-reader",  # asked for by the client, and joined by nobody
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "error",  # a record that is gone is not skipped in silence
            "fetch.wait.max.ms": 10,
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 200,
            "log_level": 2,
        }
    )


def _to_the_end(consumer: Any, open_partitions: set[int]) -> list[Record]:
    from confluent_kafka import KafkaError

    records: list[Record] = []
    while open_partitions:
        first = consumer.poll(SILENCE_SECONDS)
        if first is None:
            raise ReadFailed(f"nothing came from partitions {sorted(open_partitions)} for {SILENCE_SECONDS:.0f} s")
        for message in (first, *consumer.consume(BATCH, timeout=0)):
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            elif not error.retriable() and error.code() != KafkaError._TRANSPORT:
                raise ReadFailed(str(error))
    return records


def _record(message: Any) -> Record:
    segment = dict(message.headers() or ()).get(SEGMENT, b"").decode()
    return Record(message.partition(), message.offset(), message.key(), message.value(), segment)


def lingering(endpoint: str, prefix: str) -> list[str]:
    """Transactional ids with this prefix whose transactions are neither committed nor aborted."""
    control = Control(endpoint)
    try:
        return control.transactions(re.escape(prefix) + ".*", OPEN)
    finally:
        control.close()


def is_marked(endpoint: str, topic: str, key: str, *, prefix: str, settled: str) -> bool | None:
    """Whether a transaction that put this key into the topic was committed; None: it cannot be told now.

    `settled`: the transactional id that it belonged to, which nobody has open. A record that readers do not see was
    aborted, or it is behind somebody else's open transaction; `prefix`: of the ids of all who write to the topic. They
    are asked before the reader looks: what is opened later is behind what it looks for.
    """
    wanted = key.encode()
    if not any(record.key == wanted for record in read(endpoint, topic, isolation=READ_UNCOMMITTED)):
        return False
    others = [name for name in lingering(endpoint, prefix) if name != settled]
    if any(record.key == wanted for record in read(endpoint, topic)):
        return True
    return None if others else False


def last_by_key(records: list[Record], identity: Callable[[bytes], tuple[int, int]]) -> list[tuple[int, int]]:
    """The view of a compacted topic: of each key the last value counts, and a record without one removes it."""
    table: dict[tuple[int, bytes | None], Record] = {(record.partition, record.key): record for record in records}
    return sorted(identity(record.value) for record in table.values() if record.value is not None)
