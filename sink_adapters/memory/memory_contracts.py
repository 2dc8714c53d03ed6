"""The contract of the memory pairs: the store is in this process in the simulated shell, and a process of its own where
sinks are processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from sinkproof.sink_adapters.memory.memory_clients import (
    MemoryCommitter,
    MemoryLog,
    MemorySegments,
    MemoryTable,
    MemoryTransactions,
)
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Identity, Row, Sink, call_if_there, without_line_points
from sinkproof.sink_adapters.strategies.idempotent import IdempotentSink
from sinkproof.sink_adapters.strategies.masked import MaskedSink
from sinkproof.sink_adapters.strategies.plain import PlainSink
from sinkproof.sink_adapters.strategies.strategy_claims import STRATEGIES, WHOLE
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink
from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink

if TYPE_CHECKING:
    import subprocess

Scratch = Any  # passed by the harness to contracts: name, path, shell, setting(name, default)


@without_line_points
class MemoryContract:
    """`seen` is offered where a reader may observe rows again."""

    marks_points = True  # the adapters mark their own steps: no search for file effects is needed
    claims_simulated = WHOLE  # only there a reader observes during every campaign
    shells = ("simulated", "process")

    def __init__(self, strategy: str, *, transaction_timeout: float | None = None) -> None:
        self.strategy, self.expires_after = strategy, transaction_timeout
        self.claims, self.grade = STRATEGIES[strategy].claims, STRATEGIES[strategy].grade
        self._stores: dict[tuple[str, int], MemoryStore] = {}  # by scratch and pid: no connection survives a fork
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        if self.grade == "exactly-once":
            self.residue = self._residue
        if self.grade == "effectively-once":
            self.seen = self._seen
        if strategy == "masked":
            self.complete = self._complete

    def setup(self, scratch: Scratch) -> None:
        if scratch.shell != "simulated":
            from sinkproof.sink_adapters.memory import memory_server

            self._servers[str(scratch.path)] = memory_server.start(scratch.path)

    def teardown(self, scratch: Scratch) -> None:
        store = self._stores.pop((str(scratch.path), os.getpid()), None)
        if (server := self._servers.pop(str(scratch.path), None)) is not None:
            from sinkproof.sink_adapters.memory import memory_server

            call_if_there(store, "close")
            memory_server.stop(server, scratch.path)

    def _store(self, scratch: Scratch) -> MemoryStore:
        key = (str(scratch.path), os.getpid())
        if key not in self._stores:
            self._stores[key] = _new_store(scratch, transaction_timeout=self.expires_after)
        return self._stores[key]

    def sink(self, scratch: Scratch) -> Sink:
        if self.expires_after is not None:
            target = MemoryTransactions(self._store(scratch), transaction_timeout=self.expires_after)
            return TwoPhaseCommitSink(target)
        return MEMORY_SINKS[self.strategy](self._store(scratch))

    second_sink = sink  # names begin with the sink's id

    def committed(self, scratch: Scratch) -> list[Identity]:
        return self._store(scratch).read()

    def committed_rows(self, scratch: Scratch) -> list[Row]:
        return self._store(scratch).read_rows()

    def _seen(self, scratch: Scratch) -> list[Identity]:
        return self._store(scratch).read_changes()

    def _residue(self, scratch: Scratch) -> list[str]:
        return self._store(scratch).residue()

    def _complete(self, scratch: Scratch) -> list[int]:
        return self._store(scratch).revealed()

    def version(self, scratch: Scratch) -> int:
        return self._store(scratch).effects()

    def touched(self, scratch: Scratch) -> int:
        return self._store(scratch).requests()

    def canonical(self, scratch: Scratch, live: str) -> str:
        return self._store(scratch).canonical(live)

    def freeze(self, scratch: Scratch) -> Any:
        return self._store(scratch).freeze()

    def thaw(self, scratch: Scratch, frozen: Any) -> None:
        self._store(scratch).thaw(frozen)


def _new_store(scratch: Scratch, *, transaction_timeout: float | None) -> MemoryStore:
    if scratch.shell == "simulated":
        clock = None if transaction_timeout is None else scratch.clock
        return MemoryStore(clock=clock, transaction_timeout=transaction_timeout)
    from sinkproof.sink_adapters.memory.memory_server import RemoteStore

    return cast(MemoryStore, RemoteStore(scratch.path))  # it has all methods of one


MEMORY_SINKS: Final[dict[str, Callable[[Any], Sink]]] = {
    "two-phase": lambda store: TwoPhaseCommitSink(MemoryTransactions(store)),
    "write-ahead": lambda store: WriteAheadSink(MemoryLog(store), MemoryCommitter(store)),
    "write-ahead-upsert": lambda store: WriteAheadSink(MemoryTable(store), MemoryCommitter(store)),
    "idempotent": lambda store: IdempotentSink(MemoryTable(store)),
    "masked": lambda store: MaskedSink(MemorySegments(store)),
    "plain": lambda store: PlainSink(MemoryLog(store)),
}
