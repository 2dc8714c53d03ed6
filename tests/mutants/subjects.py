"""Right sinks around targets that use all features of the strategies: late answers, contexts, time limits.

No registered pair needs these, so no certification of the registry would notice a mutant that breaks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sinkproof.sink_adapters.memory.memory_clients import (
    MemoryCommitter,
    MemorySegments,
    MemoryTable,
    MemoryTransactions,
)
from sinkproof.sink_adapters.memory.memory_contracts import MemoryContract
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context
from sinkproof.sink_adapters.strategies.masked import MaskedSink
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink
from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink
from sinkproof.subject.scratch import Scratch

TIMEOUT_SECONDS: Final = 3600.0
DOUBT_SECONDS: Final = 0.05  # until the next checkpoint is in doubt, too


class Hesitant:
    """Answers everything that may be in doubt with "not yet", the first time."""

    def __init__(self, target: Any) -> None:
        self.target, self.asked = target, set[Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def knows(self, request: Any) -> bool:
        """Whether it was asked for before."""
        known = request in self.asked
        self.asked.add(request)
        return known


class InsistentTransactions(Hesitant):
    """Handles are JSON objects, which no order has. Names are those that identity.py promises."""

    restored = 0

    def attach(self, context: Context) -> None:
        self.restored, self.names = context.checkpoint_id_covered, set[Any]()
        self.target.attach(context)

    def begin(self, name: Transaction) -> None:
        if name.sequence <= self.restored or name in self.names:
            raise RuntimeError(f"{name} is no name for rows that follow checkpoint {self.restored}")
        self.names.add(name)
        self.target.begin(name)

    def pre_commit(self, name: Transaction) -> dict[str, str]:
        return {"name": self.target.pre_commit(name).decode()}

    def commit(self, handle: dict[str, str]) -> CommitOutcome:
        if not self.knows(handle["name"]):
            return CommitOutcome.RETRY
        outcome: CommitOutcome = self.target.commit(handle["name"].encode())
        return outcome

    def abort(self, given: Transaction | dict[str, str]) -> None:
        self.target.abort(given["name"].encode() if isinstance(given, dict) else given)


class ListedTransactions(InsistentTransactions):
    """Has a time limit, lists what lingers, and insists on its context."""

    transaction_timeout = TIMEOUT_SECONDS
    given: Sequence[str] = ()

    def attach(self, context: Context) -> None:
        self.context, self.mine = context, f"context of {context.subtask}"
        super().attach(context)

    def lingering(self, owner: Owner, before_generation: int) -> list[dict[str, str]]:
        return [{"name": handle.decode()} for handle in self.target.lingering(owner, before_generation)]

    def new_user_context(self) -> str:
        if self.context.restored:
            raise RuntimeError(f"subtask {self.context.subtask} has lost its context")
        return self.mine

    def use_user_contexts(self, contexts: list[str]) -> None:
        inherited = [f"context of {old}" for old, _ in self.context.restored]
        own = [self.mine] if self.mine in inherited or not inherited else []
        others = sorted(other for other in inherited if other != self.mine)
        if contexts != own + others:
            raise RuntimeError(f"subtask {self.context.subtask} was given {contexts}, not {own + others}")
        self.given = contexts

    def ready(self) -> None:
        if not self.given:
            raise RuntimeError(f"subtask {self.context.subtask} was given no context")


class StubbornTransactions(ListedTransactions):
    """After a restart, what is committed first is in doubt for a while, and the second until another attempt asks."""

    def attach(self, context: Context) -> None:
        self.mine_in_order, self.first_asked = list[str](), 0.0
        super().attach(context)

    def pre_commit(self, name: Transaction) -> dict[str, str]:
        handle = super().pre_commit(name)
        self.mine_in_order.append(handle["name"])
        return handle

    def commit(self, handle: dict[str, str]) -> CommitOutcome:
        if self.context.restored and handle["name"] in self.mine_in_order[:2]:
            self.first_asked = self.first_asked or self.context.clock()
            is_first = handle["name"] == self.mine_in_order[0]
            if not is_first or self.context.clock() < self.first_asked + DOUBT_SECONDS:
                return CommitOutcome.RETRY
        outcome: CommitOutcome = self.target.commit(handle["name"].encode())
        return outcome


class UnlistedTransactions(InsistentTransactions):
    """Cannot list what lingers: it depends on a notification from an attempt that ends regularly."""

    def __getattr__(self, name: str) -> Any:
        if name in ("lingering", "transaction_timeout", "new_user_context", "use_user_contexts", "ready"):
            raise AttributeError(name)
        return super().__getattr__(name)


class HesitantTable(Hesitant):
    def publish(self, part: Any, rows: Any) -> Any:
        return self.target.publish(part, rows) if self.knows(part) else False


class InsistentCommitter:
    """Is not asked for what the same attempt has recorded."""

    def __init__(self, target: MemoryCommitter) -> None:
        self.target, self.recorded = target, set[Any]()

    def is_committed(self, part: Any) -> Any:
        if part in self.recorded:
            raise RuntimeError(f"{part} was recorded by this attempt")
        return self.target.is_committed(part)

    def record(self, part: Any) -> None:
        self.recorded.add(part)
        self.target.record(part)


class HesitantSegments(Hesitant):
    """Reveals at once what was restored: there is no later step that could. Is not asked to reveal nothing."""

    def attach(self, context: Context) -> None:
        self.generation, self.hidden = context.generation, set[int]()
        self.target.attach(context)

    def stage(self, segment: Transaction, batch: Batch) -> None:
        self.hidden.add(segment.sequence)
        self.target.stage(segment, batch)

    def reveal(self, generation: int, checkpoint_id: int) -> CommitOutcome:
        if generation == self.generation:
            if not any(sequence <= checkpoint_id for sequence in self.hidden):
                raise RuntimeError(f"nothing of this attempt is hidden up to checkpoint {checkpoint_id}")
            if not self.knows(checkpoint_id):
                return CommitOutcome.RETRY
            self.hidden = {sequence for sequence in self.hidden if sequence > checkpoint_id}
        outcome: CommitOutcome = self.target.reveal(generation, checkpoint_id)
        return outcome


def without_liveness(claims: tuple[str, ...]) -> tuple[str, ...]:
    """What is in doubt after `open` is settled by the next notification, which an idle job may wait for."""
    return tuple(claim for claim in claims if claim != "LIVENESS")


class TwoPhase(MemoryContract):
    target: type[InsistentTransactions] = ListedTransactions

    def __init__(self) -> None:
        super().__init__("two-phase")
        self.claims = without_liveness(self.claims)

    def sink(self, scratch: Scratch) -> Any:
        return TwoPhaseCommitSink(self.target(MemoryTransactions(self._store(scratch))))


class TwoPhaseStubborn(TwoPhase):
    target = StubbornTransactions


class TwoPhaseUnlisted(TwoPhase):
    target = UnlistedTransactions

    def __init__(self) -> None:
        super().__init__()
        self.claims = tuple(claim for claim in self.claims if claim != "NO_RESIDUE")


class WriteAhead(MemoryContract):
    def __init__(self) -> None:
        super().__init__("write-ahead-upsert")
        self.claims = without_liveness(self.claims)

    def sink(self, scratch: Scratch) -> Any:
        store = self._store(scratch)
        return WriteAheadSink(HesitantTable(MemoryTable(store)), InsistentCommitter(MemoryCommitter(store)))


class Masked(MemoryContract):
    def __init__(self) -> None:
        super().__init__("masked")

    def sink(self, scratch: Scratch) -> Any:
        return MaskedSink(HesitantSegments(MemorySegments(self._store(scratch))))
