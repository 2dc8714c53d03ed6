"""Right sinks around targets that use all that the strategies offer: answers that come late, contexts, time limits.

No registered pair needs these, so that no certification of the registry would notice what breaks them.
"""

from __future__ import annotations

from typing import Any, Final

from sinkproof.scratch import Scratch
from sinkproof.sink_adapters.masked import MaskedSink
from sinkproof.sink_adapters.memory import MemoryCommitter, MemorySegments, MemoryTable, MemoryTransactions
from sinkproof.sink_adapters.protocol import CommitOutcome, Context
from sinkproof.sink_adapters.registry import MemoryContract
from sinkproof.sink_adapters.two_phase import TwoPhaseCommitSink
from sinkproof.sink_adapters.write_ahead import WriteAheadSink

TIMEOUT_SECONDS: Final = 3600.0


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


class HesitantTransactions(Hesitant):
    """Has a time limit, and insists on its context."""

    transaction_timeout = TIMEOUT_SECONDS

    def attach(self, context: Context) -> None:
        self.context, self.mine = context, f"context of {context.subtask}"
        self.target.attach(context)

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

    def commit(self, handle: bytes) -> CommitOutcome:
        if not self.knows(handle):
            return CommitOutcome.RETRY
        outcome: CommitOutcome = self.target.commit(handle)
        return outcome


class HesitantTable(Hesitant):
    def publish(self, part: Any, rows: Any) -> Any:
        return self.target.publish(part, rows) if self.knows(part) else False


class HesitantSegments(Hesitant):
    """Reveals at once what was restored: there is no later step that could."""

    def attach(self, context: Context) -> None:
        self.generation = context.generation
        self.target.attach(context)

    def reveal(self, generation: int, checkpoint_id: int) -> CommitOutcome:
        if generation == self.generation and not self.knows(checkpoint_id):
            return CommitOutcome.RETRY
        outcome: CommitOutcome = self.target.reveal(generation, checkpoint_id)
        return outcome


def without_liveness(claims: tuple[str, ...]) -> tuple[str, ...]:
    """What is in doubt after `open` is settled by the next notification, which an idle job may wait for."""
    return tuple(claim for claim in claims if claim != "LIVENESS")


class TwoPhase(MemoryContract):
    def __init__(self) -> None:
        super().__init__("two-phase")
        self.claims = without_liveness(self.claims)

    def sink(self, scratch: Scratch) -> Any:
        return TwoPhaseCommitSink(HesitantTransactions(MemoryTransactions(self._store(scratch))))


class WriteAhead(MemoryContract):
    def __init__(self) -> None:
        super().__init__("write-ahead-upsert")
        self.claims = without_liveness(self.claims)

    def sink(self, scratch: Scratch) -> Any:
        store = self._store(scratch)
        return WriteAheadSink(HesitantTable(MemoryTable(store)), MemoryCommitter(store))


class Masked(MemoryContract):
    def __init__(self) -> None:
        super().__init__("masked")

    def sink(self, scratch: Scratch) -> Any:
        return MaskedSink(HesitantSegments(MemorySegments(self._store(scratch))))
