"""Where a sink's own code reads the wall clock: by `time`, `datetime`, or a class like it of a library."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Final

from sinkproof.subject.static_analysis.names_in_code import executed_points
from sinkproof.subject.user_code import FILES_KNOWN_MOST

OF_TIME: Final = frozenset({"time", "time_ns", "strftime", "gmtime", "localtime", "ctime", "asctime"})
OF_CLASSES: Final = frozenset({"now", "utcnow", "today"})  # of datetime, date, Timestamp


def reads_of_wall_clock(files: Mapping[str, str], executed: Set[str]) -> list[str]:
    """Points of executed lines. `files`: path -> name in points; `executed`: points."""
    return executed_points(files, executed, lines_in=_lines)


@lru_cache(maxsize=FILES_KNOWN_MOST)
def _lines(source: bytes) -> Sequence[int]:
    tree = ast.parse(source)
    names = set(_imported_from_time(tree))
    return sorted({node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _reads(node, names)})


def _imported_from_time(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (each.asname or each.name for each in node.names if each.name in OF_TIME)


def _reads(call: ast.Call, names: Set[str]) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in names
    if not isinstance(function, ast.Attribute):
        return False
    of_time = isinstance(function.value, ast.Name) and function.value.id == "time"
    return function.attr in (OF_TIME if of_time else OF_CLASSES)
