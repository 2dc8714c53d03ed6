"""Masked rows in a topic: every record names its segment, and a reader shows it once a marker covers that segment.

Nothing is transactional here, and nothing waits: a marker is one more record, in a topic of its own, under a key that
no other marker has. What is never revealed stays in the topic, hidden, until the topic's retention removes it.
"""

from __future__ import annotations

from typing import Final

from sinkproof.sink_adapters.kafka.records import MARKERS, Sender, producer
from sinkproof.sink_adapters.kafka.topic_reader import Record, read
from sinkproof.sink_adapters.protocol import Batch, Context
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction

FLUSH_SECONDS: Final = 8.0  # engines take a call of 10 s for hung
REVEALED: Final = b"revealed"


class KafkaSegments:
    """A MaskedTarget on a topic and `<topic>-markers`, which is compacted."""

    def __init__(self, endpoint: str, topic: str) -> None:
        self.endpoint, self.topic = endpoint, topic

    def attach(self, context: Context) -> None:
        options = {"message.timeout.ms": int(FLUSH_SECONDS * 1000)}
        self.sender = Sender(producer(self.endpoint, options), self.topic)

    def stage(self, segment: Transaction, batch: Batch) -> None:
        self.sender.send_rows(batch.rows, segment=segment)

    def seal(self, segment: Transaction) -> None:
        self.sender.flush(FLUSH_SECONDS)

    def reveal(self, generation: int, checkpoint_id: int) -> None:
        """A key for each marker: a zombie's lower one takes the place of none."""
        self.sender.send(f"{generation}-{checkpoint_id}", REVEALED, topic=self.topic + MARKERS)
        self.sender.flush(FLUSH_SECONDS)

    def collect(self, owner: Owner, before_generation: int) -> None:
        """A topic is a log, and single records cannot be taken out of it."""


def markers(endpoint: str, topic: str) -> dict[int, int]:
    """The highest checkpoint that is revealed, by generation."""
    revealed: dict[int, int] = {}
    for record in read(endpoint, topic + MARKERS):
        generation, checkpoint_id = map(int, (record.key or b"").decode().split("-"))
        revealed[generation] = max(checkpoint_id, revealed.get(generation, 0))
    return revealed


def read_masked(endpoint: str, topic: str) -> list[Record]:
    """What is revealed, by checkpoint. Markers are read first: whatever they cover is there by then."""
    revealed = markers(endpoint, topic)
    shown = []
    for record in read(endpoint, topic):
        segment = Transaction.parse(record.segment)
        if segment.sequence <= revealed.get(segment.generation, 0):
            shown.append((segment.sequence, record))
    return [record for _, record in sorted(shown)]
