"""Contracts of the pairs on Kafka: topics of their own for each run, on whatever cluster the scratch offers."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from sinkproof.sink_adapters.idempotent import IdempotentSink
from sinkproof.sink_adapters.kafka_log import KafkaCommitter, KafkaLog
from sinkproof.sink_adapters.kafka_marked_log import KafkaMarkedLog
from sinkproof.sink_adapters.kafka_masked import KafkaSegments, read_masked
from sinkproof.sink_adapters.kafka_reader import last_by_key, lingering, read
from sinkproof.sink_adapters.kafka_records import MARKERS, identity
from sinkproof.sink_adapters.kafka_topics import COMPACTED, make_topics, remove_topics
from sinkproof.sink_adapters.kafka_transactions import SEPARATOR, KafkaTransactions
from sinkproof.sink_adapters.masked import MaskedSink
from sinkproof.sink_adapters.plain import PlainSink
from sinkproof.sink_adapters.protocol import Sink
from sinkproof.sink_adapters.two_phase import TwoPhaseCommitSink
from sinkproof.sink_adapters.write_ahead import WriteAheadSink

PARTITIONS: Final = 2
TOPIC: Final = "topic"  # the file that tells the attempts of a run its name
SENT: Final = "-sent"  # the committer's topic
Identity = tuple[int, int]


def _marked(endpoint: str, topic: str) -> Sink:
    target = KafkaMarkedLog(endpoint, topic)
    return WriteAheadSink(target, target)


SINKS: Final[dict[str, Callable[[str, str], Sink]]] = {  # given the endpoint and the topic
    "two-phase": lambda endpoint, topic: TwoPhaseCommitSink(KafkaTransactions(endpoint, topic)),
    "write-ahead": lambda endpoint, topic: WriteAheadSink(
        KafkaLog(endpoint, topic), KafkaCommitter(endpoint, topic + SENT)
    ),
    "write-ahead-marker": _marked,
    "masked": lambda endpoint, topic: MaskedSink(KafkaSegments(endpoint, topic)),
    "idempotent": lambda endpoint, topic: IdempotentSink(KafkaLog(endpoint, topic)),
    "plain": lambda endpoint, topic: PlainSink(KafkaLog(endpoint, topic)),
}


class KafkaContract:
    """Everything but the sink. There is no copy of a broker, so sinks are processes."""

    marks_points = True
    shells = ("process",)

    def __init__(self, strategy: str, *, claims: tuple[str, ...], grade: str) -> None:
        self.strategy, self.claims, self.grade = strategy, claims, grade
        self._numbers = count(1)
        if "NO_RESIDUE" in claims:
            self.residue = self._residue
        if grade == "effectively-once":
            self.seen = self._seen

    def setup(self, scratch: Any) -> None:
        service = scratch.service("kafka", start=True)
        topic = f"{scratch.path.name}-{os.getpid()}-{next(self._numbers)}"
        topics = {topic: {}, topic + MARKERS: COMPACTED, topic + SENT: COMPACTED}
        make_topics(service.direct_endpoint, topics, partitions=PARTITIONS)
        (scratch.path / TOPIC).write_text(topic)

    def teardown(self, scratch: Any) -> None:
        place = scratch.path / TOPIC
        if place.exists():
            topic = place.read_text()
            remove_topics(scratch.service("kafka").direct_endpoint, [topic, topic + MARKERS, topic + SENT])
            place.unlink()

    def sink(self, scratch: Any) -> Sink:
        return SINKS[self.strategy](scratch.service("kafka").endpoint, self._topic(scratch))

    def committed(self, scratch: Any) -> list[Identity]:
        """Of a sink that upserts, what a reader holds who folds the topic by key; of a masked one, what is revealed."""
        endpoint, topic = scratch.service("kafka").direct_endpoint, self._topic(scratch)
        if self.strategy == "idempotent":
            return last_by_key(read(endpoint, topic), identity)
        records = read_masked(endpoint, topic) if self.strategy == "masked" else read(endpoint, topic)
        return [identity(record.value) for record in records if record.value is not None]

    def _seen(self, scratch: Any) -> list[Identity]:
        records = read(scratch.service("kafka").direct_endpoint, self._topic(scratch))
        return [identity(record.value) for record in records if record.value is not None]

    def _residue(self, scratch: Any) -> list[str]:
        """Transactions that nobody has ended."""
        return lingering(scratch.service("kafka").direct_endpoint, self._topic(scratch) + SEPARATOR)

    def _topic(self, scratch: Any) -> str:
        return str((scratch.path / TOPIC).read_text())
