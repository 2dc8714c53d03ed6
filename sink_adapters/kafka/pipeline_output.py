"""A topic as the end of a pipeline: records as they are, in great numbers, two-phase or plain.

The same transactions as in kafka_transactions.py, but for what costs time when there are five a second: the producer of
the next transaction is made while this one is written to, and records go to the client in one loop, without a callback
for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from sinkproof.sink_adapters.kafka.fencing_errors import fencing_told
from sinkproof.sink_adapters.kafka.kafka_transactions import (
    FLUSH_SECONDS,
    START_SECONDS,
    STATISTICS_MS,
    KafkaTransactions,
    OpenTransaction,
)
from sinkproof.sink_adapters.kafka.plain_topic import KafkaLog
from sinkproof.sink_adapters.kafka.records import MARKERS, Sender, producer
from sinkproof.sink_adapters.kafka.topic_admin import COMPACTED, make_topics, topics_there
from sinkproof.sink_adapters.protocol import Batch, Context, Sink
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.sink_adapters.strategies.plain import PlainSink
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

FULL_SECONDS: Final = 0.05  # until the client's full queue is looked at again
ANY_PARTITION: Final = -1
IN_NUMBERS: Final[dict[str, Any]] = {
    "delivery.report.only.error": True,  # nobody asks for what went well
    "linger.ms": 50,  # larger requests: a third less for the broker to do. Votes flush, which waits for nobody
    "batch.size": 1 << 20,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 128 << 10,
}
STATISTICS_IN_TIME_MS: Final = 100  # of a producer that is made ahead: it has told who it is before anybody asks
GRADES: Final = {"two-phase": "exactly-once", "plain": "at-least-once"}


def warm_up() -> None:
    """What every attempt would import, a quarter of a second each time."""
    import confluent_kafka  # noqa: F401


def ensure_topics(endpoint: str, topic: str, *, partitions: int) -> list[str]:
    """The topic and the one of its markers; gives those that were not there."""
    there = topics_there(endpoint)
    missing = {name: of for name, of in {topic: {}, topic + MARKERS: COMPACTED}.items() if name not in there}
    if missing:
        make_topics(endpoint, missing, partitions=partitions)
    return [*missing]


def output_sink(strategy: str, *, endpoint: str, topic: str, prefix: str) -> Sink:
    """`prefix`: of transactional ids; no other job has it, nor has had it."""
    if strategy == "plain":
        return PlainSink(PlainOutput(endpoint, topic))
    return TwoPhaseCommitSink(KafkaOutput(endpoint, topic, prefix=prefix))


class KafkaOutput(KafkaTransactions):
    """A TwoPhaseTarget. `producers_made_ahead`: False where the price of one for each transaction is to be seen."""

    producers_made_ahead = True

    def __init__(self, endpoint: str, topic: str, *, prefix: str) -> None:
        super().__init__(endpoint, topic, prefix=prefix)
        self._maker: ThreadPoolExecutor | None = None
        self._next: Future[OpenTransaction] | None = None
        self._next_name = ""

    def begin(self, transaction: Transaction) -> OpenTransaction:
        made = self._made_ahead(transaction) or self._make(transaction, STATISTICS_MS)
        with fencing_told(made.sender):
            made.sender.producer.begin_transaction()
        if self.producers_made_ahead:
            self._make_ahead(transaction)
        return made

    def write(self, transaction: OpenTransaction, batch: Batch) -> None:
        with fencing_told(transaction.sender):
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
                "message.timeout.ms": min(milliseconds, int(FLUSH_SECONDS * 1000)),  # must not be above the other
                "statistics.interval.ms": statistics_ms,
                "stats_cb": lambda text: made.noticed(text) if made.identity[0] < 0 else None,  # each is long
            },
        )
        with fencing_told(made.sender):
            made.sender.producer.init_transactions(START_SECONDS)
        return made

    def _make_ahead(self, before: Transaction) -> None:
        """One that is never used lingers as nothing: it has no transaction open."""
        owner = Owner(before.sink_id, before.subtask, 1)
        name = Transaction.of(owner, before.generation, before.sequence + 1)
        self._maker = self._maker or ThreadPoolExecutor(1)
        self._next, self._next_name = self._maker.submit(self._make, name, STATISTICS_IN_TIME_MS), name

    def _made_ahead(self, transaction: Transaction) -> OpenTransaction | None:
        future, self._next = self._next, None
        if future is None or self._next_name != transaction or future.exception() is not None:
            return None  # the broker may have been away then, and be back
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


def sender_of(endpoint: str, topic: str, options: dict[str, Any]) -> Sender:
    made = Sender(None, topic)  # type: ignore[arg-type] # its producer tells it of what has failed
    made.producer = producer(endpoint, {**IN_NUMBERS, "on_delivery": made._delivered, **options})
    return made


def send_records(sender: Sender, batch: Batch) -> None:
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
    """What comes straight from a topic has them at hand; of other rows, a key that is empty is none."""
    records = getattr(batch, "records", None)
    if records is not None:
        return records  # type: ignore[no-any-return]
    return [(row.key.encode() or None, row.value.encode(), row.event_time_ms, None) for row in batch.rows]
