"""Which whole numbers stand in a sink's own code: its chunks, windows and limits may begin to matter there.

They stand in its statements of SQL and defaults of settings, too, and in files of settings beside it.
"""

from __future__ import annotations

import ast
import operator
import re
import tokenize
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from pathlib import Path
from types import CodeType
from typing import Final, TypeGuard

from sinkproof.subject.static_analysis.names_in_code import STATUS, with_programs

CLOCKS: Final = frozenset(
    {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "timestamp", "total_seconds"}
)
DATES: Final = frozenset({"date", "datetime"})
SECOND: Final = 1000  # in milliseconds
SETTINGS: Final = frozenset({".cfg", ".conf", ".env", ".ini", ".json", ".properties", ".sql", ".toml", ".yaml", ".yml"})
CHUNK_LEAST, CHUNK_SIZES_MOST = 2, 2
FACTOR_LEAST, FACTOR_MOST, FACTORS_MOST = 1 << 10, 1 << 46, 4  # no log has 2 ** 47 rows
WITHOUT_DOCSTRINGS: Final = 2
PADDED: Final = re.compile(r"%0(\d{1,2})d|:0>?(\d{1,2})[d}]|\b(?:zfill|rjust)\((\d{1,2})\b")
SETTINGS_LONGEST: Final = 100_000  # bytes: a larger file holds data
SHIFT_MOST: Final = 63
WHOLE: Final = re.compile(r"[1-9][0-9_]*|0[xXbB][0-9a-fA-F_]+")
PACKING: Final = (ast.Add, ast.BitOr)
GROWING_FAST: Final = (ast.LShift, ast.Pow)
COMPUTED: Final[Mapping[type[ast.operator], Callable[..., int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
}
STATUSES_OF_HTTP: Final = frozenset(map(int, HTTPStatus))
PORT, MODE, TIMEOUT = "port", "mode", "timeout"
# Alone, and with signs that group digits: not in utf-16, 1970-01-01, 0.5, 127.0.0.1:8080, port=5432 or a name (v2000).
IN_TEXT: Final = re.compile(r"(?<![\w.:/-])(?<!(?i:port)=)-?\d{1,9}(?:[_,]\d{3}){0,3}(?![\w.:/-])")


def has_number_between(files: Collection[str], least: int, most: int) -> bool:
    """In these files of Python, in programs that they name, or in files of settings that lie beside them."""
    return bool(numbers_between(files, least, most))


def numbers_between(files: Collection[str], least: int, most: int) -> list[int]:
    """Likewise; in falling order."""
    folders = {Path(path).parent for path in files}
    found = frozenset[int]().union(*map(numbers_in, with_programs(files)), *map(numbers_in_settings, folders))
    return sorted((number for number in found if least <= number <= most), reverse=True)


def chunk_sizes(files: Collection[str], most: int, *, few: int = CHUNK_SIZES_MOST) -> list[int]:
    """Numbers that may be the size of a chunk of rows: those that code uses like one, then the largest. Only a few, as
    runs with many chunks are long.
    """
    used = frozenset[int]().union(*map(sizes_of_parts, files))
    return sorted(numbers_between(files, CHUNK_LEAST, most), key=lambda size: size not in used)[:few]


def widths_of_padded_numbers(files: Collection[str]) -> list[int]:
    """Digits that numbers are padded to: `f"{number:05d}"`, `f"{number:05}"`, `"%05d"`, `zfill(5)`."""
    found = (match for path in files for match in PADDED.findall(Path(path).read_text(errors="replace")))
    return sorted({int(digits) for match in found for digits in match if digits})


def factors_in(files: Collection[str], least: int, most: int) -> list[int]:
    """Numbers by which another one may be multiplied, so that there is room for a second one: `split * 10**7 + offset`,
    `split << 32`. In falling order.
    """
    found = {1 << shift for path in files for shift in _shifts_in(path)}
    return sorted(
        {each for each in found if least <= each <= most} | {*numbers_between(files, least, most)}, reverse=True
    )


def factors_apart(files: Collection[str], *, known: Collection[int] = ()) -> list[int]:
    """The largest few, for jobs of which the offsets of two splits are so far apart. `known`: what another job has."""
    return [each for each in factors_in(files, FACTOR_LEAST, FACTOR_MOST) if each not in known][:FACTORS_MOST]


def factors_of_packed(files: Collection[str], least: int, most: int) -> list[int]:
    """What the second of two packed numbers has room for, `checkpoint * 100 + subtask`, `checkpoint << 6 | subtask`."""
    found = frozenset[int]().union(*map(_packed_in, files))
    return [each for each in found if least <= each <= most]


@cache
def _packed_in(path: str) -> frozenset[int]:
    tree = ast.parse(Path(path).read_bytes())
    named = _named_numbers(tree)
    sums = [each for each in ast.walk(tree) if isinstance(each, ast.BinOp) and isinstance(each.op, PACKING)]
    parts = [side for each in sums for side in (each.left, each.right) if isinstance(side, ast.BinOp)]
    sides = [side for part in parts if isinstance(part.op, ast.Mult) for side in (part.left, part.right)]
    sides += [ast.BinOp(ast.Constant(1), ast.LShift(), part.right) for part in parts if _is_shift(part)]
    return frozenset(value for side in sides if (value := _value(side, named)) is not None)


@cache
def _shifts_in(path: str) -> frozenset[int]:
    tree = ast.parse(Path(path).read_bytes())
    named = _named_numbers(tree)
    shifts = (_value(each.right, named) for each in ast.walk(tree) if _is_shift(each))
    return frozenset(each for each in shifts if each is not None and 0 < each < SHIFT_MOST)


def _is_shift(node: ast.AST) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift)


def _named_numbers(tree: ast.AST) -> dict[str, int]:
    """`BITS = 12`, `SIZE = 1 << BITS`, `A, B = 1, 2`: what a name stands for where it comes first."""
    named: dict[str, int] = {}
    for target, given in _assigned(tree):
        value = _value(given, named)
        if isinstance(target, ast.Name) and value is not None:
            named.setdefault(target.id, value)
    return named


def _assigned(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """(target, value) of each assignment; of those of several, one after the other."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            targets, values = (getattr(each, "elts", [each]) for each in (target, node.value))
            yield from zip(targets, values, strict=False)


def _value(node: ast.AST | None, named: Mapping[str, int]) -> int | None:
    """Of an expression of whole numbers and of names for them; None: it is another one, or too large."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            positive = _value(operand, named)
            return None if positive is None else -positive
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return named.get(name)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in COMPUTED:
            parts = [_value(each, named) for each in (left, right)]
            if None in parts or (type(sign) in GROWING_FAST and not 0 <= (parts[1] or 0) <= SHIFT_MOST):
                return None
            return COMPUTED[type(sign)](*parts)
        case _:
            return None


@cache
def numbers_in(path: str) -> frozenset[int]:
    """Expressions of numbers, and of names for them, such as `5 * 1000` or `1 << BITS`, are computed; those in texts
    are found if they stand alone. What can count no rows is left out: milliseconds of a clock, the year of a date, a
    port, a status of HTTP, a timeout, permissions, a docstring.
    """
    tree = _Counting().visit(ast.parse(Path(path).read_bytes(), path))
    named = _named_numbers(tree)
    computed = (_value(each, named) for each in ast.walk(tree) if isinstance(each, ast.BinOp))
    written = _numbers(compile(tree, path, "exec", dont_inherit=True, optimize=WITHOUT_DOCSTRINGS))
    found = frozenset(written) | {abs(each) for each in computed if each is not None}
    return found - _permissions(path)


def _permissions(path: str) -> set[int]:
    """`0o644`: what is written in octal only counts nothing."""
    with tokenize.open(path) as source:
        written = {token.string for token in tokenize.generate_tokens(source.readline) if token.type == tokenize.NUMBER}
    octal = {number for number in written if number[:2].lower() == "0o"}
    return {int(number, 8) for number in octal} - {int(each, 0) for each in written - octal if WHOLE.fullmatch(each)}


@cache
def sizes_of_parts(path: str) -> frozenset[int]:
    """Numbers by which others are divided, that bound a slice, are the step of a range, or compared with a length."""
    tree = ast.parse(Path(path).read_bytes(), path)
    named = _named_numbers(tree)
    found = (_value(part, named) for node in ast.walk(tree) for part in _parts_of(node))
    return frozenset(abs(each) for each in found if each is not None)


def _parts_of(node: ast.AST) -> Sequence[ast.AST | None]:
    match node:
        case ast.BinOp(op=ast.Mod() | ast.FloorDiv() | ast.Div(), right=right):
            return [right]
        case ast.Call(func=ast.Name(id="divmod" | "range" | "islice" | "batched"), args=arguments):
            return arguments[1:]
        case ast.Slice():
            return [node.lower, node.upper, node.step]
        case ast.Compare() if any(_called(each) == "len" for each in (node.left, *node.comparators)):
            return [node.left, *node.comparators]
        case _:
            return []


@cache
def numbers_in_settings(folder: Path) -> frozenset[int]:
    files = [each for each in folder.iterdir() if each.suffix in SETTINGS or each.name in SETTINGS]
    small = (each for each in files if each.is_file() and each.stat().st_size <= SETTINGS_LONGEST)
    return frozenset(number for each in small for number in _in_text(each.read_text(errors="replace")))


def _in_text(text: str) -> Iterator[int]:
    yield from (abs(int(re.sub("[_,]", "", found))) for found in IN_TEXT.findall(text))


class _Counting(ast.NodeTransformer):
    """Puts 0 for what counts nothing: the 1000 of `time.time() * 1000`, the year of `datetime(1970, 1, 1)`, ports, and
    the statuses of HTTP.
    """

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if any(map(_is_status, (node.left, *node.comparators))):
            node.comparators = [_nothing(each) if isinstance(each, ast.Constant) else each for each in node.comparators]
        return node

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        """`(200, 404, 412)`"""
        return _nothing(node) if node.elts and all(map(_is_code_of_http, node.elts)) else self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> ast.AST:
        return _nothing(node) if all(map(_is_code_of_http, node.elts)) else self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, (ast.Mult, ast.Div, ast.FloorDiv)):
            for side, other in (("left", node.right), ("right", node.left)):
                factor = getattr(node, side)
                if isinstance(factor, ast.Constant) and factor.value == SECOND and _called(other) in CLOCKS:
                    setattr(node, side, _nothing(factor))
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        for at, key in enumerate(node.keys):
            if isinstance(key, ast.Constant) and _names_port(str(key.value)):
                node.values[at] = _nothing(node.values[at])
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Constant) and all(map(_is_port, node.targets)):
            node.value = _nothing(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _called(node) in DATES:
            node.args = [_nothing(each) if isinstance(each, ast.Constant) else each for each in node.args]
        for named in node.keywords:
            if named.arg in (PORT, MODE) or _names_timeout(named.arg):
                named.value = _nothing(named.value)
        given = getattr(node.args[0], "value", None) if len(node.args) == 1 else None
        if getattr(node.func, "id", "") == "int" and isinstance(given, float) and given.is_integer():
            return ast.copy_location(ast.Constant(int(given)), node)  # `int(1e6)`
        return node


def _is_status(node: ast.expr) -> bool:
    """`reply.status`, `response.getcode()`, `status`."""
    named = node.func if isinstance(node, ast.Call) else node
    return getattr(named, "attr", getattr(named, "id", "")) in STATUS


def _is_code_of_http(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in STATUSES_OF_HTTP


def _is_port(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and _names_port(target.id)


def _names_port(name: str) -> bool:
    """`port`, `DB_PORT`; but not `export`."""
    return name.lower().split("_")[-1] == PORT


def _called(node: ast.expr) -> str:
    """The last name of what is called, also within `int(...)` or `round(...)`."""
    if not isinstance(node, ast.Call):
        return ""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return _called(node.args[0]) if name in ("int", "round") and node.args else name


def _nothing(instead_of: ast.expr) -> ast.Constant:
    return ast.copy_location(ast.Constant(0), instead_of)


def _names_timeout(argument: str | None) -> bool:
    return argument is not None and argument.endswith(TIMEOUT)


def _numbers(constant: object) -> Iterator[int]:
    if isinstance(constant, int):
        yield abs(constant)  # `[-50:]`
    elif isinstance(constant, str):
        yield from _in_text(constant)
    parts = constant.co_consts if isinstance(constant, CodeType) else constant
    for part in parts if isinstance(parts, (tuple, frozenset)) else ():
        yield from _numbers(part)
