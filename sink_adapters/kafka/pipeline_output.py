"""The output topic of a pipeline: unchanged records at a high rate, two-phase or plain.

The same transactions as in kafka_transactions.py, optimised for five transactions a second: the producer of the next
transaction is made while the current one is written, and records go to the client in one loop, without a callback for
each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from sinkproof.sink_adapters.kafka.kafka_transactions import KafkaTransactions, OpenTransaction
from sinkproof.sink_adapters.kafka.plain_topic import KafkaLog
from sinkproof.sink_adapters.kafka.record_sender import MARKERS, NO_OPTIONS, RecordSender
from sinkproof.sink_adapters.kafka.topic_admin import COMPACTED, make_topics, topics_there
from sinkproof.sink_adapters.protocol import Batch, Sink
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.sink_adapters.strategies.plain import PlainSink
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

FULL_SECONDS: Final = 0.05  # until the client's full queue is tried again
ANY_PARTITION: Final = -1
IN_NUMBERS: Final[dict[str, Any]] = {
    "delivery.report.only.error": True,  # successful deliveries need no report
    "linger.ms": 50,  # larger requests: a third less work for the broker. A pre-commit flushes and does not linger
    "batch.size": 1 << 20,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 128 << 10,
}
STATISTICS_IN_TIME_MS: Final = 100  # so soon a producer that is made ahead reports its id, which a pre-commit needs


def warm_up() -> None:
    """Imports what every attempt would import, half a second each time."""
    import confluent_kafka  # noqa: F401

    from sinkproof.sink_adapters.kafka import broker_requests  # noqa: F401


def ensure_topics(endpoint: str, topic: str, *, partitions: int) -> None:
    """Creates the topic and its markers' topic where they are missing."""
    there = topics_there(endpoint)
    missing = {name: of for name, of in {topic: {}, topic + MARKERS: COMPACTED}.items() if name not in there}
    if missing:
        make_topics(endpoint, missing, partitions=partitions)


def output_sink(strategy: str, *, endpoint: str, topic: str, prefix: str) -> Sink:
    """`prefix`: of transactional ids; never used by another job."""
    if strategy == "plain":
        return PlainSink(PlainOutput(endpoint, topic))
    return TwoPhaseCommitSink(KafkaOutput(endpoint, topic, prefix=prefix))


class BulkSender(RecordSender):
    """Sends whole batches in one loop, with key, value, time and headers."""

    def __init__(self, endpoint: str, topic: str, *, options: Mapping[str, Any] = NO_OPTIONS) -> None:
        super().__init__(endpoint, topic, options={**IN_NUMBERS, "on_delivery": self._delivered, **options})

    def send_batch(self, batch: Batch) -> None:
        produce, poll, topic = self.producer.produce, self.producer.poll, self.topic
        for key, value, time_ms, headers in _records_of(batch):
            while True:
                try:
                    produce(topic, value, key, ANY_PARTITION, None, None, time_ms, headers)
                    break
                except BufferError:
                    poll(FULL_SECONDS)
        poll(0)
        self.check()


def _records_of(batch: Batch) -> Iterable[tuple[bytes | None, bytes | None, int, Any]]:
    """A batch from a topic carries its records; for other rows an empty key becomes no key."""
    records = getattr(batch, "records", None)
    if records is not None:
        return records  # type: ignore[no-any-return]
    return [(row.key.encode() or None, row.value.encode(), row.event_time_ms, None) for row in batch.rows]


class BulkTransaction(OpenTransaction):
    def on_statistics(self, statistics: str) -> None:
        if self.identity[0] < 0:  # the statistics are long
            super().on_statistics(statistics)


class KafkaOutput(KafkaTransactions):
    """A TwoPhaseTarget. `producers_made_ahead`: False to measure the cost of a producer per transaction."""

    transaction_type = BulkTransaction
    sender_type = BulkSender
    producers_made_ahead = True

    def __init__(self, endpoint: str, topic: str, *, prefix: str) -> None:
        super().__init__(endpoint, topic, prefix=prefix)
        self._maker: ThreadPoolExecutor | None = None
        self._next: Future[OpenTransaction] | None = None
        self._next_name = ""

    def begin(self, transaction: Transaction) -> OpenTransaction:
        made = self._made_ahead(transaction) or self._make(transaction)
        with made.sender.raising_fenced():
            made.sender.producer.begin_transaction()
        if self.producers_made_ahead:
            self._make_ahead(transaction)
        return made

    def _make_ahead(self, before: Transaction) -> None:
        """A producer that is never used leaves nothing: it has no open transaction."""
        owner = Owner(before.sink_id, before.subtask, 1)
        name = Transaction.of(owner, before.generation, before.sequence + 1)
        self._maker = self._maker or ThreadPoolExecutor(1)
        self._next = self._maker.submit(self._make, name, statistics_ms=STATISTICS_IN_TIME_MS)
        self._next_name = name

    def _made_ahead(self, transaction: Transaction) -> OpenTransaction | None:
        future, self._next = self._next, None
        if future is None or self._next_name != transaction or future.exception() is not None:
            return None  # the broker may have been unavailable then, and be back
        return future.result()

    def close(self) -> None:
        if self._maker is not None:
            self._maker.shutdown(wait=False, cancel_futures=True)
        super().close()


class PlainOutput(KafkaLog):
    """An AppendTarget."""

    sender_type = BulkSender
