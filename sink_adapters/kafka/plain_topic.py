"""Topics without transactions: what is sent is visible at once, and sent again after a crash.

A log is all that was ever sent. A table is the same topic seen through a reader that folds it by key. A committer is a
topic of its own, which holds the names of what was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sinkproof.sink_adapters.kafka.records import Sender, encode, producer
from sinkproof.sink_adapters.kafka.topic_reader import read
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from sinkproof.sink_adapters.strategies.idempotent import Entry
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart

FLUSH_SECONDS: Final = 8.0  # engines take a call of 10 s for hung
SENT: Final = b"sent"


class KafkaLog:
    """An AppendTarget, a WriteAheadTarget and an UpsertTarget."""

    def __init__(self, endpoint: str, topic: str) -> None:
        self.endpoint, self.topic = endpoint, topic

    def attach(self, context: Context) -> None:
        options = {"message.timeout.ms": int(FLUSH_SECONDS * 1000)}
        self.sender = Sender(producer(self.endpoint, options), self.topic)

    def append(self, batch: Batch) -> None:
        self.sender.send_rows(batch.rows)

    def upsert(self, entries: Sequence[Entry]) -> None:
        for key, row in entries:
            self.sender.send(key, encode(row))
        self.sender.check()

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> None:
        self.sender.send_rows(rows)
        self.flush()

    def flush(self) -> None:
        """Before this, what was sent may still wait in the client."""
        self.sender.flush(FLUSH_SECONDS)


class KafkaCommitter:
    """A CheckpointCommitter. Another process may have recorded something since it last looked: it looks each time."""

    def __init__(self, endpoint: str, topic: str) -> None:
        self.endpoint, self.topic = endpoint, topic

    def attach(self, context: Context) -> None:
        self.log = KafkaLog(self.endpoint, self.topic)
        self.log.attach(context)

    def is_committed(self, part: CheckpointPart) -> bool:
        key = part.encode()
        return any(record.key == key for record in read(self.endpoint, self.topic))

    def record(self, part: CheckpointPart) -> None:
        self.log.sender.send(part, SENT)
        self.log.flush()
