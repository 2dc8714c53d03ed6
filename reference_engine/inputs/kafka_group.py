"""Metadata of a topic and a consumer group: where partitions begin and end, and the group's committed offsets.

The offsets of a group are for people and their monitoring. They follow complete checkpoints, and nothing is ever
restored from them: resetting them changes a graph, not the output.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.kafka_client.client_settings import brokers_of
from sinkproof.reference_engine.dataflow.replayable_sources import InputError
from sinkproof.reference_engine.inputs.kafka_source import (
    ANONYMOUS,
    ANSWER_SECONDS,
    RETRY_SECONDS,
    consumer,
    partitions_of,
)

CLOSE_SECONDS: Final = 2.0
Offsets = Mapping[int, int]  # by partition


class TopicView:
    """The extent of one topic, as a reader of committed records sees it."""

    def __init__(self, endpoint: str, topic: str, *, group: str = ANONYMOUS, seconds: float = ANSWER_SECONDS) -> None:
        self.endpoint, self.topic, self.seconds = endpoint, topic, seconds
        self.client = consumer(endpoint, group, {})

    def extent(self) -> tuple[dict[int, int], dict[int, int]]:
        """Where partitions begin, and where they end (what is behind an open transaction is not there yet)."""
        from confluent_kafka import KafkaException

        deadline = Deadline(self.seconds)
        while True:
            try:
                return self._extent()
            except KafkaException as error:  # a topic that is new, or a broker that has just come back, may be late
                if deadline.over:
                    why = error.args[0].str()
                    raise InputError(f"the broker at {self.endpoint} does not answer: {why}") from error
            threading.Event().wait(RETRY_SECONDS)

    def _extent(self) -> tuple[dict[int, int], dict[int, int]]:
        from confluent_kafka import TopicPartition

        begins, ends = {}, {}
        for number in partitions_of(self.client, self.topic, seconds=self.seconds):
            place = TopicPartition(self.topic, number)
            begins[number], ends[number] = self.client.get_watermark_offsets(place, timeout=self.seconds, cached=False)
        return begins, ends

    def cluster(self) -> str:
        """The id of the cluster, which stays when addresses change."""
        return str(self.client.list_topics(self.topic, timeout=self.seconds).cluster_id)

    def addresses(self) -> list[str]:
        """HOST:PORT of every broker: where clients begin, and where brokers say that they are."""
        brokers = self.client.list_topics(self.topic, timeout=self.seconds).brokers.values()
        found = [*brokers_of(self.endpoint), *(f"{broker.host}:{broker.port}" for broker in brokers)]
        return list(dict.fromkeys(found))

    def close(self) -> None:
        self.client.close()


class GroupOffsets:
    """Called with the offsets of each complete checkpoint; commits them for the group in a thread of its own.

    No checkpoint waits for an absent broker: of several, the newest is committed.
    """

    def __init__(self, endpoint: str, topic: str, group: str) -> None:
        self.endpoint, self.topic, self.group = endpoint, topic, group
        self._newest: Offsets | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._committing = self._closed = False

    def __call__(self, offsets: Offsets) -> None:
        with self._changed:
            self._newest = dict(offsets)
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()

    def _work(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        client = consumer(self.endpoint, self.group, {})
        while (offsets := self._next_offsets()) is not None:
            try:
                places = [TopicPartition(self.topic, number, at) for number, at in offsets.items()]
                client.commit(offsets=places, asynchronous=False)
            except KafkaException:
                continue  # the next checkpoint repeats it
        client.close()

    def _next_offsets(self) -> Offsets | None:
        with self._changed:
            self._committing = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._newest is not None or self._closed)
            offsets, self._newest = self._newest, None
            self._committing = offsets is not None
            return offsets

    def close(self) -> None:
        """On return the last offsets are committed, unless the time limit has passed."""
        deadline = Deadline(CLOSE_SECONDS)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._newest is None and not self._committing, deadline.left)
