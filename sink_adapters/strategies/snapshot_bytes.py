"""Encodes snapshots as compact JSON: equal bytes for equal content, fast to write, strict to read.

The hot path formats by hand: `json.dumps` costs 2 us a call, and a simulation takes some ten thousand snapshots a
second. Each pending transaction becomes a fragment once; a snapshot only joins the fragments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring_ascii
from typing import Any, Final, TypeVar

import msgspec

from sinkproof.sink_adapters.protocol import Row

Entry = TypeVar("Entry")
EMPTY: Final = b"{}"
quoted: Final = encode_basestring_ascii  # text as JSON, by the C function below json.dumps: 0.1 us
COMPACT: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True, allow_nan=False)


class DamagedState(ValueError):
    """Restored bytes that this strategy did not write. Ignoring them would lose the rows that they promise."""


def decode(state: bytes, *, strategy: str) -> dict[str, Any]:
    try:
        content = _parsed(state)
    except ValueError as error:
        raise DamagedState(f"{strategy}: the restored state is no JSON ({error}): {state[:60]!r}") from error
    if not isinstance(content, dict):
        raise DamagedState(f"{strategy}: the restored state is no JSON object: {state[:60]!r}")
    return content


def _parsed(state: bytes) -> Any:
    """As `json` does, which also takes half of a surrogate pair: text of file names that are no UTF-8 has them."""
    try:
        return msgspec.json.decode(state)
    except msgspec.DecodeError:
        return json.loads(state)


def decode_pending(content: dict[str, Any], entry_from: Callable[..., Entry], *, strategy: str) -> list[Entry]:
    """The pending entries of a strategy; `entry_from` gets the items of each."""
    try:
        return [entry_from(*items) for items in content["pending"]]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedState(f"{strategy}: not a state of this strategy: {content!r:.60}") from error


def encode_value(value: Any) -> str:
    """Bytes, text or anything JSON can hold, as two JSON items, the first its type, for `decode_value`."""
    if isinstance(value, (bytes, bytearray)):
        try:
            return f'"b",{quoted(value.decode())}'
        except UnicodeDecodeError:
            return f'"x","{value.hex()}"'
    try:
        return f'"j",{COMPACT.encode(value)}'
    except (TypeError, ValueError) as error:
        what = f"a value of type {type(value).__name__} cannot be kept in a checkpoint"
        raise TypeError(f"{what}; use bytes, text or what JSON can hold ({error})") from error


def decode_value(kind: str, value: Any) -> Any:
    if kind == "b":
        return value.encode()
    return bytes.fromhex(value) if kind == "x" else value


def encode_rows(rows: Iterable[Row]) -> str:
    """A JSON array of arrays with the fields of Row, in their order."""
    parts = [f"[{split},{offset},{quoted(key)},{quoted(value)},{time}]" for split, offset, key, value, time in rows]
    return f"[{','.join(parts)}]"


def decode_rows(rows: Iterable[Any]) -> tuple[Row, ...]:
    return tuple(map(Row._make, rows))
