"""The output topic of a pipeline: unchanged records at a high rate, two-phase or plain.

The same transactions as in kafka_transactions.py, optimised for five transactions a second: the producer of the next
transaction is made while the current one is written, and records go to the client in one loop, without a callback for
each.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from sinkproof.sink_adapters.kafka.fencing_errors import raising_fenced
from sinkproof.sink_adapters.kafka.kafka_transactions import (
    FLUSH_SECONDS,
    START_SECONDS,
    STATISTICS_MS,
    KafkaTransactions,
    OpenTransaction,
)
from sinkproof.sink_adapters.kafka.plain_topic import KafkaLog
from sinkproof.sink_adapters.kafka.records import MARKERS, RecordSender, producer
from sinkproof.sink_adapters.kafka.topic_admin import COMPACTED, make_topics, topics_there
from sinkproof.sink_adapters.protocol import Batch, Context, Sink
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
STATISTICS_IN_TIME_MS: Final = 100  # of a producer made ahead: it reports its id before a pre-commit needs it
GRADES: Final = {"two-phase": "exactly-once", "plain": "at-least-once"}


def warm_up() -> None:
    """Imports what every attempt would import, a quarter of a second each time."""
    import confluent_kafka  # noqa: F401


def ensure_topics(endpoint: str, topic: str, *, partitions: int) -> list[str]:
    """Creates the topic and its markers' topic; returns those that were missing."""
    there = topics_there(endpoint)
    missing = {name: of for name, of in {topic: {}, topic + MARKERS: COMPACTED}.items() if name not in there}
    if missing:
        make_topics(endpoint, missing, partitions=partitions)
    return [*missing]


def output_sink(strategy: str, *, endpoint: str, topic: str, prefix: str) -> Sink:
    """`prefix`: of transactional ids; never used by another job."""
    if strategy == "plain":
        return PlainSink(PlainOutput(endpoint, topic))
    return TwoPhaseCommitSink(KafkaOutput(endpoint, topic, prefix=prefix))


class KafkaOutput(KafkaTransactions):
    """A TwoPhaseTarget. `producers_made_ahead`: False to measure the cost of a producer per transaction."""

    producers_made_ahead = True

    def __init__(self, endpoint: str, topic: str, *, prefix: str) -> None:
        super().__init__(endpoint, topic, prefix=prefix)
        self._maker: ThreadPoolExecutor | None = None
        self._next: Future[OpenTransaction] | None = None
        self._next_name = ""

    def begin(self, transaction: Transaction) -> OpenTransaction:
        made = self._made_ahead(transaction) or self._make(transaction, STATISTICS_MS)
        with raising_fenced(made.sender):
            made.sender.producer.begin_transaction()
        if self.producers_made_ahead:
            self._make_ahead(transaction)
        return made

    def write(self, transaction: OpenTransaction, batch: Batch) -> None:
        with raising_fenced(transaction.sender):
            send_records(transaction.sender, batch)

    def _make(self, transaction: Transaction, statistics_ms: int) -> OpenTransaction:
        made = OpenTransaction(transaction, self.prefix + transaction)
        milliseconds = int(self.transaction_timeout * 1000)
        made.sender = sender_of(
            self.endpoint,
            self.topic,
            {
                "transactional.id": made.transactional_id,
                "transaction.timeout.ms": milliseconds,
                "message.timeout.ms": min(
                    milliseconds, int(FLUSH_SECONDS * 1000)
                ),  # must not exceed the transaction's timeout
                "statistics.interval.ms": statistics_ms,
                "stats_cb": lambda text: (
                    made.on_statistics(text) if made.identity[0] < 0 else None
                ),  # the statistics are long
            },
        )
        with raising_fenced(made.sender):
            made.sender.producer.init_transactions(START_SECONDS)
        return made

    def _make_ahead(self, before: Transaction) -> None:
        """A producer that is never used leaves nothing: it has no open transaction."""
        owner = Owner(before.sink_id, before.subtask, 1)
        name = Transaction.of(owner, before.generation, before.sequence + 1)
        self._maker = self._maker or ThreadPoolExecutor(1)
        self._next, self._next_name = self._maker.submit(self._make, name, STATISTICS_IN_TIME_MS), name

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

    def attach(self, context: Context) -> None:
        options = {"message.timeout.ms": int(FLUSH_SECONDS * 1000)}
        self.sender = sender_of(self.endpoint, self.topic, options)

    def append(self, batch: Batch) -> None:
        send_records(self.sender, batch)


def sender_of(endpoint: str, topic: str, options: dict[str, Any]) -> RecordSender:
    made = RecordSender(None, topic)  # type: ignore[arg-type] # its producer reports failures to it
    made.producer = producer(endpoint, {**IN_NUMBERS, "on_delivery": made._delivered, **options})
    return made


def send_records(sender: RecordSender, batch: Batch) -> None:
    """With key, value, time and headers."""
    produce, poll, topic = sender.producer.produce, sender.producer.poll, sender.topic
    for key, value, time_ms, headers in _records_of(batch):
        while True:
            try:
                produce(topic, value, key, ANY_PARTITION, None, None, time_ms, headers)
                break
            except BufferError:
                poll(FULL_SECONDS)
    poll(0)
    sender.check()


def _records_of(batch: Batch) -> Iterable[tuple[bytes | None, bytes | None, int, Any]]:
    """A batch from a topic carries its records; for other rows an empty key becomes no key."""
    records = getattr(batch, "records", None)
    if records is not None:
        return records  # type: ignore[no-any-return]
    return [(row.key.encode() or None, row.value.encode(), row.event_time_ms, None) for row in batch.rows]
