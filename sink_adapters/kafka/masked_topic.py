"""Masked rows in a topic: every record names its segment, and a reader shows it once a marker covers that segment.

Without Kafka transactions: a marker is one more record, in a topic of its own, under a key of its own. Records that are
never revealed stay in the topic, hidden, until its retention removes them.
"""

from __future__ import annotations

from typing import Final

from sinkproof.sink_adapters.kafka.record_sender import MARKERS, RecordSender
from sinkproof.sink_adapters.kafka.topic_reader import TopicRecord, read
from sinkproof.sink_adapters.protocol import Batch, Context
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction

REVEALED: Final = b"revealed"


class KafkaSegments:
    """A MaskedTarget on a topic and `<topic>-markers`, which is compacted."""

    def __init__(self, endpoint: str, topic: str) -> None:
        self.endpoint, self.topic = endpoint, topic

    def attach(self, context: Context) -> None:
        self.sender = RecordSender(self.endpoint, self.topic)

    def stage(self, segment: Transaction, batch: Batch) -> None:
        self.sender.send_rows(batch.rows, segment=segment)

    def seal(self, segment: Transaction) -> None:
        self.sender.flush()

    def reveal(self, generation: int, checkpoint_id: int) -> None:
        """Each marker has a key of its own: a lower one of a zombie replaces no other."""
        self.sender.send(f"{generation}-{checkpoint_id}", REVEALED, topic=self.topic + MARKERS)
        self.sender.flush()

    def collect(self, owner: Owner, before_generation: int) -> None:
        """Does nothing: single records cannot be removed from a topic."""


def markers(endpoint: str, topic: str) -> dict[int, int]:
    """The highest checkpoint that is revealed, by generation."""
    revealed: dict[int, int] = {}
    for record in read(endpoint, topic + MARKERS):
        generation, checkpoint_id = map(int, (record.key or b"").decode().split("-"))
        revealed[generation] = max(checkpoint_id, revealed.get(generation, 0))
    return revealed


def read_masked(endpoint: str, topic: str) -> list[TopicRecord]:
    """Revealed records, by checkpoint. Markers are read first: the records that they cover are older."""
    revealed = markers(endpoint, topic)
    shown = []
    for record in read(endpoint, topic):
        segment = Transaction.parse(record.segment)
        if segment.sequence <= revealed.get(segment.generation, 0):
            shown.append((segment.sequence, record))
    return [record for _, record in sorted(shown)]
