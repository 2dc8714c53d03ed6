"""Finds the statements of a sink's own code that its calls can lead to, without executing them.

Names decide: a call leads to the functions and classes of the sink's own files that are named in a function that it
leads to, and to a method when it and its class have both been named. A class inside another one counts as named only
with that one: several contracts of a file may each have a class of one name.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Final

from sinkproof.chaos.lines import executable_lines
from sinkproof.chaos.points import line_point

Function = ast.FunctionDef | ast.AsyncFunctionDef
LEAVING: Final = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)
Place = tuple[str, Function]  # file, function
IMPLICIT: Final = frozenset({"__init__", "__new__", "__post_init__", "__enter__", "__exit__", "__call__"})
TIMEOUT: Final = re.compile("timed?_?out", re.IGNORECASE)
# With a timeout, they say in their results that it is over.
WAITING: Final = ("wait", "wait_for", "join", "flush", "poll")
SECONDS: Final = re.compile(r"timed?_?out|seconds|\bsecs?\b", re.IGNORECASE)  # as one of their arguments
MARK: Final = "pragma: no cover"  # in a comment, as coverage.py spells it
# Attempts call these; the harness itself calls all else of a contract.
CALLED_ON_CONTRACTS: Final = frozenset({"sink", "second_sink"})


class Duty(Enum):
    NORMAL = "runs without an exception"
    EXCEPTIONAL = "handles or raises an exception"
    EXCLUDED = "is marked with `# pragma: no cover`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A simple statement, or the head of a compound one. `point`: its first line; `lines`: points of all its lines."""

    point: str
    lines: frozenset[str]
    duty: Duty


def reachable_statements(
    files: Mapping[str, str], *, sinks: Collection[str], calls: Collection[str], contract: str = ""
) -> list[Statement]:
    """`files`: absolute path -> name in points. `sinks`: names of the classes and functions that the user gives;
    `calls`: methods of theirs that are called; `contract`: the contract's class.
    """
    program = Program()
    for path in files:
        program.add(path, _source(path).tree)
        nodes = ast.walk(_source(path).tree)
        program.assigned |= {
            each.attr for each in nodes if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
        }
    found: dict[tuple[str, int], Statement] = {}
    for path, node in program.follow(sinks=sinks, calls=calls, contract=contract):
        for numbers, duty in _statements(node.body, _source(path), Duty.NORMAL):
            points = [line_point(files[path], number) for number in sorted(numbers)]
            made = Statement(point=points[0], lines=frozenset(points), duty=duty)
            found.setdefault((path, min(numbers)), made)
    return [found[place] for place in sorted(found)]


def statements_that_swallow(files: Mapping[str, str]) -> set[str]:
    """Points of the statements in handlers that raise nothing: what failed is left, or tried again."""
    return {
        line_point(files[path], statement.lineno)
        for path in files
        for handler in ast.walk(_source(path).tree)
        if isinstance(handler, ast.ExceptHandler) and not any(isinstance(each, ast.Raise) for each in ast.walk(handler))
        for statement in ast.walk(handler)
        if isinstance(statement, ast.stmt)
    }


def handles_timeouts(files: Iterable[str]) -> bool:
    """Whether an `except` clause names a timeout, of Python or of a client's library; or the code waits with one by a
    function that returns when it is over, as `asyncio.wait` does.
    """
    nodes = [each for path in files for each in ast.walk(_source(path).tree)]
    handlers = (each.type for each in nodes if isinstance(each, ast.ExceptHandler) and each.type is not None)
    waits = (each for each in nodes if isinstance(each, ast.Call) and ast.unparse(each.func).endswith(WAITING))
    return any(TIMEOUT.search(ast.unparse(each)) for each in handlers) or any(map(_has_limit, waits))


def _has_limit(wait: ast.Call) -> bool:
    """Which is not 0: that one asks, and does not wait."""
    return any(TIMEOUT.fullmatch(keyword.arg or "") for keyword in wait.keywords) or any(
        _is_positive(each) if isinstance(each, ast.Constant) else SECONDS.search(ast.unparse(each))
        for each in wait.args
        if isinstance(each, (ast.Constant, ast.Name, ast.Attribute))
    )


def _is_positive(constant: ast.Constant) -> bool:
    return isinstance(constant.value, (int, float)) and constant.value > 0


def lines_of_handlers(files: Mapping[str, str]) -> set[str]:
    """Points of all lines of `except` clauses, with their heads."""
    return {line_point(files[path], number) for path in files for number in _numbers_in_handlers(path)}


@cache
def _numbers_in_handlers(path: str) -> frozenset[int]:
    return frozenset(
        number
        for handler in ast.walk(_source(path).tree)
        if isinstance(handler, ast.ExceptHandler)
        for number in range(handler.lineno, (handler.end_lineno or handler.lineno) + 1)
    )


def statements_that_suppress(files: Mapping[str, str]) -> set[str]:
    """Points of `with suppress(...)`: they run whether something fails or not."""
    return {
        line_point(files[path], statement.lineno)
        for path in files
        for statement in ast.walk(_source(path).tree)
        if isinstance(statement, (ast.With, ast.AsyncWith))
        if any(isinstance(each.context_expr, ast.Call) and _is_suppress(each.context_expr) for each in statement.items)
    }


def _is_suppress(call: ast.Call) -> bool:
    return ast.unparse(call.func).rpartition(".")[2] == "suppress"


class Program:
    """The functions and classes of all files, by name. A class inside another one is called `Outer.Inner`."""

    def __init__(self) -> None:
        self.functions: dict[str, list[Place]] = defaultdict(list)
        self.methods: dict[str, dict[str, list[Place]]] = {}  # class -> name -> where
        self.classes: dict[str, set[str]] = defaultdict(set)  # last part of a class's name -> such classes
        self.bases: dict[str, list[str]] = defaultdict(list)
        self.values: dict[str, set[str]] = defaultdict(set)  # class or global name -> names in what is assigned there
        self.assigned: set[str] = set()  # attributes

    def add(self, path: str, node: ast.AST, *, owner: str = "") -> None:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.ClassDef):
                name = f"{owner}.{inner.name}" if owner else inner.name
                self.methods.setdefault(name, defaultdict(list))
                self.classes[inner.name].add(name)
                self.bases[name] += [each for base in inner.bases for each in _base_names(base)]
                self.add(path, inner, owner=name)
            elif isinstance(inner, Function):
                place = self.methods[owner][inner.name] if owner else self.functions[inner.name]
                place.append((path, inner))
            elif isinstance(inner, (ast.Assign, ast.AnnAssign)):
                targets = inner.targets if isinstance(inner, ast.Assign) else [inner.target]
                for name in (
                    [owner.rpartition(".")[2]] if owner else {name for target in targets for name in _names(target)}
                ):
                    self.values[name] |= _names(inner.value) if inner.value is not None else set()
            else:
                self.add(path, inner, owner=owner)

    def follow(self, *, sinks: Collection[str], calls: Collection[str], contract: str) -> list[Place]:
        """Every function that the calls lead to. What a contract's class assigns may be another value in a subclass."""
        found: dict[int, Place] = {}
        named, called = {*sinks}, {*IMPLICIT}
        while True:
            while more := {name for each in named for name in self.values.get(each, ())} - named:
                named |= more
            places = [place for name in named for place in self.functions.get(name, ())]
            for name in named - {contract}:
                for cls in self.meant_by(name, named | {contract}):
                    places += self.called_of(cls, {*called, *calls} if name in sinks else called)
            for cls in self.classes.get(contract, ()):
                places += self.called_of(cls, CALLED_ON_CONTRACTS)
            new = {id(place[1]): place for place in places if id(place[1]) not in found}
            if not new:
                return list(found.values())
            found |= new
            statements = [statement for _, node in new.values() for statement in node.body]
            named |= {name for statement in statements for name in _names(statement)}
            called |= {name for statement in statements for name in _called(statement, data=self.assigned)}

    def meant_by(self, name: str, named: Collection[str]) -> Collection[str]:
        """The classes of this name. Of those inside others the one that a class which is named has, or inherits; if
        there is none of these, all.
        """
        every = self.classes.get(name, set())
        if not any("." in each for each in every):
            return every
        known = {cls for each in named for cls in self.classes.get(each, ())}
        nearest = {
            next((f"{outer}.{name}" for outer in self.lineage(cls) if f"{outer}.{name}" in every), "") for cls in known
        }
        return (nearest - {""}) | {each for each in every if "." not in each} or every

    def called_of(self, cls: str, called: Collection[str]) -> Iterator[Place]:
        """The methods that an object of this class has by these names; those that they override if they say `super`."""
        for name in called:
            for owner in self.lineage(cls):
                defined = self.methods[owner].get(name, ())
                yield from defined
                if defined and not any("super" in _names(node) for _, node in defined):
                    break

    def lineage(self, cls: str) -> list[str]:
        """The class and its bases, as far as they are in these files, nearest first."""
        found: dict[str, None] = {}
        work = [cls]
        while work:
            each = work.pop(0)
            if each in self.methods and each not in found:
                found[each] = None
                work = [*(cls for base in self.bases[each] for cls in self._bases_called(base)), *work]
        return list(found)

    def _bases_called(self, name: str) -> Collection[str]:
        """`Outer.Inner` is one class; `Inner` alone may be one of several."""
        return {name} if name in self.methods else self.classes.get(name.rpartition(".")[2], ())


def _base_names(base: ast.expr) -> Collection[str]:
    """`Outer.Inner` as it is written; of what is computed all names."""
    base = base.value if isinstance(base, ast.Subscript) else base
    return [ast.unparse(base)] if isinstance(base, (ast.Name, ast.Attribute)) else _names(base)


def _names(node: ast.AST) -> set[str]:
    """Names and attributes, without those in annotations."""
    found = (getattr(each, "id", getattr(each, "attr", "")) for each in _without_annotations(node))
    return {name for name in found if name}


def _called(node: ast.AST, *, data: Collection[str]) -> set[str]:
    """By which methods are called: attributes, those in `data` where they are called; and variables that are called."""
    nodes = [*_without_annotations(node)]
    called = {id(each.func) for each in nodes if isinstance(each, ast.Call)}
    attributes = {each.attr for each in nodes if isinstance(each, ast.Attribute) and each.attr not in data}
    return attributes | {getattr(each, "id", getattr(each, "attr", "")) for each in nodes if id(each) in called}


def _without_annotations(node: ast.AST) -> Iterator[ast.AST]:
    work = [node]
    while work:
        each = work.pop()
        yield each
        skipped = {id(getattr(each, name, None)) for name in ("annotation", "returns")}
        work += [inner for inner in ast.iter_child_nodes(each) if id(inner) not in skipped]


# -- statements of one function ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Source:
    tree: ast.Module
    executable: frozenset[int]  # lines
    marked: frozenset[int]


@cache
def _source(path: str) -> _Source:
    text = Path(path).read_bytes()
    marked = {number for number, line in enumerate(text.splitlines(), 1) if MARK.encode() in line}
    return _Source(ast.parse(text), frozenset(executable_lines(Path(path))), frozenset(marked))


def _statements(block: Sequence[ast.stmt], source: _Source, duty: Duty) -> Iterator[tuple[set[int], Duty]]:
    """(executable lines, duty) of each."""
    if duty is Duty.NORMAL and _only_raises(block):
        duty = Duty.EXCEPTIONAL
    for statement in block:
        of_this = Duty.EXCEPTIONAL if duty is Duty.NORMAL and isinstance(statement, ast.Raise) else duty
        of_this = Duty.EXCLUDED if statement.lineno in source.marked else of_this
        blocks = list(_blocks(statement, source, of_this))
        inner = {line for part, _ in blocks for each in part for line in _range(each)}
        if own := (set(_range(statement)) & source.executable) - inner - _except_lines(statement):
            yield own, of_this
        for part, of_part in blocks:
            yield from _statements(part, source, of_part)


def _only_raises(block: Sequence[ast.stmt]) -> bool:
    """Whether each way through these statements ends by raising, as that of an abstract method does."""
    return isinstance(block[-1], ast.Raise) and not any(
        isinstance(node, LEAVING) for statement in block for node in ast.walk(statement)
    )


def _range(statement: ast.stmt) -> range:
    return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)


def _except_lines(statement: ast.stmt) -> set[int]:
    """The heads of its `except` clauses."""
    handlers = getattr(statement, "handlers", ())
    return {line for each in handlers for line in range(each.lineno, each.body[0].lineno)}


def _blocks(statement: ast.stmt, source: _Source, duty: Duty) -> Iterator[tuple[Sequence[ast.stmt], Duty]]:
    for name in ("body", "orelse", "finalbody"):
        if block := getattr(statement, name, None):
            yield block, duty
    for case in getattr(statement, "cases", ()):
        yield case.body, duty
    for handler in getattr(statement, "handlers", ()):
        is_excluded = duty is Duty.EXCLUDED or handler.lineno in source.marked
        yield handler.body, Duty.EXCLUDED if is_excluded else Duty.EXCEPTIONAL
