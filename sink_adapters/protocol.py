"""Defines what the engine sees of one parallel sink subtask, and the values that pass between them.

A sink promises *recoverability* in `snapshot` and *visibility* in `notify_complete`. Between the two its process may be
killed at any instruction, and an `open` that knows only the restored bytes must finish the work.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import pyarrow

LINE_POINTS: Final = "lines_are_points"
Class = TypeVar("Class", bound=type)


def without_line_points(cls: Class) -> Class:
    """Marks a class that is no part of a sink's own code (contracts, disks, external systems, the values below).

    Executed lines of a sink's own classes are points; lines of a marked class are not. The mark holds for this class
    alone, not for its subclasses.
    """
    setattr(cls, LINE_POINTS, False)
    return cls


def lines_are_points(cls: type) -> bool:
    return vars(cls).get(LINE_POINTS) is not False and cls is not Sink  # an attribute of Sink would change isinstance


Identity = tuple[int, int]  # (split, offset) of a row


@without_line_points
class Row(NamedTuple):
    """One row. `(split, offset)` is its identity: unique, and equal after every replay."""

    split: int
    offset: int
    key: str
    value: str
    event_time_ms: int = 0


@cache
def row_schema() -> pyarrow.Schema:
    """The columns of Row: what `Batch.to_arrow` gives, and what a table for `Batch.from_arrow` should have."""
    import pyarrow as pa

    types = (pa.int32(), pa.int64(), pa.string(), pa.string(), pa.int64())
    return pa.schema(list(zip(Row._fields, types, strict=True)))


@without_line_points
class Batch:
    """Rows in order, perhaps none, with two cached views: `rows` (a tuple of Row) and `to_arrow()` (a
    pyarrow.Table). `columnar`: it was made of columns, so that `rows` is the expensive view.
    """

    __slots__ = ("_rows", "_table", "columnar")

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: tuple[Row, ...] | None = tuple(rows)
        self._table: pyarrow.Table | None = None
        self.columnar = False

    @classmethod
    def from_arrow(cls, table: pyarrow.Table) -> Self:
        """A batch over a table with the columns of Row, in that order; rows are made on first use."""
        batch = cls.__new__(cls)
        batch._rows, batch._table, batch.columnar = None, table, True
        return batch

    @property
    def rows(self) -> tuple[Row, ...]:
        if self._rows is None:
            assert self._table is not None
            columns = [column.to_pylist() for column in self._table.columns]
            self._rows = tuple(map(Row._make, zip(*columns, strict=True)))
        return self._rows

    def to_arrow(self) -> pyarrow.Table:
        if self._table is None:
            assert self._rows is not None
            self._table = _table_of(self._rows)
        return self._table

    def __len__(self) -> int:
        return len(self._rows) if self._rows is not None else int(self._table.num_rows)  # type: ignore[union-attr]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)


def _table_of(rows: tuple[Row, ...]) -> pyarrow.Table:
    """From buffers: `pyarrow.array` of a list imports pandas, which costs every new process 170 ms."""
    import pyarrow as pa

    split, offset, key, value, event_time_ms = zip(*rows, strict=True) if rows else ((),) * len(Row._fields)
    count = len(rows)
    numbers = (("i", split), ("q", offset), ("q", event_time_ms))
    buffers: list[Any] = [[None, pa.py_buffer(array(code, column))] for code, column in numbers]
    buffers[2:2] = [_text_buffers(column) for column in (key, value)]
    made = [pa.Array.from_buffers(field.type, count, of) for field, of in zip(row_schema(), buffers, strict=True)]
    return pa.Table.from_arrays(made, schema=row_schema())


def _text_buffers(texts: Iterable[str]) -> list[Any]:
    import pyarrow as pa

    encoded = [text.encode() for text in texts]
    ends = array("i", accumulate(map(len, encoded), initial=0))
    return [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]


@without_line_points
class CommitOutcome(enum.Enum):
    """The outcome of one attempt to commit a transaction. None of the four is an exception."""

    COMMITTED = "committed"  # by this call
    ALREADY = "already"  # by an earlier call, perhaps in a process that no longer exists
    RETRY = "retry"  # not known yet; commit again later
    LOST = "lost"  # no longer possible: the job must fail


@without_line_points
class Fenced(Exception):
    """The target refuses this attempt, because a newer generation has taken over. The attempt ends silently."""


@without_line_points
class TransactionLost(Exception):
    """A pre-committed transaction can no longer be committed. Rows of a complete checkpoint are lost."""


def nothing(point: str) -> None:
    """The `reach` of a context outside any shell."""


@without_line_points
@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What one attempt receives, once, in `open`. Everything else is in the restored bytes or in the target."""

    job_id: str = "job"
    sink_id: str = "sink"
    subtask: int = 0
    parallelism: int = 1
    parallelism_restored: int = 0  # 0: nothing was restored
    generation: int = 1  # the fencing token: greater than that of every earlier attempt of this job
    checkpoint_id_restored: int | None = None
    restored: Sequence[
        tuple[int, bytes]
    ] = ()  # (old subtask, what its snapshot returned), by old subtask; each goes to one new subtask
    subtasks_restored: Sequence[int] = ()  # every old subtask, whichever new subtask got its bytes
    clock: Callable[[], float] = field(default=lambda: 0.0)  # seconds; virtual in simulations
    deadline: float = float("inf")  # seconds on that clock: if anything is unsettled by then, the job fails
    random: Random = field(default_factory=lambda: Random(0))
    reach: Callable[[str], None] = nothing  # called at a point: the harness may inject a fault there

    @property
    def checkpoint_id_covered(self) -> int:
        """The last complete checkpoint when the attempt begins; 0: none."""
        return self.checkpoint_id_restored or 0


@runtime_checkable
class Sink(Protocol):
    """One parallel subtask of a sink. No base class is needed; the last four methods are optional."""

    def open(self, context: Context) -> Iterable[int] | None:
        """First, once per attempt, in a process that knows nothing.

        On return everything of the restored checkpoint and before is committed; what newer attempts wrote and must not
        show is aborted; attempts of earlier generations are fenced. The process may be killed in the middle; a later
        attempt gets the same bytes and a greater generation, any number of times. Returns the checkpoint ids that could
        not be settled yet (None: all are): `settle` is called until they are.
        """

    def write(self, batch: Batch) -> None:
        """Any number of times. Nothing is promised on return: what follows the last complete checkpoint is replayed."""

    def snapshot(self, checkpoint_id: int) -> bytes:
        """Once per checkpoint, ids rising; several may be pending at once.

        After a crash of the whole job, ids continue from the restored checkpoint: the id of a checkpoint that never
        became complete may come again in a newer generation, with other rows. The id of a complete one never does.

        On return every row so far is recoverable from these bytes and the target alone: this *is* the pre-commit. A
        raised error declines the checkpoint and fails the attempt.
        """

    def notify_complete(self, checkpoint_id: int) -> Iterable[int] | None:
        """The checkpoint is complete: its decision is durable. Covers every earlier id, too.

        Any number of times, in any order; may never come, and then the next one, or the next attempt's `open`, has to
        do its work. Returns the checkpoint ids that could not be settled yet (None: all are).
        """

    def notify_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint failed and the job continues: its rows become visible with the next complete checkpoint."""

    def settle(self, now: float) -> Iterable[int] | None:
        """Called by a timer while anything is unsettled; `now` in seconds on the context's clock. Returns as above."""

    def end_of_input(self) -> None:
        """No row follows. Checkpoints continue until one taken after this call is complete and settled."""

    def close(self) -> None:
        """Releases resources, commits nothing, removes nothing that a later attempt may need. May never be called."""


REQUIRED_CALLS = ("open", "write", "snapshot", "notify_complete")
OPTIONAL_CALLS = ("notify_aborted", "settle", "end_of_input", "close")


def left_in_doubt(answer: object) -> list[int]:
    """The checkpoint ids that `open` returned; any other return value counts as none."""
    return [each for each in answer if isinstance(each, int)] if isinstance(answer, (list, tuple, set)) else []


def unsettled_ids(call: str, answer: Any) -> list[int]:
    """The ids that `notify_complete` or `settle` returned. Raises TypeError for anything but checkpoint ids."""
    if not answer:
        return []
    found = list(answer) if isinstance(answer, Iterable) else None
    if found is None or not all(isinstance(each, int) for each in found):
        raise TypeError(f"{call}() returned {answer!r}, not checkpoint ids")
    return list(map(int, found))


def call_if_there(thing: object, name: str, *arguments: Any) -> Any:
    """Calls an optional method of a target."""
    call = getattr(thing, name, None)
    return None if call is None else call(*arguments)
