"""Topics without transactions: records are visible at once, and sent again after a crash.

A log is all records ever sent. A table is the same topic, folded by key by its reader. The committer uses a topic of
its own, which holds the names of the parts that were sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sinkproof.sink_adapters.kafka.record_sender import RecordSender, encode
from sinkproof.sink_adapters.kafka.topic_reader import read
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from sinkproof.sink_adapters.strategies.idempotent import Entry
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart

SENT: Final = b"sent"


class TopicTarget:
    """Sends the records of each attempt to one topic."""

    sender_type = RecordSender

    def __init__(self, endpoint: str, topic: str) -> None:
        self.endpoint, self.topic = endpoint, topic

    def attach(self, context: Context) -> None:
        self.sender = self.sender_type(self.endpoint, self.topic)


class KafkaLog(TopicTarget):
    """An AppendTarget, a WriteAheadTarget and an UpsertTarget."""

    def append(self, batch: Batch) -> None:
        self.sender.send_batch(batch)

    def upsert(self, entries: Sequence[Entry]) -> None:
        for key, row in entries:
            self.sender.send(key, encode(row))
        self.sender.check()

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> None:
        self.sender.send_rows(rows)
        self.flush()

    def flush(self) -> None:
        """Until this returns, records may still wait in the client."""
        self.sender.flush()


class KafkaCommitter(TopicTarget):
    """A CheckpointCommitter. It reads the topic each time: another process may have recorded something."""

    def is_committed(self, part: CheckpointPart) -> bool:
        key = part.encode()
        return any(record.key == key for record in read(self.endpoint, self.topic))

    def record(self, part: CheckpointPart) -> None:
        self.sender.send(part, SENT)
        self.sender.flush()
