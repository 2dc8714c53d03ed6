"""Says a change of the target, and what it has left, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sinkproof.reports.number_text import plural
from sinkproof.reports.report_facts import row_text, rows_total

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
    appeared, again, vanished = (Counter(map(tuple, change[kind])) for kind in ("appeared", "again", "vanished"))
    numbers = {kind: rows_total(change, kind) for kind in ("appeared", "again", "vanished")}
    new = appeared - again
    said = (
        (new, max(new.total(), numbers["appeared"] - numbers["again"]), ("appears", "appear")),
        (again, numbers["again"], ("appears once more", "appear once more")),
        (vanished, numbers["vanished"], ("vanishes", "vanish")),
    )
    return [
        f"{plural(number, 'row')} {verbs[number > 1]}{f': {named(_sorted(rows))}' if rows else ''}"
        for rows, number, verbs in said
        if number > 0
    ]


def _sorted(rows: Counter[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows.elements(), key=lambda row: [str(part).zfill(9) for part in row])


def named(rows: Sequence[Sequence[Any]]) -> str:
    shown = map(row_text, rows[:ROWS_NAMED])
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


def left_out(target: Mapping[str, Any]) -> list[str]:
    return [f"not recorded: {each}" for each in target["left_out"]]


def _visible(times: int) -> str:
    return f"visible {_times(times)}" if times else "not visible"


def _times(number: int) -> str:
    return {0: "not", 1: "once", 2: "twice"}.get(number, f"{number} times")
