"""What the engine sees of one parallel sink subtask, and the values that pass between them.

The one idea: a sink promises *recoverability* in `snapshot` and *visibility* in `notify_complete`; between the two its
process may die at any instruction, and an `open` that knows nothing but the restored bytes must finish the work.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow


class Row(NamedTuple):
    """One row. `(split, offset)` is its identity: unique, and the same again after every replay."""

    split: int
    offset: int
    key: str
    value: str
    event_time_ms: int = 0


class Batch:
    """Rows in order, at least one, with two cached views: `rows` (a tuple of Row) and `to_arrow()` (a
    pyarrow.Table).
    """

    __slots__ = ("_rows", "_table")

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: tuple[Row, ...] | None = tuple(rows)
        self._table: pyarrow.Table | None = None

    @classmethod
    def from_arrow(cls, table: pyarrow.Table) -> Batch:
        """A batch over a table with the columns of Row, in that order; rows are made only when somebody asks."""
        batch = cls.__new__(cls)
        batch._rows, batch._table = None, table
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
            import pyarrow

            assert self._rows is not None
            columns = [list(column) for column in zip(*self._rows, strict=True)]
            self._table = pyarrow.table(dict(zip(Row._fields, columns, strict=True)))
        return self._table

    def __len__(self) -> int:
        return len(self._rows) if self._rows is not None else int(self._table.num_rows)  # type: ignore[union-attr]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)


class CommitOutcome(enum.Enum):
    """What one attempt to commit a transaction led to. There is no fifth way, and none of the four is an exception."""

    COMMITTED = "committed"  # by this call
    ALREADY = "already"  # by an earlier call, perhaps of a process that died since
    RETRY = "retry"  # not known yet; ask again later
    LOST = "lost"  # never possible any more: the job must fail, loudly


class Fenced(Exception):
    """The target refuses this attempt, because a newer generation has taken over. The attempt ends; nobody is told."""


class TransactionLost(Exception):
    """A pre-committed transaction can never be committed any more. Rows of a complete checkpoint are gone."""


def nothing(point: str) -> None:
    """The `reach` of a context outside any shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What one attempt is told, once, in `open`. Everything else it must find in the restored bytes or the target."""

    job_id: str = "job"
    sink_id: str = "sink"
    subtask: int = 0
    parallelism: int = 1
    parallelism_restored: int = 0  # 0: nothing was restored
    generation: int = 1  # the fencing token: greater than that of every earlier attempt of this job, for ever
    checkpoint_id_restored: int | None = None
    restored: Sequence[
        tuple[int, bytes]
    ] = ()  # (old subtask, what its snapshot returned); each goes to one new subtask
    subtasks_restored: Sequence[int] = ()  # every old subtask there was, whoever got its bytes
    clock: Callable[[], float] = field(default=lambda: 0.0)  # seconds; virtual in simulations
    deadline: float = float("inf")  # seconds on that clock: what is unsettled by then fails the job
    random: Random = field(default_factory=lambda: Random(0))
    reach: Callable[[str], None] = nothing  # "I am here": a place where the harness may stop this process


@runtime_checkable
class Sink(Protocol):
    """One parallel subtask of a sink. No base class is needed; the last four may be missing altogether."""

    def open(self, context: Context) -> None:
        """First, once per attempt, in a process that knows nothing.

        On return everything of the restored checkpoint and before is committed, or in doubt and being settled; what
        newer attempts wrote and must not show is aborted; attempts of earlier generations are fenced. May be killed
        half way and called again, with the same bytes and a greater generation, any number of times.
        """

    def write(self, batch: Batch) -> None:
        """Any number of times. Nothing is promised on return: what follows the last complete checkpoint is replayed."""

    def snapshot(self, checkpoint_id: int) -> bytes:
        """Once per checkpoint, ids rising; several may be pending at once.

        After a crash of the whole job ids go on from the restored checkpoint: one that was never complete may come
        again in a newer generation, with other rows. One that was complete never does.

        On return every row so far is recoverable from these bytes and the target alone: this *is* the pre-commit. A
        raised error declines the checkpoint and fails the attempt.
        """

    def notify_complete(self, checkpoint_id: int) -> Iterable[int] | None:
        """The checkpoint is complete: its decision is durable. Covers every earlier id, too.

        Any number of times, in any order; may never come, and then the next one, or the next attempt's `open`, has to
        do its work. Returns the checkpoint ids that could not be settled yet (None: all are).
        """

    def notify_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint failed and the job goes on: its rows become visible with the next complete checkpoint."""

    def settle(self, now: float) -> Iterable[int] | None:
        """Called by a timer while anything is unsettled; `now` in seconds on the context's clock. Returns as above."""

    def end_of_input(self) -> None:
        """No row follows. Checkpoints go on, until one taken after this is complete and settled."""

    def close(self) -> None:
        """Releases resources, commits nothing, removes nothing that a later attempt may need. May never be called."""


REQUIRED_CALLS = ("open", "write", "snapshot", "notify_complete")
OPTIONAL_CALLS = ("notify_aborted", "settle", "end_of_input", "close")


def missing_calls(sink: Any) -> list[str]:
    """The required calls that this object lacks."""
    return [name for name in REQUIRED_CALLS if not callable(getattr(sink, name, None))]
