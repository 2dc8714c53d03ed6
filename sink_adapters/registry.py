"""The valid pairs of strategy and target: what each claims, the grade expected of it, and a contract to certify it by.

The contracts keep what is outside the sink: the store, the disk, the reader. Files lie under the scratch folder; a
memory store is in this process where everything is simulated, and a process of its own where sinks are processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, partialmethod
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from sinkproof.sink_adapters import readers
from sinkproof.sink_adapters.disk_memory import MemoryDisk
from sinkproof.sink_adapters.disk_real import RealDisk
from sinkproof.sink_adapters.file_formats import JSON_LINES, FileFormat, Identity
from sinkproof.sink_adapters.file_log import FileCommitter, FileLog
from sinkproof.sink_adapters.file_masked import MaskedFiles
from sinkproof.sink_adapters.file_system import Effects, Files
from sinkproof.sink_adapters.files import FileTransactions
from sinkproof.sink_adapters.idempotent import IdempotentSink
from sinkproof.sink_adapters.masked import MaskedSink
from sinkproof.sink_adapters.memory import MemoryCommitter, MemoryLog, MemorySegments, MemoryTable, MemoryTransactions
from sinkproof.sink_adapters.memory_store import MemoryStore
from sinkproof.sink_adapters.plain import PlainSink
from sinkproof.sink_adapters.protocol import Sink
from sinkproof.sink_adapters.two_phase import TwoPhaseCommitSink
from sinkproof.sink_adapters.write_ahead import WriteAheadSink

if TYPE_CHECKING:
    import subprocess

Scratch = Any  # what the harness hands to contracts: name, path, shell, setting(name, default)
ROLL_BYTES: Final = 100  # two rows: certifying needs transactions of several files, of which a part can be committed

EXACTLY: Final = ("EXACTLY_ONCE", "NO_RESIDUE", "ORDER_PER_KEY", "LIVENESS")
WHOLE: Final = ("ATOMIC_CHECKPOINT", "HONEST_MARKERS")
ON_DISK: Final = ("SURVIVES_POWER_LOSS",)
EFFECTIVELY: Final = ("EFFECTIVELY_ONCE", "LIVENESS")
AT_LEAST: Final = ("AT_LEAST_ONCE", "LIVENESS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """What can be promised of one strategy, whatever its target keeps rows in. Names of claims are the harness's."""

    sentence: str
    claims: tuple[str, ...]
    grade: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """`contract()` makes a contract object; each has its own store or disk."""

    name: str
    sentence: str
    claims: tuple[str, ...]
    grade: str
    contract: Callable[[], Any] = field(compare=False)


STRATEGIES: Final[dict[str, Strategy]] = {
    "two-phase": Strategy(
        sentence="rows go into a transaction that is pre-committed with the snapshot and committed when it is complete",
        claims=EXACTLY,
        grade="exactly-once",
    ),
    "write-ahead": Strategy(
        sentence="rows wait in the state and are appended to a log when their checkpoint is complete",
        claims=(*AT_LEAST, "NO_EARLY_ROWS"),
        grade="at-least-once",
    ),
    "write-ahead-upsert": Strategy(
        sentence="rows wait in the state and are upserted by row identity when their checkpoint is complete",
        claims=EFFECTIVELY,
        grade="effectively-once",
    ),
    "idempotent": Strategy(
        sentence="rows are upserted at once, under keys that every replay makes again",
        claims=EFFECTIVELY,
        grade="effectively-once",
    ),
    "masked": Strategy(
        sentence="rows are stored at once, hidden until one atomic marker reveals their checkpoint",
        claims=(*EXACTLY, *WHOLE),
        grade="exactly-once",
    ),
    "plain": Strategy(
        sentence="rows are appended at once: what an exactly-once engine alone gives",
        claims=AT_LEAST,
        grade="at-least-once",
    ),
}


# -- contracts of memory pairs -------------------------------------------------------------------


class MemoryContract:
    """Everything but the sink. `seen` is offered where rows may be met again."""

    marks_points = True  # the adapters name their own steps: file effects need not be looked for
    claims_simulated = WHOLE  # only there somebody looks beside the sinks in every campaign
    shells = ("simulated", "process")

    def __init__(self, strategy: str, *, transaction_timeout: float | None = None) -> None:
        self.strategy, self.expires_after = strategy, transaction_timeout
        self.claims, self.grade = STRATEGIES[strategy].claims, STRATEGIES[strategy].grade
        self._stores: dict[tuple[str, int], Any] = {}  # by scratch and process: connections do not survive a fork
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        if self.grade == "exactly-once":
            self.residue = self._residue
        if self.grade == "effectively-once":
            self.seen = self._seen
        if strategy == "masked":
            self.complete = self._complete

    def setup(self, scratch: Scratch) -> None:
        if scratch.shell != "simulated":
            from sinkproof.sink_adapters import memory_server

            self._servers[str(scratch.path)] = memory_server.start(scratch.path)

    def teardown(self, scratch: Scratch) -> None:
        store = self._stores.pop((str(scratch.path), os.getpid()), None)
        if (server := self._servers.pop(str(scratch.path), None)) is not None:
            from sinkproof.sink_adapters import memory_server

            if store is not None:
                store.close()
            memory_server.stop(server, scratch.path)

    def _store(self, scratch: Scratch) -> Any:
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
        found: list[Identity] = self._store(scratch).read()
        return found

    def _seen(self, scratch: Scratch) -> list[Identity]:
        found: list[Identity] = self._store(scratch).read_changes()
        return found

    def _residue(self, scratch: Scratch) -> list[str]:
        found: list[str] = self._store(scratch).residue()
        return found

    def _complete(self, scratch: Scratch) -> list[int]:
        found: list[int] = self._store(scratch).revealed()
        return found

    def version(self, scratch: Scratch) -> int:
        return int(self._store(scratch).effects())

    def canonical(self, scratch: Scratch, live: str) -> str:
        return str(self._store(scratch).canonical(live))

    def freeze(self, scratch: Scratch) -> Any:
        return self._store(scratch).freeze()

    def thaw(self, scratch: Scratch, frozen: Any) -> None:
        self._store(scratch).thaw(frozen)


def _new_store(scratch: Scratch, *, transaction_timeout: float | None) -> Any:
    if scratch.shell == "simulated":
        clock = None if transaction_timeout is None else scratch.clock
        return MemoryStore(clock=clock, transaction_timeout=transaction_timeout)
    from sinkproof.sink_adapters.memory_server import RemoteStore

    return RemoteStore(scratch.path)


MEMORY_SINKS: Final[dict[str, Callable[[Any], Sink]]] = {
    "two-phase": lambda store: TwoPhaseCommitSink(MemoryTransactions(store)),
    "write-ahead": lambda store: WriteAheadSink(MemoryLog(store), MemoryCommitter(store)),
    "write-ahead-upsert": lambda store: WriteAheadSink(MemoryTable(store), MemoryCommitter(store)),
    "idempotent": lambda store: IdempotentSink(MemoryTable(store)),
    "masked": lambda store: MaskedSink(MemorySegments(store)),
    "plain": lambda store: PlainSink(MemoryLog(store)),
}


# -- contracts of file pairs ---------------------------------------------------------------------


class FilesContract:
    """Everything but the sink.

    `disk`, or the scratch's setting of that name: "real" (under the scratch folder) or "memory" (it can lose power). By
    default files are simulated in memory, and real where sinks are processes.
    """

    marks_points = True
    claims_simulated = (*WHOLE, *ON_DISK)  # only there the disk can lose power

    def __init__(self, strategy: str, *, parquet: bool = False, disk: str = "") -> None:
        self.strategy, self._disk = strategy, disk
        self.claims, self.grade = (*STRATEGIES[strategy].claims, *ON_DISK), STRATEGIES[strategy].grade
        self._parquet = parquet
        if disk == "real":
            self.lose_power = self.lose_bytes = self.lose_names = None
        self._disks: dict[str, Any] = {}
        self._effects: dict[str, Effects] = {}
        self._looks = count()
        if self.grade == "exactly-once":
            self.residue = self._residue
            self.committed_frame = self._committed_frame
        if self.grade == "effectively-once":
            self.seen = self._seen
        if strategy == "masked":
            self.complete = self._complete

    @property
    def _form(self) -> FileFormat:
        if not self._parquet:
            return JSON_LINES
        from sinkproof.sink_adapters.parquet_format import PARQUET

        return PARQUET

    def disk(self, scratch: Scratch) -> Any:
        """What the sinks write to: a RealDisk, or a MemoryDisk, which offers `lose_power()`."""
        if str(scratch.path) not in self._disks:
            by_default = self._disk or ("memory" if scratch.shell == "simulated" else "real")
            in_memory = scratch.setting("disk", by_default) == "memory"
            self._disks[str(scratch.path)] = MemoryDisk() if in_memory else RealDisk(scratch.path)
            self._effects[str(scratch.path)] = Effects()
        return self._disks[str(scratch.path)]

    def sink(self, scratch: Scratch) -> Sink:
        files = Files(self.disk(scratch), effects=self._effects[str(scratch.path)])
        roll_bytes = scratch.setting("roll_bytes", ROLL_BYTES)
        if self.strategy == "two-phase":
            return TwoPhaseCommitSink(FileTransactions(files, form=self._form, roll_bytes=roll_bytes))
        if self.strategy == "masked":
            return MaskedSink(MaskedFiles(files, form=self._form, roll_bytes=roll_bytes))
        log = FileLog(files)
        if self.strategy == "plain":
            return PlainSink(log)
        return IdempotentSink(log) if self.strategy == "idempotent" else WriteAheadSink(log, FileCommitter(files))

    second_sink = sink  # folders and names begin with the sink's id

    def committed(self, scratch: Scratch) -> list[Identity]:
        disk = self.disk(scratch)
        if self.strategy == "two-phase":
            return readers.read_committed(disk, form=self._form)
        if self.strategy == "masked":
            return readers.read_masked(disk, form=self._form)
        return FILE_LOG_READERS[self.strategy](disk)

    def _committed_frame(self, session: Any, scratch: Scratch) -> Any:
        """A Spark DataFrame (split, offset) of what `committed` lists: for millions of rows."""
        paths = readers.committed_paths if self.strategy == "two-phase" else readers.revealed_paths
        files = [str(scratch.path / path) for path in paths(self.disk(scratch))]
        reader = session.read.schema("split INT, offset LONG")
        return reader.parquet(*files) if self._parquet else reader.json(files)

    def _seen(self, scratch: Scratch) -> list[Identity]:
        return readers.read_log(self.disk(scratch))

    def _residue(self, scratch: Scratch) -> list[str]:
        disk = self.disk(scratch)
        return readers.transactions_residue(disk) if self.strategy == "two-phase" else readers.masked_residue(disk)

    def _complete(self, scratch: Scratch) -> list[int]:
        return readers.revealed_checkpoints(self.disk(scratch))

    def version(self, scratch: Scratch) -> int:
        """Where sinks are other processes their effects are not counted here: every look may show something new."""
        if scratch.shell != "simulated":
            return next(self._looks)
        self.disk(scratch)
        return self._effects[str(scratch.path)].count

    def canonical(self, scratch: Scratch, live: str) -> str:
        disk = self.disk(scratch)
        if self.strategy == "two-phase":
            return readers.transactions_text(disk, live, form=self._form)
        if self.strategy == "masked":
            return readers.masked_text(disk, live, form=self._form)
        return readers.log_text(disk, live)

    def _ask(self, what: str, scratch: Scratch) -> Any:
        """Of the disk. Only one in memory, which is what files are simulated on, can lose power."""
        answer = getattr(self.disk(scratch), what)()
        self._effects[str(scratch.path)].count += what.startswith("lose_")
        return answer

    freeze: Any = partialmethod(_ask, "freeze")
    while_powered: Any = partialmethod(_ask, "while_powered")
    lose_power: Any = partialmethod(_ask, "lose_power")
    lose_bytes: Any = partialmethod(_ask, "lose_bytes")
    lose_names: Any = partialmethod(_ask, "lose_names")

    def thaw(self, scratch: Scratch, frozen: Any) -> None:
        self.disk(scratch).thaw(frozen)
        self._effects[str(scratch.path)].count += 1


FILE_LOG_READERS: Final[dict[str, Callable[[Any], list[Identity]]]] = {
    "write-ahead": readers.read_log,
    "write-ahead-upsert": readers.read_folded,
    "idempotent": readers.read_table,
    "plain": readers.read_log,
}


# -- the table -----------------------------------------------------------------------------------


def _pair(target: str, strategy: str, contract: Callable[[], Any]) -> Pair:
    promised = STRATEGIES[strategy.removesuffix("-parquet")]
    return Pair(
        name=f"{target}/{strategy}",
        sentence=promised.sentence,
        claims=promised.claims + (ON_DISK if target == "files" else ()),
        grade=promised.grade,
        contract=contract,
    )


PAIRS: Final[dict[str, Pair]] = {
    pair.name: pair
    for pair in (
        *(_pair("files", strategy, partial(FilesContract, strategy)) for strategy in STRATEGIES),
        *(
            _pair("files", f"{strategy}-parquet", partial(FilesContract, strategy, parquet=True))
            for strategy in ("two-phase", "masked")  # logs are written line by line, which Parquet cannot be
        ),
        *(_pair("memory", strategy, partial(MemoryContract, strategy)) for strategy in STRATEGIES),
    )
}
