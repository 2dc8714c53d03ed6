"""A small simulation of a Kafka broker: as much of its protocol as right and wrong sinks need.

One topic with partitions. A transactional id has a producer id and an epoch; initialising the id again raises the
epoch, aborts its open transaction, and fences producers with an older epoch. Rows of a transaction are in the log at
once; readers of committed rows stop at the first row of the oldest open transaction (the last stable offset) and skip
aborted ones. Ending a transaction that has ended the same way before succeeds again, for the same (producer id, epoch):
the broker cannot distinguish transactions of one epoch, and this is the cause of the reuse defect.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sinkproof.sink_adapters.protocol import CommitOutcome

MARKER: Final = "marker"  # a record that stands for its transaction, written in it
Identity = tuple[int, int]


class LogRecord(NamedTuple):
    transaction: int  # its number in the broker
    what: Any  # a row's identity, or (MARKER, name)


class ProducerSession(NamedTuple):
    """Sufficient to end a transaction from another process."""

    transactional_id: str
    producer_id: int
    epoch: int


class ProducerFenced(Exception):
    """The transactional id was initialised again by a newer producer."""


@dataclass
class _Known:
    """The state of a transactional id in the broker's coordinator."""

    producer: ProducerSession
    open: int | None = None  # the transaction in progress
    ended: str = ""  # how the last one ended: "commit" or "abort"


@dataclass
class Broker:
    partitions: int = 1
    logs: list[list[LogRecord]] = field(default_factory=list)
    known: dict[str, _Known] = field(default_factory=dict)
    outcomes: dict[int, str] = field(default_factory=dict)  # transaction -> "open", "commit", "abort"
    group_offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.logs = [[] for _ in range(self.partitions)]

    # -- producers --------------------------------------------------------------------------------

    def init_producer(self, transactional_id: str) -> ProducerSession:
        self.requests["InitProducerId"] += 1
        known = self.known.get(transactional_id)
        if known is None:
            producer = ProducerSession(transactional_id, len(self.known) + 1, 0)
            self.known[transactional_id] = _Known(producer)
            return producer
        self._close(known, "abort")
        known.producer = known.producer._replace(epoch=known.producer.epoch + 1)
        return known.producer

    def produce(self, producer: ProducerSession, what: Any, *, partition: int) -> None:
        """Begins a transaction, if none is open."""
        self.requests["Produce"] += 1
        known = self._checked(producer)
        if known.open is None:
            self.requests["AddPartitionsToTxn"] += 1
            known.open = max(self.outcomes, default=0) + 1
            self.outcomes[known.open] = "open"
        self.logs[partition].append(LogRecord(known.open, what))

    def append(self, what: Any, *, partition: int) -> None:
        """Without a transaction: visible at once."""
        self.requests["Produce"] += 1
        self.outcomes[0] = "commit"
        self.logs[partition].append(LogRecord(0, what))

    def end(self, producer: ProducerSession, how: str) -> CommitOutcome:
        """`how`: "commit" or "abort". From any process."""
        self.requests["EndTxn"] += 1
        known = self.known.get(producer.transactional_id)
        if known is None:
            return CommitOutcome.LOST  # expired: the id is unknown
        if known.producer != producer:
            return CommitOutcome.LOST  # fenced: its transaction has been aborted
        if known.open is None:
            return CommitOutcome.ALREADY if known.ended == how else CommitOutcome.LOST
        self._close(known, how)
        return CommitOutcome.COMMITTED

    def expire_ids(self) -> None:
        """As after transactional.id.expiration.ms: ids without an open transaction are removed."""
        self.known = {name: known for name, known in self.known.items() if known.open is not None}

    def open_ids(self) -> list[str]:
        """Transactional ids with a transaction in progress."""
        self.requests["ListTransactions"] += 1
        return sorted(name for name, known in self.known.items() if known.open is not None)

    def _checked(self, producer: ProducerSession) -> _Known:
        known = self.known[producer.transactional_id]
        if known.producer != producer:
            raise ProducerFenced(f"{producer.transactional_id}: epoch {producer.epoch} < {known.producer.epoch}")
        return known

    def _close(self, known: _Known, how: str) -> None:
        if known.open is not None:
            self.outcomes[known.open] = how
        known.open, known.ended = None, how

    # -- readers ----------------------------------------------------------------------------------

    def last_stable_offset(self, partition: int) -> int:
        log = self.logs[partition]
        return next((at for at, record in enumerate(log) if self.outcomes[record.transaction] == "open"), len(log))

    def read(self, *, committed: bool = True) -> list[Identity]:
        """Identities of rows, markers left out."""
        return [what for what in self._records(committed=committed) if what[0] != MARKER]

    def markers(self) -> list[str]:
        """Names of committed transactions that carry one."""
        return [what[1] for what in self._records(committed=True) if what[0] == MARKER]

    def _records(self, *, committed: bool) -> list[Any]:
        found: list[Any] = []
        for partition, log in enumerate(self.logs):
            end = self.last_stable_offset(partition) if committed else len(log)
            wanted = [record for record in log[:end] if not committed or self.outcomes[record.transaction] == "commit"]
            found += [record.what for record in wanted]
        return found

    # -- consumer groups --------------------------------------------------------------------------

    def commit_offsets(self, group: str, offsets: dict[int, int]) -> None:
        self.requests["OffsetCommit"] += 1
        self.group_offsets[group] = dict(offsets)
