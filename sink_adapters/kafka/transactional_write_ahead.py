"""Write-ahead without repeats: rows and the record that they were sent are one transaction.

Rows wait in the checkpoint until it is complete; then they and a marker become visible together. The transactional id
belongs to the subtask, not to the attempt: an attempt takes the id over, which ends any open transaction of an earlier
attempt, and only then reads whether the marker is there. So it never sends what a zombie is still about to commit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sinkproof.sink_adapters.kafka.plain_topic import SENT
from sinkproof.sink_adapters.kafka.record_sender import FLUSH_SECONDS, MARKERS, RecordSender
from sinkproof.sink_adapters.kafka.topic_reader import is_marked, read
from sinkproof.sink_adapters.kafka.transaction_control import TransactionControl
from sinkproof.sink_adapters.protocol import CommitOutcome, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart, Owner

TIMEOUT_MS: Final = 60_000  # of a transaction, which is open while rows are sent
SEPARATOR: Final = "."


class KafkaMarkedLog:
    """A WriteAheadTarget and its own CheckpointCommitter, on a topic and `<topic>-markers`, which is compacted."""

    def __init__(self, endpoint: str, topic: str) -> None:
        self.endpoint, self.topic, self.markers = endpoint, topic, topic + MARKERS
        self.control = TransactionControl(endpoint)
        self._senders: dict[str, RecordSender] = {}  # by transactional id
        self._taken_over: set[str] = set()

    def collect(self, owner: Owner, before_generation: int) -> None:
        """An open transaction of an earlier attempt hides everything behind it until its id is taken over."""
        prefix = f"{self.topic}{SEPARATOR}{owner.sink_id}-"
        for name in self.control.transactions(re.escape(prefix) + r"\d+", ["Ongoing"]):
            if owner.owns(int(name.removeprefix(prefix))):
                self.control.take_over(name, timeout_ms=TIMEOUT_MS)

    def is_committed(self, part: CheckpointPart) -> bool:
        """False is not final: `publish` reads again after it has ended every earlier attempt's transaction."""
        key = part.encode()
        return any(record.key == key for record in read(self.endpoint, self.markers))

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> CommitOutcome:
        """1 take over, 2 read the marker, 3 send rows and marker, 4 commit. After an exception the next attempt
        settles.
        """
        name = self._name(part)
        sender = self._sender(name)
        with sender.raising_fenced():
            if name not in self._taken_over:
                sender.producer.init_transactions(FLUSH_SECONDS)
                self._taken_over.add(name)
            prefix = self.topic + SEPARATOR
            marked = is_marked(self.endpoint, self.markers, part, prefix=prefix, settled=name)
            if marked is not False:
                return CommitOutcome.RETRY if marked is None else CommitOutcome.ALREADY
            sender.producer.begin_transaction()
            sender.send_rows(rows)
            sender.send(part, SENT, topic=self.markers)
            sender.flush()
            sender.producer.commit_transaction(FLUSH_SECONDS)
        return CommitOutcome.COMMITTED

    def _name(self, part: CheckpointPart) -> str:
        return f"{self.topic}{SEPARATOR}{part.sink_id}-{part.subtask}"

    def record(self, part: CheckpointPart) -> None:
        """It was recorded with the rows."""

    def _sender(self, name: str) -> RecordSender:
        if name not in self._senders:
            options = {"transactional.id": name, "transaction.timeout.ms": TIMEOUT_MS}
            self._senders[name] = RecordSender(self.endpoint, self.topic, options=options)
        return self._senders[name]

    def close(self) -> None:
        self.control.close()
