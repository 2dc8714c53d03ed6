"""Where a sink's own code tries something a limited number of times, and goes on silently after the last one.

    for _ in range(5):
        if self.compare_and_set(rows):
            return

What has not worked by then is lost, if nothing raises an error there. A run shows it only if it tries so often.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from sinkproof.chaos.points import is_line, line_point
from sinkproof.subject.static_analysis.reachable_lines import MARK
from sinkproof.subject.user_code import FILES_KNOWN_MOST

LEFT_BY: Final = (ast.Return, ast.Break)
BEGINS: Final = "open.before"  # an attempt: what stands before it in a trace was passed by another one
Loops = Mapping[str, frozenset[str]]  # point of the head -> points of the lines inside


def loops_that_give_up(files: Mapping[str, str]) -> Loops:
    """`files`: absolute path -> name in points."""
    return {
        line_point(name, head): frozenset(line_point(name, line) for line in inside)
        for path, name in files.items()
        for head, inside in _loops(Path(path).read_bytes())
    }


def run_out(trace: Iterable[tuple[int, str]], loops: Loops) -> set[str]:
    """Heads of the loops that came to their end in this run. `trace`: (actor, point) in order."""
    last: dict[int, str] = {}  # executed line of each actor
    ended = set()
    for actor, point in trace:
        if point == BEGINS:
            last.pop(actor, None)
        elif is_line(point):
            head = last.get(actor, "")
            if point not in loops.get(head, (point,)):
                ended.add(head)
            last[actor] = point
    return ended


@lru_cache(maxsize=FILES_KNOWN_MOST)
def _loops(source: bytes) -> list[tuple[int, range]]:
    marked = {number for number, line in enumerate(source.splitlines(), 1) if MARK.encode() in line}
    return [
        (loop.lineno, range(loop.body[0].lineno, (loop.end_lineno or loop.lineno) + 1))
        for loop, after in _with_next(ast.parse(source))
        if isinstance(loop, (ast.For, ast.While)) and loop.lineno not in marked and loop.body[0].lineno > loop.lineno
        if _is_limited(loop)
        and not loop.orelse
        and _tries(loop, after=after)
        and not _has(after, ast.Raise, ast.Assert)
    ]


def _with_next(tree: ast.Module) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    """Each statement, and the one that follows it in its block."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield from pairwise([*block, None])


def _is_limited(loop: ast.For | ast.While) -> bool:
    """Whether it counts its turns: by a `range` that picks no items, or up to a limit."""
    if isinstance(loop, ast.While):
        return isinstance(loop.test, ast.Compare) and isinstance(loop.test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
    counts = isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range"
    picked = {ast.unparse(each.slice) for each in ast.walk(loop) if isinstance(each, ast.Subscript)}
    return counts and ast.unparse(loop.target) not in picked and "len(" not in ast.unparse(loop.iter)


def _tries(loop: ast.For | ast.While, *, after: ast.stmt | None) -> bool:
    """Whether it is left in the middle, as soon as something has worked. Where an error decides that, and statements
    follow (`after`: the first one), these may well fail by what is missing.
    """
    deciding = (
        loop.body if after is None else [each for each in ast.walk(loop) if isinstance(each, (ast.If, ast.Match))]
    )
    return any(_has(each, *LEFT_BY) for each in deciding)


def _has(statement: ast.stmt | None, *kinds: type[ast.stmt]) -> bool:
    return statement is not None and any(isinstance(each, kinds) for each in ast.walk(statement))
