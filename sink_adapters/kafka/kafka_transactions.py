"""Kafka transactions for two-phase commit: one producer for each, and a commit that any process can send.

A Kafka producer cannot resume a transaction of another one. But the coordinator requires only the transactional id, the
producer id and the epoch; so these three are the handle. A transactional id is used for one
transaction only: a producer that is used again would let a late commit of its first transaction commit its second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from sinkproof.sink_adapters.kafka.record_sender import FLUSH_SECONDS, MARKERS, RecordSender, SendFailed
from sinkproof.sink_adapters.kafka.topic_reader import ReadFailed, is_marked
from sinkproof.sink_adapters.kafka.transaction_control import NO_ERROR, NotNow, TransactionControl
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, Fenced
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction

if TYPE_CHECKING:
    from sinkproof.sink_adapters.kafka.broker_requests import TransactionDescription

TIMEOUT_SECONDS: Final = (
    900.0  # after it the broker aborts; it must outlast the longest time without a complete checkpoint
)
START_SECONDS: Final = 8.0
STATISTICS_MS: Final = 20  # interval at which the client reports its producer id: a pre-commit may have to wait for it
SEPARATOR: Final = "."
ONGOING: Final = "Ongoing"
TIMEOUT_OF_SWEEP_MS: Final = 60_000  # of an id that is never used again

# The outcome by the state of a transaction after a refused EndTxn.
OUTCOMES: Final = {
    "CompleteCommit": CommitOutcome.ALREADY,
    "PrepareCommit": CommitOutcome.RETRY,
    "PrepareAbort": CommitOutcome.RETRY,
    "CompleteAbort": CommitOutcome.LOST,
    ONGOING: CommitOutcome.RETRY,
}


class OpenTransaction:
    """A transaction of this process, with its producer."""

    def __init__(self, name: Transaction, transactional_id: str) -> None:
        self.name, self.transactional_id = name, transactional_id
        self.sender: RecordSender
        self.partitions: set[tuple[str, int]] = set()
        self.identity = (-1, -1)  # producer id and epoch, as the client reports

    def on_statistics(self, statistics: str) -> None:
        eos = json.loads(statistics).get("eos", {})
        if eos.get("producer_id", -1) >= 0:
            self.identity = (eos["producer_id"], eos["producer_epoch"])


class Lingering(str):
    """The transactional id of an open transaction. Equal to the handle of the same one: that is how it is excluded."""

    def __eq__(self, other: object) -> bool:
        return str(self) == (other[0] if isinstance(other, list) and other else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class KafkaTransactions:
    """A TwoPhaseTarget on one topic. A handle: [transactional id, producer id, epoch, version of EndTxn].

    `prefix`: of the transactional ids; no two jobs that write at the same time share it. The compacted topic
    `<topic>-markers` must exist: each transaction puts a record there, which proves that it was committed, even after
    the coordinator has forgotten it.
    """

    transaction_type = OpenTransaction
    sender_type = RecordSender

    def __init__(
        self, endpoint: str, topic: str, *, prefix: str = "", timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self.endpoint, self.topic, self.markers = endpoint, topic, topic + MARKERS
        self.prefix = (prefix or topic) + SEPARATOR
        self.transaction_timeout = timeout_seconds
        self.control = TransactionControl(endpoint)
        self._end_version = 0
        self._owner: Owner | None = None
        self._swept: set[str] = set()

    def attach(self, context: Context) -> None:
        self.generation = context.generation
        self._end_version = self.control.end_version()

    def begin(self, transaction: Transaction) -> OpenTransaction:
        made = self._make(transaction)
        with made.sender.raising_fenced():
            made.sender.producer.begin_transaction()
        return made

    def _make(self, transaction: Transaction, *, statistics_ms: int = STATISTICS_MS) -> OpenTransaction:
        """All of a transaction but its beginning: its producer has its id and epoch."""
        made = self.transaction_type(transaction, self.prefix + transaction)
        milliseconds = int(self.transaction_timeout * 1000)
        options = {
            "transactional.id": made.transactional_id,
            "transaction.timeout.ms": milliseconds,
            "message.timeout.ms": min(milliseconds, int(FLUSH_SECONDS * 1000)),
            "statistics.interval.ms": statistics_ms,
            "stats_cb": made.on_statistics,
        }
        made.sender = self.sender_type(self.endpoint, self.topic, options=options)
        with made.sender.raising_fenced():
            made.sender.producer.init_transactions(START_SECONDS)
        return made

    def write(self, transaction: OpenTransaction, batch: Batch) -> None:
        with transaction.sender.raising_fenced():
            transaction.sender.send_batch(batch)

    def pre_commit(self, transaction: OpenTransaction) -> list[Any]:
        """Succeeds only if every record was acknowledged *and* the coordinator confirms the transaction: one that timed
        out, or was taken over, loses its rows without an error for any record.
        """
        sender = transaction.sender
        with sender.raising_fenced():
            sender.send(transaction.transactional_id, b"committed", topic=self.markers)
            sender.flush()
            waited = 0
            while transaction.identity[0] < 0 and waited < START_SECONDS * 1000:
                sender.producer.poll(STATISTICS_MS / 1000)
                waited += STATISTICS_MS
        found = self.control.describe(transaction.transactional_id)
        if found.state != ONGOING or (found.producer, found.epoch) != transaction.identity:
            raise Fenced(f"{transaction.transactional_id} is {found}, and not an open one of {transaction.identity}")
        if not {self.topic, self.markers} <= {topic for topic, _ in found.partitions}:
            raise SendFailed(f"{transaction.transactional_id} covers only {sorted(found.partitions)}")
        transaction.sender.producer = None  # type: ignore[assignment] # dropped, not closed: closing would abort
        return [transaction.transactional_id, found.producer, found.epoch, self._end_version]

    def commit(self, handle: list[Any]) -> CommitOutcome:
        transactional_id, producer_id, epoch, version = handle
        try:
            error = self.control.commit(transactional_id, producer_id, epoch, version=version)
            if error == NO_ERROR:
                self._sweep()
                return CommitOutcome.COMMITTED
            return self._outcome(handle, self.control.describe(transactional_id))
        except NotNow:
            return CommitOutcome.RETRY

    def _outcome(self, handle: list[Any], found: TransactionDescription) -> CommitOutcome:
        """EndTxn was refused, which proves nothing: it is refused after a commit, too."""
        transactional_id, producer_id, epoch, _ = handle
        if found.producer == producer_id and found.epoch in (epoch, epoch + 1) and found.state in OUTCOMES:
            return OUTCOMES[found.state]
        return self._by_marker(transactional_id)

    def _by_marker(self, transactional_id: str) -> CommitOutcome:
        """The coordinator has forgotten the transaction; the marker record that is committed with it decides."""
        try:
            marked = is_marked(
                self.endpoint, self.markers, transactional_id, prefix=self.prefix, settled=transactional_id
            )
        except (ReadFailed, NotNow):
            return CommitOutcome.RETRY
        return {True: CommitOutcome.ALREADY, False: CommitOutcome.LOST, None: CommitOutcome.RETRY}[marked]

    # -- leftovers of earlier attempts ------------------------------------------------------------

    def lingering(self, owner: Owner, before_generation: int) -> list[Lingering]:
        self._owner = owner
        found = [Lingering(name) for name in self._open_ones(owner, before_generation)]
        self._swept.update(found)
        return found

    def abort(self, transaction: Any) -> None:
        """By a new epoch, which fences a zombie that still writes. After an abort under the old epoch the zombie could
        open the same transaction again, and a later commit of its handle would publish a part of it.
        """
        if isinstance(transaction, OpenTransaction):
            transaction = transaction.transactional_id
        self.control.take_over(str(transaction), timeout_ms=TIMEOUT_OF_SWEEP_MS)

    def _sweep(self) -> None:
        """Aborts transactions that zombies have begun since `lingering`: each would hide all rows behind it. Those
        listed there are already aborted, or in doubt and promised.
        """
        if self._owner is None:
            return
        for name in self._open_ones(self._owner, self.generation):
            if name not in self._swept:
                self.abort(name)

    def _open_ones(self, owner: Owner, before_generation: int) -> Iterator[str]:
        """Transactional ids of open transactions of earlier attempts of all old subtasks that the owner owns."""
        pattern = re.escape(f"{self.prefix}{owner.sink_id}-") + r"\d+-\d+-\d+"
        for name in self.control.transactions(pattern, [ONGOING]):
            transaction = Transaction.parse(name.removeprefix(self.prefix))
            if owner.owns(transaction.subtask) and transaction.generation < before_generation:
                yield name

    def close(self) -> None:
        self.control.close()
