"""Turns values into JSON text with short values on one line, and replaces files atomically."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

LINE_LONGEST: Final = 110  # longer values are split: certificates are read and compared line by line


def plain(value: object) -> Any:
    """A value as JSON types: dataclasses as objects, sequences as lists, anything else as its text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")  # names of files may hold lone surrogates
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=repr)
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return plain(str(value))


def revived(kind: Any, value: Any) -> Any:
    """The opposite of `plain`, for types made of dataclasses, sequences, sets and mappings. Raises TypeError or
    LookupError for values that do not fit.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: revived(hints[name], each) for name, each in value.items()})
    parts, origin = get_args(kind), get_origin(kind)
    if origin is UnionType:
        return value if value is None or NoneType not in parts else revived(parts[0], value)
    if origin is tuple:
        of_each = parts[:1] * len(value) if parts[1:] == (...,) else parts
        return tuple(revived(of, each) for of, each in zip(of_each, value, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {key: revived(parts[1], each) for key, each in value.items()}
    if origin is not None and issubclass(origin, frozenset | Sequence):
        return (frozenset if origin is frozenset else list)(revived(parts[0], each) for each in value)
    return value


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def json_text(value: Any, *, indent: str = "") -> str:
    """Plain values as text. A row, an event or a cell is one line: a line per number made files of megabytes."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if len(line) <= LINE_LONGEST or not isinstance(value, dict | list):
        return line
    inner = f"{indent} "
    if isinstance(value, dict):
        items = [
            f"{json.dumps(key, ensure_ascii=False)}: {json_text(item, indent=inner)}" for key, item in value.items()
        ]
    else:
        items = [json_text(item, indent=inner) for item in value]
    start, end = "{}" if isinstance(value, dict) else "[]"
    return f"{start}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{end}"


def replace_file(path: Path, text: str) -> None:
    """Replaces a file atomically and durably: a reader, or a run after a kill or power loss, finds it old or new."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
