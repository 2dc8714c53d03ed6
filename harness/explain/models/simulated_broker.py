"""A small simulation of a Kafka broker, for demonstrations: enough of its protocol to be right and wrong with.

One topic with partitions. A transactional id has a producer id and an epoch; who asks for the id anew raises the epoch,
aborts what was open under it, and fences whoever has an older one. Rows of a transaction lie in the log at once;
readers of committed rows stop at the first row of the oldest open transaction (the last stable offset) and skip aborted
ones. Ending a transaction that has ended the same way before succeeds again, for the very (producer id, epoch): that
the broker cannot tell which transaction of this epoch is meant is what the reuse defect is made of.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sinkproof.sink_adapters.protocol import CommitOutcome

MARKER: Final = "marker"  # a record that stands for its transaction, written in it
Identity = tuple[int, int]


class Record(NamedTuple):
    transaction: int  # which of all there ever were
    what: Any  # a row's identity, or (MARKER, name)


class Producer(NamedTuple):
    """What suffices to end a transaction from another process."""

    transactional_id: str
    producer_id: int
    epoch: int


class ProducerFenced(Exception):
    """Somebody has asked for the transactional id anew."""


@dataclass
class _Known:
    """What the broker's coordinator remembers of a transactional id."""

    producer: Producer
    open: int | None = None  # the transaction in progress
    ended: str = ""  # how the last one ended: "commit" or "abort"


@dataclass
class Broker:
    partitions: int = 1
    logs: list[list[Record]] = field(default_factory=list)
    known: dict[str, _Known] = field(default_factory=dict)
    outcomes: dict[int, str] = field(default_factory=dict)  # transaction -> "open", "commit", "abort"
    group_offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.logs = [[] for _ in range(self.partitions)]

    # -- producers --------------------------------------------------------------------------------

    def init_producer(self, transactional_id: str) -> Producer:
        self.requests["InitProducerId"] += 1
        known = self.known.get(transactional_id)
        if known is None:
            producer = Producer(transactional_id, len(self.known) + 1, 0)
            self.known[transactional_id] = _Known(producer)
            return producer
        self._close(known, "abort")
        known.producer = known.producer._replace(epoch=known.producer.epoch + 1)
        return known.producer

    def produce(self, producer: Producer, what: Any, *, partition: int) -> None:
        """Begins a transaction, if none is open."""
        self.requests["Produce"] += 1
        known = self._checked(producer)
        if known.open is None:
            self.requests["AddPartitionsToTxn"] += 1
            known.open = max(self.outcomes, default=0) + 1
            self.outcomes[known.open] = "open"
        self.logs[partition].append(Record(known.open, what))

    def append(self, what: Any, *, partition: int) -> None:
        """Without a transaction: readers get it at once."""
        self.requests["Produce"] += 1
        self.outcomes[0] = "commit"
        self.logs[partition].append(Record(0, what))

    def end(self, producer: Producer, how: str) -> CommitOutcome:
        """`how`: "commit" or "abort". From any process."""
        self.requests["EndTxn"] += 1
        known = self.known.get(producer.transactional_id)
        if known is None:
            return CommitOutcome.LOST  # expired: the broker has never heard of it
        if known.producer != producer:
            return CommitOutcome.LOST  # fenced: what was open has been aborted
        if known.open is None:
            return CommitOutcome.ALREADY if known.ended == how else CommitOutcome.LOST
        self._close(known, how)
        return CommitOutcome.COMMITTED

    def expire_ids(self) -> None:
        """What transactional.id.expiration.ms does: who has nothing open is forgotten."""
        self.known = {name: known for name, known in self.known.items() if known.open is not None}

    def open_ids(self) -> list[str]:
        """Transactional ids with a transaction in progress."""
        self.requests["ListTransactions"] += 1
        return sorted(name for name, known in self.known.items() if known.open is not None)

    def _checked(self, producer: Producer) -> _Known:
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
