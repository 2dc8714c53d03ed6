"""Values as JSON: what it cannot hold as its text, what is short on one line, and files written whole or not at all."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

LINE_LONGEST: Final = 110  # what is longer is taken apart: people read certificates, and compare them line by line


def plain(value: object) -> Any:
    """A value as JSON knows it: parts as objects, sequences as lists, what JSON cannot hold as its text."""
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
    """Plain values as text. A row, an event or a cell is one line: one line for each number made files of megabytes."""
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
    """Writes a file whole or not at all, for a reader at any moment and after a kill or a power cut."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
