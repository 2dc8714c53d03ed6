"""Sinks on the real broker, with one sin each; everything else is the registered pair's (kafka/two-phase)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from sinkproof.sink_adapters.kafka.kafka_contracts import KafkaContract
from sinkproof.sink_adapters.kafka.kafka_transactions import (
    ONGOING,
    SEPARATOR,
    START_SECONDS,
    KafkaTransactions,
    OpenTransaction,
)
from sinkproof.sink_adapters.kafka.record_sender import FLUSH_SECONDS, RecordSender, SendFailed, encode
from sinkproof.sink_adapters.kafka.transaction_control import END_PLAIN, NO_ERROR, TransactionControl
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Sink
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.sink_adapters.strategies.strategy_claims import EXACTLY
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

SHORT_SECONDS: Final = 1.0
Handle = list[Any]


class OnKafka(KafkaContract):
    """The control: the registered two-phase commit, with `target` and `strategy_class` replaceable."""

    target: type[KafkaTransactions] = KafkaTransactions
    strategy_class: type[TwoPhaseCommitSink] = TwoPhaseCommitSink

    def __init__(self) -> None:
        super().__init__("two-phase", claims=EXACTLY, grade="exactly-once")

    def sink(self, scratch: Any) -> Sink:
        return self.strategy_class(self.target(scratch.service("kafka").endpoint, self._topic(scratch)))


def ask_once(control: TransactionControl, handle: Handle) -> int:
    """Commits without retries. Returns the broker's error code; raises OSError."""
    connection = control.connect(control.endpoints[0], seconds=START_SECONDS)
    try:
        transactional_id, producer_id, epoch, version = handle
        return connection.end(transactional_id, producer_id, epoch, commit=True, version=version)
    finally:
        connection.close()


class UsesProducersAgain(OnKafka):
    """R8: producers are pooled. A late commit of a producer's first transaction commits the one that is open now."""

    class target(KafkaTransactions):  # noqa: N801
        def attach(self, context: Any) -> None:
            super().attach(context)
            self._end_version = END_PLAIN  # as before each end gave the id another epoch
            self.idle: list[OpenTransaction] = []
            self.busy: dict[str, OpenTransaction] = {}

        def begin(self, transaction: Transaction) -> OpenTransaction:
            if not self.idle:
                return super().begin(transaction)
            again = self.idle.pop()
            again.sender.producer.begin_transaction()
            return again

        def pre_commit(self, transaction: OpenTransaction) -> Handle:
            kept = transaction.sender.producer
            handle = super().pre_commit(transaction)
            transaction.sender.producer = kept
            self.busy[transaction.transactional_id] = transaction
            return handle

        def commit(self, handle: Handle) -> CommitOutcome:
            own = self.busy.pop(handle[0], None)
            if own is None:
                return super().commit(handle)
            own.sender.producer.commit_transaction(FLUSH_SECONDS)
            self.idle.append(own)
            return CommitOutcome.COMMITTED


class SwallowsCommitErrors(OnKafka):
    """R6: a commit without an answer is taken for done."""

    class target(KafkaTransactions):  # noqa: N801
        def commit(self, handle: Handle) -> CommitOutcome:
            with suppress(OSError):
                ask_once(self.control, handle)
            return CommitOutcome.COMMITTED


class IgnoresTheTimeout(OnKafka):
    """R9: a transaction that the broker no longer knows is taken for committed."""

    class target(KafkaTransactions):  # noqa: N801
        def __init__(self, endpoint: str, topic: str) -> None:
            super().__init__(endpoint, topic, timeout_seconds=SHORT_SECONDS)

        def commit(self, handle: Handle) -> CommitOutcome:
            outcome = super().commit(handle)
            return CommitOutcome.ALREADY if outcome is CommitOutcome.LOST else outcome

    def maintain(self, scratch: Any) -> None:
        """Time passes: the broker aborts open transactions about a second after their timeout."""
        control = TransactionControl(scratch.service("kafka").direct_endpoint)
        try:
            control.await_none(re.escape(self._topic(scratch) + SEPARATOR) + ".*", [ONGOING], seconds=START_SECONDS)
        finally:
            control.close()


class AbortsWhenClosed(OnKafka):
    """R15: close() aborts pre-committed transactions, which the next attempt's restored checkpoint contains."""

    class strategy_class(TwoPhaseCommitSink):  # noqa: N801
        def close(self) -> None:
            for _, handle, _, _ in self._pending:
                self.target.abort(handle[0])
            super().close()


class SweepsUnderTheOldEpoch(OnKafka):
    """R10: transactions of earlier attempts are aborted under their own epoch: a zombie opens the same one again."""

    class target(KafkaTransactions):  # noqa: N801
        def abort(self, transaction: Any) -> None:
            found = self.control.describe(str(transaction))
            connection = self.control.connect(self.control.endpoints[0], seconds=START_SECONDS)
            connection.end(str(transaction), found.producer, found.epoch, commit=False, version=END_PLAIN)
            connection.close()

        def _sweep(self) -> None:
            """Skipped: `open` has swept already."""

        def write(self, transaction: OpenTransaction, batch: Batch) -> None:
            super().write(transaction, batch)
            transaction.sender.flush()  # otherwise the rows that a zombie sends depend on timing


class SendsAgainWhenNotAnswered(OnKafka):
    """R7: a commit without an answer is taken for failed, and its rows are sent in a new transaction."""

    class target(KafkaTransactions):  # noqa: N801
        def attach(self, context: Any) -> None:
            super().attach(context)
            self.rows: dict[str, list[Any]] = {}

        def write(self, transaction: OpenTransaction, batch: Batch) -> None:
            super().write(transaction, batch)
            self.rows.setdefault(transaction.transactional_id, []).extend(batch.rows)

        def commit(self, handle: Handle) -> CommitOutcome:
            try:
                if ask_once(self.control, handle) == NO_ERROR:
                    return CommitOutcome.COMMITTED
            except OSError:
                if rows := self.rows.pop(handle[0], None):
                    return self.send_again(Transaction.parse(handle[0].removeprefix(self.prefix)), rows)
            return super().commit(handle)

        def send_again(self, first: Transaction, rows: list[Any]) -> CommitOutcome:
            owner = Owner(first.sink_id, first.subtask, 1)
            again = self.begin(Transaction.of(owner, first.generation, first.sequence + 1_000_000))
            self.write(again, Batch(rows))
            return super().commit(self.pre_commit(again))


class SweepsUnderACommonPrefix(OnKafka):
    """R2: subtasks share a name prefix. Each aborts transactions of the others in doubt as its own residue."""

    class target(KafkaTransactions):  # noqa: N801
        def _open_ones(self, owner: Owner, before_generation: int) -> Iterator[str]:
            all_subtasks = Owner(owner.sink_id, 0, 1)
            return super()._open_ones(all_subtasks, before_generation)


class TakesFlushForAVote(OnKafka):
    """R4: an empty client queue is taken for delivery. Rows that timed out have left the queue as well."""

    class target(KafkaTransactions):  # noqa: N801
        def begin(self, transaction: Transaction) -> OpenTransaction:
            made = OpenTransaction(transaction, self.prefix + transaction)
            options = {"transactional.id": made.transactional_id, "message.timeout.ms": int(SHORT_SECONDS * 1000)}
            made.sender = RecordSender(self.endpoint, self.topic, options=options)
            made.sender.producer.init_transactions(START_SECONDS)
            made.sender.producer.begin_transaction()
            return made

        def write(self, transaction: OpenTransaction, batch: Batch) -> None:
            for row in batch.rows:
                transaction.sender.producer.produce(self.topic, encode(row), key=row.key)

        def pre_commit(self, transaction: OpenTransaction) -> Handle:
            if transaction.sender.producer.flush(FLUSH_SECONDS):
                raise SendFailed("not everything was sent")
            found = self.control.describe(transaction.transactional_id)
            transaction.sender.producer = None  # type: ignore[assignment]
            return [transaction.transactional_id, found.producer, found.epoch, self._end_version]

        def commit(self, handle: Handle) -> CommitOutcome:
            self.control.commit(*handle[:3], version=handle[3])
            return CommitOutcome.COMMITTED


class LeavesTransactionsOpen(OnKafka):
    """R11: open transactions of dead attempts hide all later rows from readers, until the broker's timeout."""

    class target(KafkaTransactions):  # noqa: N801
        def _open_ones(self, owner: Owner, before_generation: int) -> Iterator[str]:
            return iter(())
