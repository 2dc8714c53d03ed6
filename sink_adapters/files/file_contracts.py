"""The contract of the file pairs: the disk, under the scratch folder or in memory, and independent readers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partialmethod
from itertools import count
from typing import Any, Final

from sinkproof.sink_adapters.files import file_readers as readers
from sinkproof.sink_adapters.files.disk_memory import MemoryDisk
from sinkproof.sink_adapters.files.disk_real import RealDisk
from sinkproof.sink_adapters.files.file_system import Files
from sinkproof.sink_adapters.files.file_transactions import FileTransactions
from sinkproof.sink_adapters.files.log_files import FileCommitter, FileLog
from sinkproof.sink_adapters.files.masked_files import MaskedFiles
from sinkproof.sink_adapters.files.row_formats import JSON_LINES, FileFormat
from sinkproof.sink_adapters.protocol import Identity, Row, Sink, without_line_points
from sinkproof.sink_adapters.strategies.idempotent import IdempotentSink
from sinkproof.sink_adapters.strategies.masked import MaskedSink
from sinkproof.sink_adapters.strategies.plain import PlainSink
from sinkproof.sink_adapters.strategies.strategy_claims import ON_DISK, STRATEGIES, WHOLE
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink
from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink

Scratch = Any  # passed by the harness to contracts: name, path, shell, setting(name, default)
ROLL_BYTES: Final = 100  # two rows: so that a transaction has several files and can be committed partly


@without_line_points
class FilesContract:
    """The disk is `disk`, or the scratch's setting of that name: "real" (under the scratch folder) or "memory" (it can
    lose power). By default files are simulated in memory, and real where sinks are processes.
    """

    marks_points = True
    claims_simulated = (*WHOLE, *ON_DISK)  # only there the disk can lose power

    def __init__(self, strategy: str, *, parquet: bool = False, disk: str = "") -> None:
        self.strategy, self._disk = strategy, disk
        self.claims, self.grade = (*STRATEGIES[strategy].claims, *ON_DISK), STRATEGIES[strategy].grade
        self._parquet = parquet
        self.libraries = ("pyarrow.parquet",) if parquet else ()
        if disk == "real":
            self.lose_power = self.lose_bytes = self.lose_names = None
        self._disks: dict[str, Any] = {}
        self._reads = count()
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
        from sinkproof.sink_adapters.files.parquet_format import PARQUET

        return PARQUET

    def disk(self, scratch: Scratch) -> Any:
        """The disk that the sinks write to: a RealDisk, or a MemoryDisk, which offers `lose_power()`."""
        if str(scratch.path) not in self._disks:
            by_default = self._disk or ("memory" if scratch.shell == "simulated" else "real")
            in_memory = scratch.setting("disk", by_default) == "memory"
            self._disks[str(scratch.path)] = MemoryDisk() if in_memory else RealDisk(scratch.path)
        return self._disks[str(scratch.path)]

    def sink(self, scratch: Scratch) -> Sink:
        files = Files(self.disk(scratch))
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

    def committed_rows(self, scratch: Scratch) -> list[Row]:
        disk = self.disk(scratch)
        if self.strategy == "two-phase":
            return readers.committed_rows(disk, form=self._form)
        if self.strategy == "masked":
            return readers.masked_rows(disk, form=self._form)
        return FILE_LOG_ROWS[self.strategy](disk)

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
        """Effects of sinks in other processes are not counted here: every read may show something new."""
        if scratch.shell != "simulated":
            return next(self._reads)
        changes: int = self.disk(scratch).changes
        return changes

    def touched(self, scratch: Scratch) -> tuple[int, int] | None:
        """Only a disk in memory counts reads."""
        reads = getattr(self.disk(scratch), "reads", None)
        return None if reads is None else (self.disk(scratch).changes, reads)

    def canonical(self, scratch: Scratch, live: str) -> str:
        disk = self.disk(scratch)
        if self.strategy == "two-phase":
            return readers.transactions_text(disk, live, form=self._form)
        if self.strategy == "masked":
            return readers.masked_text(disk, live, form=self._form)
        return readers.log_text(disk, live)

    def _call_disk(self, what: str, scratch: Scratch) -> Any:
        """Only a disk in memory, on which files are simulated, can lose power."""
        return getattr(self.disk(scratch), what)()

    freeze: Any = partialmethod(_call_disk, "freeze")
    while_powered: Any = partialmethod(_call_disk, "while_powered")
    lose_power: Any = partialmethod(_call_disk, "lose_power")
    lose_bytes: Any = partialmethod(_call_disk, "lose_bytes")
    lose_names: Any = partialmethod(_call_disk, "lose_names")

    def thaw(self, scratch: Scratch, frozen: Any) -> None:
        self.disk(scratch).thaw(frozen)


FILE_LOG_READERS: Final[dict[str, Callable[[Any], list[Identity]]]] = {
    "write-ahead": readers.read_log,
    "write-ahead-upsert": readers.read_folded,
    "idempotent": readers.read_table,
    "plain": readers.read_log,
}
FILE_LOG_ROWS: Final[dict[str, Callable[[Any], list[Row]]]] = {
    "write-ahead": readers.log_rows,
    "write-ahead-upsert": readers.folded_rows,
    "idempotent": readers.table_rows,
    "plain": readers.log_rows,
}
