"""Where a sink's own code sets an expiry at a server, or goes by its clock: in calls of clients, statements of CQL and
SQL, scripts of Redis, settings of topics and queues; and in files of such statements beside it.

The clocks of servers and databases are not moved, so no run reaches what happens then. Unless a contract says so, it is
not examined.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from pathlib import Path
from typing import Final

from sinkproof.subject.static_analysis.names_in_code import executed_points
from sinkproof.subject.user_code import FILES_KNOWN_MOST

CALLS: Final = frozenset(
    {"expire", "expireat", "pexpire", "pexpireat", "hexpire", "hpexpire", "setex", "psetex", "getex"}
)
ARGUMENTS: Final = frozenset({"ex", "exat", "px", "pxat", "expire", "expireAfterSeconds", "duplicate_window"})
TIMED: Final = frozenset({"set", "add", "replace"})  # of clients of Redis and memcached: the third argument is a time
OF_CLIENT: Final = re.compile("redis|valkey|client|connection|server", re.IGNORECASE)  # in the name of a variable
CLIENTS: Final = re.compile(r"^\s*(?:import|from)\s+\w*(?:redis|valkey|memcache)", re.MULTILINE)
IN_TEXT: Final = re.compile(
    r"(?i:\b(?:USING|AND)\s+TTL\b|\bdefault_time_to_live\s*=\s*[1-9]|\bp?call\(\s*['\"]h?p?(?:expire|setex)"
    r"|\bp?call\(\s*['\"]set['\"][^()]*,\s*['\"][ep]x(?:at)?['\"]|^set\s.*\s[ep]x(?:at)?\s|^[ep]x(?:at)?$)"
    r"|\bp?call\(\s*['\"](?i:time)['\"]"
    r"|^P?(?:EXPIRE(?:AT)?|SETEX|EX(?:AT)?)\b"
)
# `WHERE at < now() - interval '1 hour'`, in statements of SQL.
CLOCK: Final = (
    r"(?:\b(?:now|getdate|sysdate|unix_timestamp|clock_timestamp|statement_timestamp|unixepoch)\s*\("
    r"|\b(?:current_timestamp|sysdate)\b|'now')"
)
BY_CLOCK: Final = re.compile(rf"\bWHERE\b.*(?:[<>]=?[^<>]{{0,60}}?{CLOCK}|{CLOCK}.*[<>])", re.IGNORECASE | re.DOTALL)
RETENTIONS: Final = frozenset({"retention.ms", "x-expires", "x-message-ttl", "MessageRetentionPeriod"})
RETENTION_GIVEN: Final = re.compile(r"\bretention\.ms\s*=\s*[0-9]")  # `kafka-topics.sh --config retention.ms=86400000`
ENDLESS: Final = "-1"
STATEMENTS: Final = (".cql", ".lua", ".sql")
COMMENT: Final = re.compile(r"(?:--|//).*")
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def expiries_in(files: Mapping[str, str], executed: Set[str]) -> list[str]:
    """Points of executed lines. `files`: path -> name in points; `executed`: points."""
    return executed_points(files, executed, lines_in=_places)


def retentions_in(files: Mapping[str, str]) -> list[str]:
    """Settings of topics and queues after which messages are deleted, as places such as `topics.py:3`. They count in
    lines that no attempt executes, too: topics are often made before the job. `files`: path -> name in points.
    """
    return [f"{name}:{line}" for path, name in files.items() for line in _retentions(Path(path).read_bytes())]


@lru_cache(maxsize=FILES_KNOWN_MOST)
def _retentions(source: bytes) -> Sequence[int]:
    return sorted({line for node in ast.walk(ast.parse(source)) for line in _retention_lines(node)})


def _retention_lines(node: ast.AST) -> Iterator[int]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value in RETENTIONS and ast.unparse(value).strip("'\"") != ENDLESS:
                yield key.lineno
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and RETENTION_GIVEN.search(node.value):
        yield node.lineno


def expiries_beside(files: Mapping[str, str]) -> list[str]:
    """Places in files of statements that the code names, such as `marks.sql:3`."""
    code = [Path(path).read_text(errors="replace") for path in files]
    beside = {file for path in files for file in _statements_below(str(Path(path).parent))}
    named = (file for file in sorted(beside) if any(file.name in text or file.stem in text for text in code))
    return [
        f"{file.name}:{number}"
        for file in named
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1)
        if any(pattern.search(COMMENT.sub("", line)) for pattern in (IN_TEXT, BY_CLOCK))
    ]


@lru_cache(maxsize=FILES_KNOWN_MOST)
def _statements_below(folder: str) -> Sequence[Path]:
    """Files of statements, without those in hidden folders. Walked through once: it may hold a whole project."""
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent, name) for name in names if name.endswith(STATEMENTS)]
    return found


@lru_cache(maxsize=FILES_KNOWN_MOST)
def _places(source: bytes) -> Sequence[int]:
    has_client = CLIENTS.search(source.decode(errors="replace")) is not None
    return sorted(set(_lines(ast.parse(source), has_client=has_client)))


def _lines(tree: ast.Module, *, has_client: bool) -> Iterator[int]:
    """Of functions; a text outside of them counts where a function names it."""
    inside = {id(node) for function in ast.walk(tree) if isinstance(function, FUNCTIONS) for node in ast.walk(function)}
    texts = {
        target.id
        for node in ast.walk(tree)
        if id(node) not in inside and isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        if any(map(_is_expiry, ast.walk(node.value)))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        named = getattr(node, "attr", getattr(node, "id", "")) in texts
        if id(node) in inside and (named or _is_expiry(node) or (has_client and _is_timed(node))):
            assert isinstance(node, ast.expr)
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_expiry(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        named = {argument.arg for argument in node.keywords if not _is_nothing(argument.value)}
        of_key = len(node.args) + len(node.keywords) > 1  # and of a time: not `session.expire(row)` of SQLAlchemy
        return (of_key and getattr(node.func, "attr", "") in CALLS) or not ARGUMENTS.isdisjoint(named)
    text = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and any(pattern.search(text) for pattern in (IN_TEXT, BY_CLOCK))


def _is_timed(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr == "time" and not (node.args or node.keywords):  # of the server: not `datetime.now().time()`
        asked = node.func.value
        return OF_CLIENT.search(getattr(asked, "attr", getattr(asked, "id", ""))) is not None
    if node.func.attr not in TIMED:
        return False
    times = [*node.args[2:3], *(argument.value for argument in node.keywords if argument.arg == "time")]
    return not all(map(_is_nothing, times))


def _is_nothing(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value
