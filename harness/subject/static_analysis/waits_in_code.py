"""For how long a sink's own code waits for others: by the numbers in it that are, or may be, seconds."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from sinkproof.chaos.sqlite_points import WAITS_BY_ITSELF_SECONDS
from sinkproof.subject.static_analysis.names_in_code import with_programs
from sinkproof.subject.static_analysis.numbers_in_code import SECOND, TIMEOUT, numbers_in

# When an attempt was suspended for so long, others give up its locks, or take them by force.
LONG_WAIT_SECONDS: Final = 3.0
WAITS_IN_CODE_MOST, WAITS_BY_NAME_MOST = 10, 30  # seconds: any number, and one that is named as a time limit
WAIT_BY_NAME: Final = re.compile(
    r"(?:(?<!connect_)timeout|deadline|patience|wait)(?:_\w+)?(?:: *\w+)?\W{1,6}(\d+)|get_lock\([^()]*, *(\d+)",
    re.IGNORECASE,
)
CONNECTS: Final = ("sqlite3.connect", "connect")
IMPORTS_SQLITE: Final = re.compile(r"^\s*(?:from|import)\s.*\bsqlite3\b", re.MULTILINE)
BUSY_TIMEOUT: Final = re.compile(r"(?i:busy_timeout)\W{1,4}(\d+)")


def long_wait_seconds(files: Collection[str]) -> float:
    """Longer than this code waits for a lock, by its numbers of seconds or milliseconds, unless that is too long. Where
    it matters, SQLite waits for two seconds instead of more than five: see sqlite_points.py.
    """
    every = with_programs(files)
    by_name = frozenset[int]().union(*map(_waits_by_name, every))
    numbers = {number for number in _seconds(by_name) if number <= WAITS_BY_NAME_MOST}
    any_numbers = frozenset[int]().union(*map(numbers_in, every))
    numbers |= {number for number in _seconds(any_numbers) if number <= WAITS_IN_CODE_MOST}
    return max([LONG_WAIT_SECONDS, *(1.0 + number for number in numbers)])


def _seconds(numbers: Collection[int]) -> set[int]:
    """Of numbers that may be milliseconds."""
    return {*numbers, *(number // SECOND for number in numbers if number % SECOND == 0)}


@cache
def _waits_by_name(path: str) -> frozenset[int]:
    """`LOCK_TIMEOUT = 15`, `wait(15)`, `SET lock_timeout = '15s'`, `GET_LOCK('name', 15)`; `8.0`, which is mostly
    seconds.
    """
    text = _without_waits_of_sqlite(Path(path).read_text(errors="replace"))
    found = {int(number) for numbers in WAIT_BY_NAME.findall(text) for number in numbers if number}
    values = (getattr(each, "value", None) for each in ast.walk(ast.parse(text, path)))
    return frozenset(found | {int(value) for value in values if isinstance(value, float) and value.is_integer()})


def _without_waits_of_sqlite(text: str) -> str:
    """With 0 in the place of those that are longer than SQLite waits by itself."""
    if not IMPORTS_SQLITE.search(text):
        return text
    lines = text.encode().splitlines(keepends=True)
    for number in sorted(_waits_of_sqlite(ast.parse(text)), key=lambda each: (each.lineno, -each.col_offset)):
        at, line = number.lineno - 1, lines[number.lineno - 1]
        lines[at] = line[: number.col_offset] + b"0" + line[number.end_col_offset :]
    return BUSY_TIMEOUT.sub(_without_long_wait, b"".join(lines).decode())


def _without_long_wait(pragma: re.Match[str]) -> str:
    return "" if int(pragma[1]) > SECOND * WAITS_BY_ITSELF_SECONDS else pragma[0]


def _waits_of_sqlite(tree: ast.Module) -> Iterator[ast.Constant]:
    """`sqlite3.connect(file, timeout=30)`, and `WAIT` in `timeout=WAIT`, if nothing else uses that name."""
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and ast.unparse(each.func) in CONNECTS]
    waits = [given.value for call in calls for given in call.keywords if given.arg == TIMEOUT]
    names = [each.id for each in waits if isinstance(each, ast.Name)]
    used = [each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)]
    for each in ast.walk(tree):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            name = each.targets[0].id
            waits += [each.value] if name in names and used.count(name) == names.count(name) else []
    constants = (each for each in waits if isinstance(each, ast.Constant))
    return (each for each in constants if isinstance(each.value, (int, float)) and each.value > WAITS_BY_ITSELF_SECONDS)
