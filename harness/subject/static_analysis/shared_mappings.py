"""Where a sink's own code maps a file into its memory to write there.

One statement stores any number of bytes in such a file, without a system call: a death in its middle leaves some of
them, and no fault comes there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from functools import lru_cache
from typing import Final

from sinkproof.subject.static_analysis.names_in_code import executed_points
from sinkproof.subject.user_code import FILES_KNOWN_MOST

MAPPINGS: Final = frozenset({"mmap", "memmap", "open_memmap", "create_memory_map"})  # of Python, NumPy and Arrow
MAPS_TO_READ: Final = "memory_map"  # of Arrow, unless it has one of these modes
MODES: Final = frozenset({"r+", "w+", "w", "r+b", "rb+", "wb"})
SHARED: Final = frozenset({"writemap", "shared"})  # arguments of LMDB, and of torch.from_file
OPENING: Final = frozenset({"open", "Environment", "from_file"})
WITHOUT_WRITES: Final = frozenset({"ACCESS_READ", "ACCESS_COPY", "PROT_READ", "MAP_PRIVATE"})
READING: Final = frozenset({"r", "c"})  # modes of NumPy


def shared_mappings_in(files: Mapping[str, str], executed: Set[str]) -> list[str]:
    """Points of executed lines. `files`: path -> name in points; `executed`: points."""
    return executed_points(files, executed, lines_in=_lines_of_mappings)


@lru_cache(maxsize=FILES_KNOWN_MOST)
def _lines_of_mappings(source: bytes) -> tuple[int, ...]:
    return tuple(dict.fromkeys(_lines(ast.parse(source))))


def _lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _maps_to_write(node):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _maps_to_write(call: ast.Call) -> bool:
    given = [*call.args, *(each.value for each in call.keywords)]
    texts = {each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name == MAPS_TO_READ or any(each.arg == "mmap_mode" for each in call.keywords):
        return not texts.isdisjoint(MODES)
    if any(each.arg in SHARED and getattr(each.value, "value", None) is True for each in call.keywords):
        return name in OPENING
    if name not in MAPPINGS:
        return False
    names = {getattr(node, "attr", getattr(node, "id", "")) for each in given for node in ast.walk(each)}
    no_file = bool(call.args) and isinstance(call.args[0], ast.UnaryOp)  # mmap.mmap(-1, size)
    reads = not names.isdisjoint(WITHOUT_WRITES) and "PROT_WRITE" not in names
    return not (no_file or reads or "MAP_PRIVATE" in names or texts & READING)
