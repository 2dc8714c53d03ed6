"""Sinks as a user writes them: each checkpoint of a subtask is one transaction on Kafka, with a mark in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from sinkproof.sink_adapters.protocol import Batch, Context
from sinkproof.subject.scratch import Scratch

SECONDS: Final = 8.0
SUBTASKS_MOST: Final = 16
PUBLISHED: Final[set[tuple[str, int, int]]] = set()


class MarkedSink:
    trusts = "read_committed"

    def __init__(self, options: dict[str, Any], topic: str) -> None:
        self.options, self.topic = options, topic
        self.rows: list[tuple[Any, ...]] = []
        self.pending: dict[int, list[tuple[Any, ...]]] = {}

    def producer_of(self, subtask: int) -> Producer:
        fenced = {"transactional.id": f"{self.topic}-{subtask}", "transaction.timeout.ms": 60_000, "log_level": 2}
        producer = Producer({**self.options, **fenced, "linger.ms": 1, "topic.metadata.refresh.interval.ms": 100})
        producer.init_transactions(SECONDS)
        return producer

    def open(self, context: Context) -> None:
        self.context = context
        others = {k for k in context.subtasks_restored if k % context.parallelism == context.subtask}
        self.producers = {owner: self.producer_of(owner) for owner in {*others, context.subtask}}
        done = self.marks(self.producers) if context.restored else set()
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                if f"{subtask}-{checkpoint}" not in done:
                    self.publish(subtask, checkpoint, rows)

    def marks(self, owners: Iterable[int]) -> set[str]:
        """Each owner has a partition: an open transaction of another one would hide what comes after it."""
        only_committed = {"group.id": "none", "isolation.level": self.trusts, "enable.partition.eof": True}
        consumer = Consumer({**self.options, **only_committed, "enable.auto.commit": False, "log_level": 2})
        left = {*owners}
        consumer.assign([TopicPartition(f"{self.topic}-marks", owner, 0) for owner in left])
        found: set[str] = set()
        while left and (message := consumer.poll(SECONDS)) is not None:
            if message.error():
                left.discard(message.partition())
            else:
                found.add(message.key().decode())
        consumer.close()
        if left:
            raise TimeoutError("the marks cannot be read")
        return found

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset, row.key, row.value) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for each in sorted(number for number in self.pending if number <= checkpoint_id):
            self.publish(self.context.subtask, each, self.pending.pop(each))

    def publish(self, subtask: int, checkpoint: int, rows: Iterable[tuple[Any, ...]]) -> None:
        """By the owner's producer: that is what fences a zombie which does the same."""
        producer = self.producers[subtask]
        producer.begin_transaction()
        for row in rows:
            producer.produce(self.topic, value=json.dumps(row).encode())
        mark = f"{subtask}-{checkpoint}".encode()
        producer.produce(f"{self.topic}-marks", partition=subtask, key=mark, value=b"")
        producer.commit_transaction(SECONDS)

    def close(self) -> None:
        pass


class RemembersBeforeSink(MarkedSink):
    """Wrong: its module remembers a checkpoint before the commit, and outlives an attempt that fails there."""

    def publish(self, subtask: int, checkpoint: int, rows: Iterable[tuple[Any, ...]]) -> None:
        part = (self.topic, subtask, checkpoint)
        if part not in PUBLISHED:
            PUBLISHED.add(part)
            super().publish(subtask, checkpoint, rows)


class TrustsEveryMarkSink(MarkedSink):
    """Wrong: a mark of a transaction that was aborted says nothing."""

    trusts = "read_uncommitted"


class SendsAgainSink(MarkedSink):
    """Wrong: a commit may have happened though its reply was lost."""

    def publish(self, subtask: int, checkpoint: int, rows: Iterable[tuple[Any, ...]]) -> None:
        try:
            super().publish(subtask, checkpoint, rows)
        except KafkaException:
            self.producers[subtask] = self.producer_of(subtask)
            super().publish(subtask, checkpoint, rows)


class Marked:
    claims = "EXACTLY_ONCE"
    make: type[MarkedSink] = MarkedSink

    def setup(self, scratch: Scratch) -> None:
        kafka = scratch.service("kafka", start=True)
        kafka.make_topic(scratch.path.name)
        kafka.make_topic(f"{scratch.path.name}-marks", partitions=SUBTASKS_MOST)

    def teardown(self, scratch: Scratch) -> None:
        scratch.service("kafka").remove_topics([scratch.path.name, f"{scratch.path.name}-marks"])

    def sink(self, scratch: Scratch) -> MarkedSink:
        return self.make(scratch.service("kafka").client_options, scratch.path.name)

    def committed(self, scratch: Scratch) -> Iterator[tuple[Any, ...]]:
        for record in scratch.service("kafka").read(scratch.path.name):
            yield tuple(json.loads(record.value))


class RemembersBefore(Marked):
    make = RemembersBeforeSink


class TrustsEveryMark(Marked):
    make = TrustsEveryMarkSink


class SendsAgain(Marked):
    make = SendsAgainSink
