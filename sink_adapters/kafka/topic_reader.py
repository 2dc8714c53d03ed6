"""An independent reader of topics, with a consumer of its own, which never waits behind an open transaction.

A read_committed reader stops in each partition at the last stable offset: what is behind an open transaction is hidden
from every such reader, so it is not part of the committed view.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sinkproof.chaos.kafka_client.client_settings import client_options
from sinkproof.sink_adapters.kafka.record_sender import SEGMENT
from sinkproof.sink_adapters.kafka.transaction_control import OPEN, TransactionControl

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
BATCH: Final = 1000
SILENCE_SECONDS: Final = 10.0  # without a record, and without an end, for so long the broker counts as unavailable


class TopicRecord(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    segment: str  # of a masked sink; else ""


class ReadFailed(Exception):
    """The topic could not be read to its end; its content is unknown."""


class TopicReader:
    """A cached client, because creating one takes 80 ms, five times as long as a read. No content of a topic is
    cached: each read starts at the beginning and requests the number of partitions.
    """

    def __init__(self, endpoint: str, isolation: str) -> None:
        self.consumer, self.control = _consumer(endpoint, isolation), TransactionControl(endpoint)
        self.known: dict[
            str, list[int]
        ] = {}  # topics known to the client, which otherwise learns of them half a second later

    def read(self, topic: str) -> list[TopicRecord]:
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


FETCH_WAIT_MS: Final = 10  # at the end of a partition
READERS: Final[dict[tuple[int, str, str], TopicReader]] = {}  # by process: a client does not survive a fork


def read(endpoint: str, topic: str, *, isolation: str = READ_COMMITTED) -> list[TopicRecord]:
    """Every record, from the beginning of each partition to its end, by partition and offset."""
    kept = (os.getpid(), endpoint, isolation)
    if kept in READERS:
        try:
            return _read(kept, topic)
        except ReadFailed:
            pass  # perhaps the client knew another broker at this address: retry with a new client
    READERS[kept] = TopicReader(endpoint, isolation)
    return _read(kept, topic)


def forget(topics: Sequence[str]) -> None:
    """After their removal: another topic of that name is another one for clients."""
    for (process, _, _), reader in READERS.items():
        for topic in topics if process == os.getpid() else ():
            reader.known.pop(topic, None)


def _read(kept: tuple[int, str, str], topic: str) -> list[TopicRecord]:
    try:
        return READERS[kept].read(topic)
    except BaseException:
        READERS.pop(kept).close()  # it may still wait for an answer
        raise


def _consumer(endpoint: str, isolation: str) -> Any:
    from confluent_kafka import Consumer

    return Consumer(
        {
            **client_options(endpoint),
            "group.id": "sinkproof-reader",  # required by the client; the group is never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "error",  # a removed record is an error, not skipped
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 200,
            "log_level": 2,
        }
    )


def _to_the_end(consumer: Any, open_partitions: set[int]) -> list[TopicRecord]:
    from confluent_kafka import KafkaError

    records: list[TopicRecord] = []
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


def _record(message: Any) -> TopicRecord:
    segment = dict(message.headers() or ()).get(SEGMENT, b"").decode()
    return TopicRecord(message.partition(), message.offset(), message.key(), message.value(), segment)


def lingering(endpoint: str, prefix: str) -> list[str]:
    """Transactional ids with this prefix of transactions neither committed nor aborted."""
    control = TransactionControl(endpoint)
    try:
        return control.transactions(re.escape(prefix) + ".*", OPEN)
    finally:
        control.close()


def is_marked(endpoint: str, topic: str, key: str, *, prefix: str, settled: str) -> bool | None:
    """Whether a transaction that put this key into the topic was committed; None: not known now.

    `settled`: the transactional id that it belonged to, which is no longer open. A record that readers do not see was
    aborted, or it is behind an open transaction of another writer. `prefix`: of the ids of all writers to the topic.
    Open transactions are listed before the topic is read: those opened later are behind the record.
    """
    wanted = key.encode()
    if not any(record.key == wanted for record in read(endpoint, topic, isolation=READ_UNCOMMITTED)):
        return False
    others = [name for name in lingering(endpoint, prefix) if name != settled]
    if any(record.key == wanted for record in read(endpoint, topic)):
        return True
    return None if others else False


def last_by_key(records: list[TopicRecord]) -> list[TopicRecord]:
    """The view of a compacted topic: the last value of each key counts; a record without a value removes it."""
    table: dict[tuple[int, bytes | None], TopicRecord] = {(record.partition, record.key): record for record in records}
    return [record for record in table.values() if record.value is not None]
