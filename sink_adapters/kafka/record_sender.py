"""Encodes rows as records, sends them, and sets the client options that matter to correctness."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from sinkproof.chaos.kafka_client.client_settings import QUICK, client_options
from sinkproof.sink_adapters.protocol import Batch, Fenced, Row
from sinkproof.sink_adapters.strategies.snapshot_bytes import quoted

PARTITIONER: Final = "murmur2_random"  # the partitioner of Java clients: readers may join on the partition
SEGMENT: Final = "segment"  # the header with the name of a masked segment
MARKERS: Final = "-markers"  # the topic of the records that say which transactions were committed

ABORT_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 8.0  # engines consider a call of 10 s hung
FENCING: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"})
FATAL: Final = "_FATAL"
NO_OPTIONS: Final[Mapping[str, Any]] = {}

DURABLE: Final[dict[str, Any]] = {
    "acks": "all",  # of all replicas in sync, so that the loss of one broker loses no acknowledged record
    "enable.idempotence": True,  # a repeated request adds nothing, and the order of a partition is kept
    "partitioner": PARTITIONER,
    "message.timeout.ms": int(FLUSH_SECONDS * 1000),  # must not exceed the timeout of a transaction
    "linger.ms": 1,
    **QUICK,
    "log_level": 2,  # failures are reported as errors; a broker that is down would fill the log
}


class SendFailed(Exception):
    """A record was not acknowledged. The attempt fails: whether the record was appended is unknown."""


class RecordSender:
    """Sends records and counts failures: the client's flush() returns 0 even if all records timed out.

    To be made after a fork: the threads of its producer do not exist in a child process.
    """

    def __init__(self, endpoint: str, topic: str, *, options: Mapping[str, Any] = NO_OPTIONS) -> None:
        from confluent_kafka import Producer

        self.topic = topic
        self.problems: list[Any] = []  # KafkaError
        self.producer = Producer({**client_options(endpoint), **DURABLE, **options})

    def send(self, key: str, value: bytes, *, topic: str = "", segment: str = "") -> None:
        headers: list[tuple[str, str | bytes | None]] | None = [(SEGMENT, segment)] if segment else None
        while True:
            try:
                self.producer.produce(
                    topic or self.topic, value=value, key=key.encode(), headers=headers, on_delivery=self._delivered
                )
                return
            except BufferError:
                self.producer.poll(0.1)  # the queue is full: wait for deliveries

    def send_batch(self, batch: Batch) -> None:
        self.send_rows(batch.rows)

    def send_rows(self, rows: Iterable[Row], *, segment: str = "") -> None:
        for row in rows:
            self.send(row.key, encode(row), segment=segment)
        self.producer.poll(0)
        self.check()

    def flush(self, *, seconds: float = FLUSH_SECONDS) -> None:
        """On return every record is acknowledged, or SendFailed is raised."""
        left = self.producer.flush(seconds)
        self.check()
        if left:
            raise SendFailed(f"{left} records to {self.topic} were not acknowledged within {seconds:.0f} s")

    def check(self) -> None:
        if self.problems:
            raise SendFailed(f"{len(self.problems)} records to {self.topic} failed, the first: {self.problems[0]}")

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self.problems.append(error)

    def _fatal_cause(self) -> Any:
        """What ended this client for good, or None. Its transactional requests alone say which error it was, without a
        request to the broker; `produce` says "fatal", and a callback that is due then makes the binding fail.
        """
        from confluent_kafka import KafkaException

        try:
            self.producer.abort_transaction(ABORT_SECONDS)
        except KafkaException as error:
            return error if error.args[0].fatal() else None
        return None

    @contextmanager
    def raising_fenced(self) -> Iterator[None]:
        """Raises Fenced for every error of the client that means it, so that its transactional id was taken over; other
        errors pass.
        """
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            cause = (self._fatal_cause() if error.args[0].name() == FATAL else None) or error
            if cause.args[0].name() in FENCING:
                raise Fenced(str(cause)) from error
            raise
        except SystemError as error:  # raised by the binding, with a cause or without one
            cause = self._fatal_cause() or error
            if isinstance(cause, KafkaException) and cause.args[0].name() in FENCING:
                raise Fenced(str(cause)) from error
            raise SendFailed(str(cause)) from error
        except SendFailed as error:
            if any(problem.name() in FENCING for problem in self.problems):
                raise Fenced(str(error)) from error
            raise


def encode(row: Row) -> bytes:
    split, offset, key, value, time = row
    text = f'{{"split":{split},"offset":{offset},"key":{quoted(key)},"value":{quoted(value)},"event_time_ms":{time}}}'
    return text.encode()


def decode(value: bytes) -> Row:
    return Row(**json.loads(value))
