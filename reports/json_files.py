"""JSON documents: what a key means, beside its type; values as text with short lines; files replaced atomically."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

LINE_LONGEST: Final = 110  # longer values are split: certificates are read and compared line by line
PROMISED: Final = "promised"
Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


def says(description: str, **limits: Any) -> msgspec.Meta:
    return msgspec.Meta(description=description, **limits)


def promised(description: str, **limits: Any) -> msgspec.Meta:
    """The key is in every document, although its class has a default."""
    return msgspec.Meta(description=description, extra_json_schema={PROMISED: True}, **limits)


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


def json_text(value: Any, *, indent: str = "") -> str:
    """Plain values as text. A row, an event or a cell is one line: a line per number made files of megabytes."""
    line = _line(value)
    if len(line) <= LINE_LONGEST or not isinstance(value, dict | list):
        return line
    inner = f"{indent} "
    if isinstance(value, dict):
        items = [f"{_line(key)}: {json_text(item, indent=inner)}" for key, item in value.items()]
    else:
        items = [json_text(item, indent=inner) for item in value]
    start, end = "{}" if isinstance(value, dict) else "[]"
    return f"{start}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{end}"


def _line(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


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
