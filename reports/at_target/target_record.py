"""A part of the document: each change of the target in the run of one finding, with its attempt, and what it left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

RowId = Sequence[int | str]  # (split, offset); for an aggregate what names its row: (key, window)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChange:
    """What one call of one attempt changed, or (`struck`) where a fault was injected. `place`: how many events of the
    timeline come before it. `appeared`: rows that a reader sees from then on; `again`: those of them that it had seen
    before; `vanished`: rows that it does not see any more.
    """

    at: float
    place: int
    actor: str
    generation: int  # from 1
    call: str = ""  # of the sink, such as notify_complete
    did: Sequence[str] = ()
    appeared: Sequence[RowId] = ()
    again: Sequence[RowId] = ()
    vanished: Sequence[RowId] = ()
    rows: int = 0  # that a reader sees after it
    struck: bool = False
    goes_on: bool = False  # a suspended attempt acts again: its first change since then


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSeen:
    """A row that was lost or superfluous: how often a reader saw it when the last fault struck, and in the end."""

    row: RowId
    sent: str = ""  # key=value, as the source has sent it
    when_struck: int = 0
    in_the_end: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecord:
    """`before` and `after`: files of the target when the last fault struck, and in the end; empty where it has none."""

    changes: Sequence[TargetChange] = ()
    rows: Sequence[RowSeen] = ()
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    rows_before: int = 0  # that a reader saw
    rows_after: int = 0
