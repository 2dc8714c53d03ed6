"""Says a change of the target, and what it has left, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sinkproof.reports.number_text import plural

ROWS_NAMED: Final = 4
DEEDS_NAMED: Final = 4  # of one call


def sentence(change: Mapping[str, Any]) -> str:
    """What one call did, and what a reader saw of it."""
    call = f"{change['call']}: " if change["call"] else ""
    goes_on = "goes on: " if change["goes_on"] else ""
    parts = ["; ".join(part for part in (_deeds(change["did"]), *_rows(change)) if part)]
    return goes_on + call + (parts[0] or "nothing")


def _deeds(did: Sequence[str]) -> str:
    more = len(did) - DEEDS_NAMED
    return ", ".join([*did[:DEEDS_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _rows(change: Mapping[str, Any]) -> list[str]:
    again = _sorted(change["again"])
    new = _sorted(change["appeared"])
    for row in again:
        new.remove(row)
    said = (
        (new, ("appears", "appear")),
        (again, ("appears once more", "appear once more")),
        (_sorted(change["vanished"]), ("vanishes", "vanish")),
    )
    return [f"{plural(len(rows), 'row')} {verbs[len(rows) > 1]}: {named(rows)}" for rows, verbs in said if rows]


def _sorted(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return sorted((list(row) for row in rows), key=lambda row: [str(part).zfill(9) for part in row])


def named(rows: Sequence[Sequence[Any]]) -> str:
    shown = [":".join(map(str, row)) for row in rows[:ROWS_NAMED]]
    return ", ".join([*shown, *(["…"] if len(rows) > ROWS_NAMED else [])])


def is_wrong(change: Mapping[str, Any]) -> bool:
    """Rows are there once more, or gone: what no sink may do that keeps its claims."""
    return bool(change["again"] or change["vanished"])


def seen(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """These rows, with key and value, and how often a reader saw them: a line for each group."""
    groups: dict[tuple[int, int], list[str]] = {}
    for each in rows:
        name = f"{':'.join(map(str, each['row']))} {each['sent']}".rstrip()
        groups.setdefault((each["when_struck"], each["in_the_end"]), []).append(name)
    return [
        f"{', '.join(names)}: {_visible(before)} when the fault struck, {_times(after)} in the end"
        for (before, after), names in groups.items()
    ]


def _visible(times: int) -> str:
    return f"visible {_times(times)}" if times else "not visible"


def _times(number: int) -> str:
    return {0: "not", 1: "once", 2: "twice"}.get(number, f"{number} times")
