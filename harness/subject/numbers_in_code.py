"""Which whole numbers stand in a sink's own code: its chunks, windows and limits may begin to matter there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from types import CodeType


def has_number_between(files: Collection[str], least: int, most: int) -> bool:
    return any(least <= number <= most for path in files for number in numbers_in(path))


@cache
def numbers_in(path: str) -> frozenset[int]:
    """Expressions of numbers alone, such as `5 * 1000` or `1 << 12`, are computed."""
    return frozenset(_numbers(compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)))


def _numbers(constant: object) -> Iterator[int]:
    if isinstance(constant, int):
        yield constant
    parts = constant.co_consts if isinstance(constant, CodeType) else constant
    for part in parts if isinstance(parts, (tuple, frozenset)) else ():
        yield from _numbers(part)
