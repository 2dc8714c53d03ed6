"""Transactions of a two-phase sink on the simulated broker: one producer for each, and two ways that are wrong."""

from __future__ import annotations

from typing import Any

from sinkproof.explain.models.simulated_broker import MARKER, Broker, ProducerSession
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction


class ProducerPerTransaction:
    """A transactional id for each transaction, and a marker in it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.producers: dict[str, ProducerSession] = {}

    def attach(self, context: Context) -> None:
        self.subtask = context.subtask

    def begin(self, transaction: Transaction) -> None:
        self.producers[transaction] = self.broker.init_producer(transaction)

    def write(self, transaction: Transaction, batch: Batch) -> None:
        for row in batch:
            self.broker.produce(self.producers[transaction], row[:2], partition=self.subtask)

    def pre_commit(self, transaction: Transaction) -> list[Any]:
        self.broker.produce(self.producers[transaction], (MARKER, str(transaction)), partition=self.subtask)
        return list(self.producers.pop(transaction))

    def commit(self, handle: list[Any]) -> CommitOutcome:
        """If the id has expired in the broker, the marker decides."""
        outcome = self.broker.end(ProducerSession(*handle), "commit")
        if outcome is CommitOutcome.LOST and handle[0] in self.broker.markers():
            return CommitOutcome.ALREADY
        return outcome

    def fence(self, owner: Owner, generation: int) -> None:
        """Not here: the sweep of lingering transactions fences, because initialising an id raises its epoch."""

    def lingering(self, owner: Owner, before_generation: int) -> list[Any]:
        names = [Transaction.parse(name) for name in self.broker.open_ids()]
        left = [name for name in names if owner.owns(name.subtask) and name.generation < before_generation]
        return [list(self.broker.known[name].producer) for name in left]

    def abort(self, transaction: Any) -> None:
        self.broker.init_producer(transaction[0] if isinstance(transaction, list) else transaction)


class PoolOfTwo(ProducerPerTransaction):
    """Two producers used in turn, each with one transactional id and one epoch: the reuse defect."""

    def attach(self, context: Context) -> None:
        super().attach(context)
        names = [f"{context.sink_id}-{context.subtask}-pool-{number}" for number in (1, 2)]
        known = [self.broker.known.get(name) for name in names]
        # Initialising the ids would abort the transactions that are to be committed: the epochs are reused.
        self.pool = [
            one.producer if one else self.broker.init_producer(name) for one, name in zip(known, names, strict=True)
        ]

    def begin(self, transaction: Transaction) -> None:
        self.producers[transaction] = self.pool[0]
        self.pool.reverse()

    def pre_commit(self, transaction: Transaction) -> list[Any]:
        return list(self.producers.pop(transaction))

    def commit(self, handle: list[Any]) -> CommitOutcome:
        return self.broker.end(ProducerSession(*handle), "commit")

    def lingering(self, owner: Owner, before_generation: int) -> list[Any]:
        mine = [name for name in self.broker.open_ids() if name.split("-")[1] == str(owner.subtask)]
        return [list(self.broker.known[name].producer) for name in mine]

    def abort(self, transaction: Any) -> None:
        self.broker.end(ProducerSession(*transaction), "abort")


class WithoutSweep(ProducerPerTransaction):
    """Does not search for transactions that earlier attempts left open."""

    def lingering(self, owner: Owner, before_generation: int) -> list[Any]:
        return []


Transactions = type[ProducerPerTransaction]
