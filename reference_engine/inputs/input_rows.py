"""Which fields of a record become key, value and time of a row: pure Python, for every format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from difflib import get_close_matches
from typing import Any, Final

from sinkproof.reference_engine.dataflow.replayable_sources import InputError
from sinkproof.sink_adapters.protocol import Row

NAMES_SHOWN: Final = 20
MILLISECONDS: Final = 1000
TIMES: Final = "Write milliseconds since 1970, or a date and time as ISO 8601"


def _text_of_other(value: Any) -> Any:
    """What JSON cannot hold and Parquet can."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return str(value)


COMPACT: Final = json.JSONEncoder(
    separators=(",", ":"), sort_keys=True, ensure_ascii=False, check_circular=False, default=_text_of_other
)
Where = Callable[[int], str]  # offset -> its place in the file, for messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """Names of columns. No `value`: the whole record, as JSON. No `event_time`: 0."""

    key: str
    value: str | None = None
    event_time: str | None = None

    @property
    def names(self) -> list[str]:
        return [name for name in (self.key, self.value, self.event_time) if name is not None]

    def refuse_missing(self, there: Iterable[str], where: str) -> None:
        names = list(there)
        for name in self.names:
            if name not in names:
                raise InputError(f"{where}: no column {name!r}. {_listed(names)}{_meant(name, names)}")

    def row(self, at: tuple[int, int], record: Mapping[str, Any], where: Where) -> Row:
        split, offset = at
        try:
            key, value = record[self.key], record if self.value is None else record[self.value]
            event_time = 0 if self.event_time is None else record[self.event_time]
        except KeyError:
            self.refuse_missing(record, where(offset))
            raise
        if key is None:
            raise InputError(f"{where(offset)}: the key {self.key!r} is null; pick a column that every row has")
        if self.event_time is not None:
            event_time = _milliseconds(event_time, self.event_time, where=lambda: where(offset))
        row = Row(split, offset, text_of(key), text_of(value), event_time)
        if not (row.key.isascii() and row.value.isascii()):
            _refuse_half_letters(row, where)
        return row


def text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool | int | float | dict | list | tuple):
        return COMPACT.encode(value)
    return str(_text_of_other(value))


def _milliseconds(value: Any, name: str, *, where: Callable[[], str]) -> int:
    """Since 1970. A time without a zone is taken for UTC."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return round((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * MILLISECONDS)
        if isinstance(value, date):
            return round(datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp() * MILLISECONDS)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 63:
            return int(value)
    except ValueError as error:
        raise InputError(f"{where()}: the event time {name!r} is {value!r}: {error}. {TIMES}") from error
    raise InputError(f"{where()}: the event time {name!r} is {value!r}. {TIMES}")


def _refuse_half_letters(row: Row, where: Where) -> None:
    try:
        f"{row.key}{row.value}".encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where(row.offset)}: {error.object[error.start]!a} is half of a surrogate pair, no character: mend it"
        ) from error


def _listed(names: list[str]) -> str:
    if not names:
        return "There are none"
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"There are: {', '.join(names[:NAMES_SHOWN])}{more}"


def _meant(name: str, names: list[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f". Did you mean {near[0]!r}?" if near else ""
