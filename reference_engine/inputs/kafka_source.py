"""A topic as a source. Its offsets are in the checkpoint; a restore reads them from there only.

The consumer belongs to no group that could assign partitions or rewind them: partition p belongs to the source subtask
p modulo parallelism, also one that is added while the job runs. It reads what is committed: what is behind an open
transaction comes when that is over, and what was aborted never comes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import Any, Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.kafka_client.client_settings import client_options
from sinkproof.reference_engine.dataflow.replayable_sources import InputError, SourceReader
from sinkproof.reference_engine.inputs.kafka_batch import KafkaBatch
from sinkproof.sink_adapters.protocol import Batch

# A partition that is added later has its owner from the beginning, so all numbers are assigned at once.
PARTITIONS_MOST: Final = 4096
ANSWER_SECONDS: Final = 10.0  # a broker that was killed is back within five
RETRY_SECONDS: Final = 0.1
ANONYMOUS: Final = "sinkproof-source"  # the client requires a group's name; no consumer joins the group
GONE: Final = "Put what is missing back, or begin anew with an empty folder for the checkpoints"


@dataclass(slots=True, kw_only=True)
class KafkaInput:
    """A `Source` of a job.

    `begins`: where each partition began when the job did; others begin at their first record. `ends`: bounded, up to
    these offsets; None: unbounded. `by_client`: without checkpoints the client's own auto-commit decides where
    `group` goes on, and what dies in between is lost or repeated.
    """

    endpoint: str
    topic: str
    begins: Mapping[int, int]
    ends: Mapping[int, int] | None = None
    batch_rows: int = 2000
    discover_seconds: float = 1.0
    by_client: bool = False
    group: str = ANONYMOUS
    splits: int = PARTITIONS_MOST

    def length(self, split: int) -> float:
        return inf if self.ends is None else self.ends.get(split, 0)

    def reader(self, index: int, parallelism: int) -> KafkaReader:
        return KafkaReader(self, index, parallelism)


class KafkaReader(SourceReader):
    """The partitions of one source subtask. `ready` is called before `next`: nothing here waits for a record."""

    def __init__(self, source: KafkaInput, index: int, parallelism: int) -> None:
        super().__init__(())
        self.source, self.index, self.parallelism = source, index, parallelism
        self._consumer: Any = None
        self._due: deque[tuple[int, KafkaBatch | None, int]] = deque()  # partition, its next records, where they end
        self._batch: KafkaBatch | None = None
        self._at_end: set[int] = set()  # partitions of which the last record, for now, has come
        self._added: deque[tuple[int, int]] = deque()  # partitions that another thread has found, and where they begin
        self._closed = threading.Event()

    def ready(self) -> bool:
        """The client's threads fetch meanwhile."""
        if self._consumer is None:
            self._begin()
        self._skip_what_holds_no_rows()
        if not self._due:
            self._fetch()
            self._skip_what_holds_no_rows()
        return bool(self._due) or self._over()

    def caught_up(self) -> bool:
        return not self.ready() and all(
            number in self._at_end or at >= self.length(number) for number, at in self.offsets.items()
        )

    def next(self) -> tuple[int, int] | None:
        if not self._due:
            return None
        split, self._batch, end = self._due.popleft()
        assert self._batch is not None
        self.offsets[split] = end
        self.batches_read += 1
        return split, self._batch.offsets[0]

    def batch(self, split: int, offset: int) -> Batch:
        assert self._batch is not None
        assert (split, offset) == (self._batch.split, self._batch.offsets[0]), "only the last one is at hand"
        return self._batch

    def length(self, split: int) -> float:
        return self.source.length(split)

    def close(self) -> None:
        self._closed.set()
        if self._consumer is not None:
            self._consumer.close()

    # -- beginning ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        source = self.source
        options = {
            "enable.auto.commit": source.by_client,
            "enable.partition.eof": True,  # reveals trailing offsets without records (transaction markers)
            # A record that was removed before it was read is not skipped in silence.
            "auto.offset.reset": "earliest" if source.by_client else "error",
            "fetch.wait.max.ms": 20,  # how long the broker waits for more when there is little
            # A client with a full queue checks it again after a second, however fast it is emptied: at 180,000
            # records/s a partition gave none for 3 seconds of 7.
            "fetch.queue.backoff.ms": 10,
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 200,
        }
        self._consumer = consumer(source.endpoint, source.group, options)
        there = self._owned(partitions_of(self._consumer, source.topic))
        if gone := sorted(set(self.offsets) - set(there)):
            raise InputError(f"topic {source.topic} has no partitions {gone} any more. {GONE}")
        for number in there:
            self._add(number, self.offsets[number] if number in self.offsets else self._first(number))
        if source.ends is None:
            threading.Thread(target=self._discover, daemon=True).start()

    def _owned(self, partitions: Iterable[int]) -> list[int]:
        ends = self.source.ends
        return [
            number
            for number in partitions
            if number % self.parallelism == self.index and (ends is None or number in ends)
        ]

    def _first(self, number: int) -> int:
        known = self.source.begins.get(number)
        return first_offset(self._consumer, self.source.topic, number) if known is None else known

    def _add(self, number: int, offset: int) -> None:
        from confluent_kafka import OFFSET_STORED, TopicPartition

        self.offsets[number] = offset
        if offset < self.length(number):
            where = OFFSET_STORED if self.source.by_client else offset
            self._consumer.incremental_assign([TopicPartition(self.source.topic, number, where)])

    def _discover(self) -> None:
        """Runs in a thread: the broker may take long to answer."""
        from confluent_kafka import KafkaException

        known = set(self.offsets)
        while not self._closed.wait(self.source.discover_seconds):
            try:
                new = set(self._owned(partitions_of(self._consumer, self.source.topic))) - known
                found = [(number, first_offset(self._consumer, self.source.topic, number)) for number in sorted(new)]
            except (KafkaException, InputError, RuntimeError):
                continue  # the broker is away, or we have closed meanwhile: nothing is new
            self._added += found
            known |= new

    # -- reading -----------------------------------------------------------------------------------

    def _fetch(self) -> None:
        while self._added:
            self._add(*self._added.popleft())
        messages = self._consumer.consume(self.source.batch_rows, timeout=0)
        if not messages:
            return
        kind = type(messages[0])  # calls on each, without a loop of ours: a third of the time
        errors = [message for message in messages if message.error() is not None]
        if errors:
            messages = [message for message in messages if message.error() is None]
        for split, run in groupby(messages, kind.partition):
            self._take(split, list(run), kind)
        for error in errors:  # what comes before the end of a partition is in `messages`, or came earlier
            self._due += [(split, None, end) for split, end in self._told(error)]

    def _take(self, split: int, messages: list[Any], kind: Any) -> None:
        self._at_end.discard(split)
        end = messages[-1].offset() + 1
        bound = self.length(split)
        if end > bound:
            messages, end = [message for message in messages if message.offset() < bound], int(bound)
        batch = KafkaBatch(
            split,
            list(map(kind.offset, messages)),
            keys=list(map(kind.key, messages)),
            values=list(map(kind.value, messages)),
            times_ms=[time for _, time in map(kind.timestamp, messages)],
            headers=list(map(kind.headers, messages)),
        )
        self._due.append((split, batch if messages else None, end))

    def _told(self, message: Any) -> list[tuple[int, int]]:
        from confluent_kafka import KafkaError, KafkaException

        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            self._at_end.add(message.partition())
            return [(message.partition(), message.offset())]
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            number = message.partition()
            raise InputError(
                f"topic {self.source.topic}, partition {number}: offset {self.offsets[number]} is where the "
                f"checkpoint goes on, and it is not there: {error.str()}. {GONE}"
            )
        if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return []
        raise KafkaException(error)

    def _skip_what_holds_no_rows(self) -> None:
        while self._due and self._due[0][1] is None:
            split, _, end = self._due.popleft()
            self.offsets[split] = int(min(max(self.offsets[split], end), self.length(split)))

    def _over(self) -> bool:
        return self.source.ends is not None and all(at >= self.length(split) for split, at in self.offsets.items())


def consumer(endpoint: str, group: str, options: Mapping[str, Any]) -> Any:
    """A client that reads what is committed; it commits offsets only if the options say so."""
    from confluent_kafka import Consumer

    ours = {"enable.auto.commit": False, "isolation.level": "read_committed", "log_level": 2}
    return Consumer({**client_options(endpoint), "group.id": group, **ours, **options})


def partitions_of(client: Any, topic: str, *, seconds: float = ANSWER_SECONDS) -> list[int]:
    """Raises InputError if there is no such topic; a broker that has just come back may not know it at once."""
    deadline = Deadline(seconds)
    while True:
        found = client.list_topics(topic, timeout=seconds).topics[topic]
        if found.error is None and found.partitions:
            return sorted(found.partitions)
        if deadline.over:
            raise InputError(f"topic {topic} cannot be read: {found.error}. {GONE}")
        threading.Event().wait(RETRY_SECONDS)


def first_offset(client: Any, topic: str, number: int) -> int:
    from confluent_kafka import TopicPartition

    return int(client.get_watermark_offsets(TopicPartition(topic, number), timeout=ANSWER_SECONDS)[0])
