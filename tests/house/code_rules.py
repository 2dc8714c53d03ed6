"""How large code may be and what it may do: sizes, parameters, waiting, randomness, exceptions, assertions."""

from __future__ import annotations

import ast
import re

from .house_rules import Offences, Source, rule


@rule("Split by noun: a module has 350 lines at most.", guilty="x = 1\n" * 350)
def long_module(source: Source) -> Offences:
    count = source.text.count("\n") + 1  # with the empty one at the end
    return [(count, f"{count} lines")] if count > 350 else []


@rule("Break it, or move the comment above it: a line has 120 characters at most.", guilty="#" * 121)
def long_line(source: Source) -> Offences:
    lines = enumerate(source.text.splitlines(), 1)
    return [(number, f"{len(line)} characters") for number, line in lines if len(line) > 120]


@rule("A function either chooses or does; split it: 60 lines at most.", guilty="def f():\n" + " x = 1\n" * 60)
def long_function(source: Source) -> Offences:
    sizes = [(node, (node.end_lineno or node.lineno) - node.lineno + 1) for node in source.functions]
    return [(node.lineno, f"{node.name}: {size} lines") for node, size in sizes if size > 60]


@rule(
    "Return early, or give the inner part a name: three levels at most.",
    guilty="def f():\n if a:\n  for b in c:\n   with d:\n    while e: pass",
)
def deep_nesting(source: Source) -> Offences:
    depths = [(node, depth(node)) for node in source.functions]
    return [(node.lineno, f"{node.name}: {levels} levels") for node, levels in depths if levels > 3]


def depth(node: ast.AST) -> int:
    """How deep blocks stand in each other. A function inside begins anew; elif is no depth."""
    blocks = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child.col_offset == node.col_offset
        deepest = max(deepest, depth(child) + (isinstance(child, blocks) and not is_elif))
    return deepest


@rule("Make all but three keyword-only: put * before them.", guilty="def f(self, a, b, c, d): pass", files="[!t]*.py")
def many_positional_parameters(source: Source) -> Offences:
    for node in source.functions:
        names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count > 3:
            yield node.lineno, f"{node.name}: {count} positional parameters"


@rule("What has a default is keyword-only: put * before it.", guilty="def f(a, b=1): pass")
def positional_default(source: Source) -> Offences:
    return [(node.lineno, node.name) for node in source.functions if node.args.defaults]


def uses(source: Source, pattern: str) -> Offences:
    return sorted((line, name) for line, name in source.names if re.fullmatch(pattern, name))


@rule(
    "Wait for a condition, with a Deadline: no fixed time is long enough on every machine.",
    guilty="import time\ntime.sleep(1)",
)
def sleeps(source: Source) -> Offences:
    return uses(source, r"time\.sleep")


@rule("Take a clock as a parameter, or chaos.clock.now.", guilty="from datetime import datetime\ndatetime.now()")
def reads_the_clock(source: Source) -> Offences:
    return uses(source, r"time\.(time|monotonic|perf_counter)(_ns)?|datetime\.(datetime|date)\.(now|utcnow|today)")


@rule("Take a random.Random(seed) as a parameter; names come from scratch.", guilty="import random\nrandom.choice([1])")
def unseeded_randomness(source: Source) -> Offences:
    yield from uses(source, r"random\.(?!Random\b)\w+|uuid\.uuid[14]|os\.urandom|secrets\.\w+")
    for node in source.nodes:
        if isinstance(node, ast.Call) and not node.args and ast.unparse(node.func) in ("Random", "random.Random"):
            yield node.lineno, "Random() without a seed"


@rule("Write a fake that passes the certification of the real one.", guilty="from unittest import mock")
def mocks(source: Source) -> Offences:
    return uses(source, r"unittest\.mock(\..*)?|mock\..*")


@rule("Only the command line writes to stdout: return the text.", guilty="print(1)")
def prints(source: Source) -> Offences:
    calls = (node for node in source.nodes if isinstance(node, ast.Call))
    prints = [node for node in calls if ast.unparse(node.func) == "print"]
    return [(node.lineno, "print") for node in prints if "file" not in [keyword.arg for keyword in node.keywords]]


@rule(
    "An assert is for our own bugs and vanishes under -O: return a Verdict.",
    guilty="assert verdict is Verdict.UPHELD",
    files="[!t]*.py",
)
def asserts_a_verdict(source: Source) -> Offences:
    asserts = [node for node in source.nodes if isinstance(node, ast.Assert)]
    return [(node.lineno, ast.unparse(node)) for node in asserts if re.search(r"\bVerdict\.", ast.unparse(node.test))]


@rule(
    "Name the errors that you expect; a border turns the others into UNKNOWN.", guilty="try: x\nexcept Exception: pass"
)
def ignored_exception(source: Source) -> Offences:
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler):
            kind = ast.unparse(node.type) if node.type else "everything"
            broad = re.search(r"\b(Base)?Exception\b|everything", kind)
            if kind == "everything" or (broad and all(map(is_silent, node.body))):
                yield node.lineno, f"ignores {kind}"


def is_silent(step: ast.stmt) -> bool:
    return isinstance(step, ast.Pass | ast.Continue) or (
        isinstance(step, ast.Return) and (step.value is None or isinstance(step.value, ast.Constant))
    )


@rule("A test that asserts nothing cannot fail.", guilty="def test_x(): f()")
def asserts_nothing(source: Source) -> Offences:
    """A test asserts by itself, by pytest.raises and the like, or through a helper that does."""
    helpers = {node.name: node for node in source.functions}

    def asserts(node: ast.AST, seen: set[str]) -> bool:
        inner = list(ast.walk(node))
        calls = {ast.unparse(step.func).split(".")[-1] for step in inner if isinstance(step, ast.Call)}
        if any(isinstance(step, ast.Assert) for step in inner) or calls & {"raises", "warns", "fail"}:
            return True
        if any(name.startswith(("assert_", "check_", "expect_")) for name in calls):
            return True
        called = {name for name in calls & helpers.keys() if not name.startswith("test_")}  # a test asserts for itself
        return any(asserts(helpers[name], seen | {name}) for name in called - seen)

    tests = [node for node in source.functions if node.name.startswith("test_")]
    return [(node.lineno, node.name) for node in tests if not asserts(node, {node.name})]


@rule("Rows are S01 to S27: @pytest.mark.row('S07').", guilty="@pytest.mark.row('S28')\ndef f(): pass")
def unknown_row(source: Source) -> Offences:
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.row"):
            rows = [ast.unparse(argument).strip("'\"") for argument in node.args] or ["nothing"]
            yield from ((node.lineno, row) for row in rows if not re.fullmatch(r"S(0[1-9]|1\d|2[0-7])", row))
