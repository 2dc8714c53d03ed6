"""A part of the document: each change of the target in the run of one finding, with its attempt, and what it left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from sinkproof.reports.json_files import Count, promised, says

RowId = Annotated[
    Sequence[int | str], says("the identity of a row: [split, offset]; of an aggregate [key, window]", min_length=1)
]
Rows = Sequence[RowId]
Texts = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChange:
    """What one call of one attempt changed at the target, or where a fault was injected"""

    at: Annotated[float, says("seconds on the shell's clock")]
    place: Annotated[int, says("how many events of the timeline come before it", ge=0)]
    actor: Annotated[str, says("such as sink[0]")]
    generation: Annotated[int, says("of the attempt, from 1", ge=1)]
    call: Annotated[str, says("of the sink, such as notify_complete; empty where it is not known")] = ""
    did: Annotated[Texts, says("each effect, in words; of a fault its kind and its point")] = ()
    appeared: Annotated[Rows, says("rows that a reader sees from then on, one entry per copy")] = ()
    again: Annotated[Rows, says("those of them that the reader had seen before")] = ()
    vanished: Annotated[Rows, says("rows that a reader does not see any more")] = ()
    appeared_total: Annotated[Count | None, says("how many appeared, where `appeared` was cut short")] = None
    again_total: Annotated[Count | None, says("how many were seen again, where `again` was cut short")] = None
    vanished_total: Annotated[Count | None, says("how many vanished, where `vanished` was cut short")] = None
    rows: Annotated[Count, says("how many rows a reader sees after it")] = 0
    struck: Annotated[bool, says("a fault was injected here")] = False
    goes_on: Annotated[bool, says("the attempt was suspended before, and acts again")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSeen:
    """How often a reader saw a row that was lost or superfluous"""

    row: RowId
    sent: Annotated[str, says("key=value, as the source has sent it; empty where it is not known")] = ""
    when_struck: Annotated[Count, promised("how often, when the last fault struck")] = 0
    in_the_end: Annotated[Count, promised("how often, in the end")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecord:
    """What happened at the target in one run"""

    changes: Annotated[Sequence[TargetChange], promised("in order")] = ()
    rows: Annotated[Sequence[RowSeen], promised("some of the lost or superfluous rows")] = ()
    before: Annotated[Texts, promised("files of the target when the last fault struck; empty where it has none")] = ()
    after: Annotated[Texts, promised("the same in the end")] = ()
    rows_before: Annotated[Count, promised("how many rows a reader saw when the last fault struck")] = 0
    rows_after: Annotated[Count, promised("the same in the end")] = 0
    left_out: Annotated[Texts, says("what was not recorded, each in words")] = ()
