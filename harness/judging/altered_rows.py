"""Was a row altered? Compares the key, the value and the event time that a reader shows with those of the ledger.

A reader gives `(split, offset)` and perhaps more. Only `(split, offset, key, value)` and `(split, offset, key, value,
event_time_ms)`, such as a Row, are compared; of three columns the third may be the key or the value. Readers may give
anything else there (a checkpoint id, a file), so a column counts as a field only if a run without faults shows the
field in it: some rows have what was sent, or all have what was sent with other rows. Then every row must have its own,
in every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sinkproof.sink_adapters.protocol import Row
from sinkproof.workload.ledger import Identity, Ledger

Fields = Mapping[str, int]  # field of a Row -> the column in which a reader shows it
NO_FIELDS: Final[Fields] = {}
PLACES: Final[Fields] = {name: Row._fields.index(name) for name in ("key", "value", "event_time_ms")}
IDENTITY_COLUMNS: Final = 2
TEXTS: Final = ("key", "value")
DIFFERENT_LEAST: Final = 2  # a column that never changes has at most one text in common with the ledger
OTHER: Final = {"key": "value", "value": "key"}
NAMED_MOST: Final = 3
SHOWN_LONGEST: Final = 40
MISSING: Final = object()
NO_RUN: Final = "keys and values were not compared: no run without faults has shown them"
ADVICE: Final = (
    "Let committed(), or a reader command, give (split, offset, key, value), with texts or their UTF-8 bytes"
)


class AlteredRow(NamedTuple):
    identity: Identity
    sent: Row
    fields: tuple[str, ...]  # that differ
    read: tuple[Any, ...]  # their values


def shows_more(rows: Sequence[Any]) -> bool:
    """Whether a reader gives more than identities."""
    return any(_width(row) > IDENTITY_COLUMNS for row in rows)


def fields_shown(ledger: Ledger, identities: Sequence[Identity], rows: Sequence[Any]) -> Fields:
    """The fields that these rows show, of a run without faults."""
    columns = max(map(_width, rows), default=0)
    if columns == IDENTITY_COLUMNS + 1:
        third: list[Fields] = [{name: IDENTITY_COLUMNS} for name in TEXTS]
        return next((place for place in third if _shown(ledger, identities, rows, places=place)), NO_FIELDS)
    places = {name: place for name, place in PLACES.items() if place < columns}
    return _shown(ledger, identities, rows, places=places)


def _shown(ledger: Ledger, identities: Sequence[Identity], rows: Sequence[Any], *, places: Fields) -> Fields:
    sent = [ledger.rows.get(identity) for identity in identities]
    found = {}
    for name, place in places.items():
        wanted = [None if row is None else getattr(row, name) for row in sent]
        equal = {text for text, row in zip(wanted, rows, strict=True) if text and _same(_cell(row, place), text)}
        if not equal:
            equal = _of_other_rows({_text(_cell(row, place)) for row in rows}, {each for each in wanted if each})
        if equal and len(equal) >= min(DIFFERENT_LEAST, len({text for text in wanted if text})):
            found[name] = place
    return found


def _of_other_rows(read: set[Any], sent: set[Any]) -> set[Any]:
    """Each row with the field of another one: nothing but what was sent is in the column."""
    return read if read <= sent else set()


def _text(cell: Any) -> Any:
    try:
        text = bytes(cell).decode() if isinstance(cell, (bytes, bytearray, memoryview)) else cell
        hash(text)
    except (TypeError, ValueError):
        return MISSING
    return text


def doubtful_column(ledger: Ledger, identities: Sequence[Identity], rows: Sequence[Any], *, fields: Fields) -> str:
    """Of a run without faults: why it may be that every row was altered; empty if it is not.

    One of key and value is where it belongs, and a text where the other one belongs never is that.
    """
    missing = [name for name in TEXTS if name not in fields]
    if len(missing) != 1 or fields.get(OTHER[missing[0]]) != PLACES[OTHER[missing[0]]]:
        return ""
    cells = [_cell(row, PLACES[missing[0]]) for row in rows]
    if not all(isinstance(cell, (str, bytes, bytearray)) for cell in cells):
        return ""
    name, sent = missing[0], getattr(ledger.rows.get(identities[0]), missing[0], None)
    return (
        f"committed() gives each {OTHER[name]} as it was sent, and where the {name} belongs a text that never is that, "
        f"such as {_shortened(cells[0])} for {_shortened(sent)}. If it is the {name}, every row is altered; if it is "
        "something else, leave it out of committed()"
    )


def altered_rows(
    ledger: Ledger, identities: Sequence[Identity], rows: Sequence[Any], *, fields: Fields
) -> list[AlteredRow]:
    """The rows of which a field differs from what was sent. A row that was never sent is none of them."""
    found = []
    for identity, row in _perhaps_altered(ledger, identities, rows, fields=fields):
        sent = ledger.rows.get(identity)
        if sent is None:
            continue
        read = [(name, _cell(row, place)) for name, place in fields.items()]
        if wrong := [(name, cell) for name, cell in read if not _same(cell, getattr(sent, name))]:
            names, cells = zip(*wrong, strict=True)
            found.append(AlteredRow(identity, sent, names, cells))
    return found


def _perhaps_altered(
    ledger: Ledger, identities: Sequence[Identity], rows: Sequence[Any], *, fields: Fields
) -> list[tuple[Identity, Any]]:
    """All but the rows that are equal at first sight: thousands of runs have no others."""
    read, sent = itemgetter(*fields.values()), itemgetter(*(PLACES[name] for name in fields))
    every, known = list(zip(identities, rows, strict=True)), ledger.rows
    try:
        return [(at, row) for at, row in every if row is not known.get(at) and read(row) != sent(known[at])]
    except (TypeError, IndexError, KeyError, ValueError):  # a row that was never sent, or that lacks a column
        return every


def _width(row: Any) -> int:
    try:
        return len(row)
    except TypeError:
        return IDENTITY_COLUMNS


def _cell(row: Any, place: int) -> Any:
    try:
        return row[place]
    except (TypeError, IndexError, KeyError):
        return MISSING


def _same(cell: Any, sent: str | int | None) -> bool:
    """Bytes are the UTF-8 of a text."""
    if isinstance(sent, str) and isinstance(cell, (bytes, bytearray, memoryview)):
        return bytes(cell) == sent.encode()
    if sent is None:
        return True  # readers show NULL in many ways
    return isinstance(cell, str if isinstance(sent, str) else (int, float)) and bool(cell == sent)


# -- in words --------------------------------------------------------------------------------------


def described(ledger: Ledger, altered: Sequence[AlteredRow]) -> str:
    """The expected and the found fields of the first rows."""
    first = altered[:NAMED_MOST]
    parts = [f"({row.identity[0]}, {row.identity[1]}) {', '.join(_differences(ledger, row))}" for row in first]
    more = f"; ... {len(altered) - NAMED_MOST} more" if len(altered) > NAMED_MOST else ""
    return f"{len(altered)} rows altered: {'; '.join(parts)}{more}"


def _differences(ledger: Ledger, row: AlteredRow) -> Iterator[str]:
    for name, cell in zip(row.fields, row.read, strict=True):
        others = (other for other, sent in ledger.rows.items() if _same(cell, getattr(sent, name)))
        other = next(others, None) if name == "value" else None
        owner = "" if other is None else f", which is that of ({other[0]}, {other[1]})"
        yield f"{name} {_shortened(getattr(row.sent, name))} is read as {_shortened(cell)}{owner}"


def _shortened(cell: Any) -> str:
    if cell is MISSING:
        return "nothing"
    text = repr(cell)
    if len(text) <= SHOWN_LONGEST:
        return text
    length = f" ({len(cell)} long)" if isinstance(cell, (str, bytes)) else ""
    return f"{text[: SHOWN_LONGEST - 1]}…{length}"


def why_not_compared(rows: Sequence[Any], fields: Fields, *, committed: int) -> str:
    """Of a run without faults, by how many rows it has committed: why keys or values cannot be compared in any run;
    empty if both can.
    """
    if not (missing := [name for name in TEXTS if name not in fields]):
        return ""
    if not committed:
        return "keys and values were not compared: no row was committed"
    why = "committed() gives (split, offset) only"
    if shows_more(rows):
        why = f"without a fault, no row that committed() gives has there the {' or '.join(missing)} that was sent"
    return f"{' and '.join(f'{name}s' for name in missing)} were not compared: {why}. {ADVICE}"
