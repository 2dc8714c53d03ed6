"""Contracts of the pairs on Kafka: topics of their own for each run, on the cluster of the scratch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final

from sinkproof.sink_adapters.kafka.broker_evidence import evidence
from sinkproof.sink_adapters.kafka.kafka_transactions import SEPARATOR, KafkaTransactions
from sinkproof.sink_adapters.kafka.masked_topic import KafkaSegments, read_masked
from sinkproof.sink_adapters.kafka.plain_topic import KafkaCommitter, KafkaLog
from sinkproof.sink_adapters.kafka.record_sender import MARKERS, decode
from sinkproof.sink_adapters.kafka.topic_admin import COMPACTED, make_topics, remove_topics
from sinkproof.sink_adapters.kafka.topic_reader import TopicRecord, last_by_key, lingering, read
from sinkproof.sink_adapters.kafka.transactional_write_ahead import KafkaMarkedLog
from sinkproof.sink_adapters.protocol import Row, Sink, without_line_points
from sinkproof.sink_adapters.strategies.idempotent import IdempotentSink
from sinkproof.sink_adapters.strategies.masked import MaskedSink
from sinkproof.sink_adapters.strategies.plain import PlainSink
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink
from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink

PARTITIONS: Final = 2
TOPIC: Final = "topic"  # the file from which the attempts of a run read its name
SENT: Final = "-sent"  # the committer's topic
BESIDE: Final = {"two-phase": MARKERS, "write-ahead-marker": MARKERS, "masked": MARKERS, "write-ahead": SENT}
# Topics are made, or removed, for so many runs at once: a request takes 200 ms for 40 topics, and 50 ms for one.
AHEAD: Final = 8


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


@without_line_points
class KafkaContract:
    """Brokers cannot be copied, so sinks are processes."""

    marks_points = True
    side_by_side = True
    shells = ("process", "spark")
    libraries = ("confluent_kafka",)

    def __init__(self, strategy: str, *, claims: tuple[str, ...], grade: str) -> None:
        self.strategy, self.claims, self.grade = strategy, claims, grade
        self._numbers = count(1)
        self._fresh: dict[str, list[str]] = {}  # topics that were made ahead, by cluster
        self._used: dict[str, list[str]] = {}
        self.late_requests = True if strategy == "two-phase" else None  # ids and epochs are used once
        if "NO_RESIDUE" in claims:
            self.residue = self._residue
        if grade == "effectively-once":
            self.seen = self._seen

    def setup(self, scratch: Any) -> None:
        service = scratch.service("kafka", start=True)
        fresh = self._fresh.setdefault(service.identity, [])
        if not fresh:
            made = [f"{scratch.path.name}-{os.getpid()}-{next(self._numbers)}" for _ in range(_ahead(service))]
            make_topics(service.direct_endpoint, self._with_their_own(made), partitions=PARTITIONS)
            fresh += reversed(made)
        (scratch.path / TOPIC).write_text(fresh.pop())

    def teardown(self, scratch: Any) -> None:
        place = scratch.path / TOPIC
        if not place.exists():
            return
        service = scratch.service("kafka")
        used = self._used.setdefault(service.identity, [])
        used.append(place.read_text())
        place.unlink()
        if len(used) >= _ahead(service):
            remove_topics(service.direct_endpoint, [*self._with_their_own(used)])
            used.clear()

    def _with_their_own(self, topics: list[str]) -> dict[str, Mapping[str, str]]:
        """Each topic and the strategy's own topic beside it, with their settings."""
        beside = BESIDE.get(self.strategy)
        plain: dict[str, Mapping[str, str]] = {topic: {} for topic in topics}
        return plain | ({topic + beside: COMPACTED for topic in topics} if beside else {})

    def sink(self, scratch: Any) -> Sink:
        return SINKS[self.strategy](scratch.service("kafka").endpoint, self._topic(scratch))

    def committed(self, scratch: Any) -> list[Row]:
        """For a sink that upserts, the topic folded by key; for a masked one, the revealed records."""
        endpoint, topic = scratch.service("kafka").direct_endpoint, self._topic(scratch)
        if self.strategy == "idempotent":
            return sorted(_rows(last_by_key(read(endpoint, topic))))
        return _rows(read_masked(endpoint, topic) if self.strategy == "masked" else read(endpoint, topic))

    def _seen(self, scratch: Any) -> list[Row]:
        return _rows(read(scratch.service("kafka").direct_endpoint, self._topic(scratch)))

    def evidence(self, scratch: Any) -> list[str]:
        """What the broker reports when a run has anomalies."""
        topic = self._topic(scratch)
        topics = [*self._with_their_own([topic])]
        return evidence(scratch.service("kafka").direct_endpoint, topics, topic + SEPARATOR)

    def _residue(self, scratch: Any) -> list[str]:
        """Transactions neither committed nor aborted."""
        return lingering(scratch.service("kafka").direct_endpoint, self._topic(scratch) + SEPARATOR)

    def _topic(self, scratch: Any) -> str:
        return str((scratch.path / TOPIC).read_text())


def _rows(records: Iterable[TopicRecord]) -> list[Row]:
    return [decode(record.value) for record in records if record.value is not None]


def _ahead(service: Any) -> int:
    """One at a time on a user's cluster, so that nothing is left behind, and where restarts must be short."""
    return AHEAD if service.own and not service.inside else 1
