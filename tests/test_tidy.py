"""The house rules. Each rule says how to mend what it finds, and has a guilty snippet that proves it can find something.

A rule that makes some code worse may be broken: add the file to ALLOWED, with the reason.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = {
    "harness": "sinkproof",
    "chaos": "sinkproof.chaos",
    "reference_engine": "sinkproof.reference_engine",
    "reports": "sinkproof.reports",
    "sink_adapters": "sinkproof.sink_adapters",
}
TOP_LEVEL: Final = {
    *(".ci", ".gitignore", "Makefile", "pyproject.toml", "tests", *PACKAGES),
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"),
}
LAYERS: Final = {  # folder: what it may import of ours, besides itself. The harness composes, and may import everything
    "chaos/*": ("sinkproof.chaos",),
    "sink_adapters/*": ("sinkproof.sink_adapters",),
    "reference_engine/*": ("sinkproof.reference_engine", "sinkproof.chaos", "sinkproof.sink_adapters.protocol"),
    "reports/*": ("sinkproof.reports",),
}
LIBRARY_HOMES: Final = {  # library: the files that may import it
    "click": ("harness/cli*.py",),
    "hypothesis": ("harness/*hypothesis*.py",),
    "jinja2": ("reports/page.py",),
    "jsonschema": ("reports/document.py",),
    "markupsafe": ("reports/page.py",),
    "pyarrow": ("sink_adapters/protocol.py", "sink_adapters/*parquet*.py"),
    "pytest": ("harness/plugin*.py",),
    "rich": ("reports/terminal.py", "reports/progress.py"),
}
ALLOWED: Final = {  # (rule, file): why it may
    ("clock", "chaos/clock.py"): "the one place where real time may be asked for",
}

LINES_PER_MODULE: Final = 350
LINES_PER_FUNCTION: Final = 60
CHARACTERS_PER_LINE: Final = 120
NESTING: Final = 3
POSITIONAL: Final = 3


@dataclass(frozen=True, slots=True)
class Source:
    path: str  # from the root, with slashes
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


Offences = Iterable[tuple[int, str]]  # (line, what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    name: str
    mend: str
    find: Callable[[Source], Offences]
    guilty: str  # a text that the rule must convict
    guilty_path: str = "chaos/guilty.py"
    tests_too: bool = True

    def offences(self, source: Source) -> list[str]:
        if any(self.name == rule and fnmatch(source.path, path) for rule, path in ALLOWED):
            return []
        return [f"{source.path}:{line}: {what}" for line, what in self.find(source)]


def long_module(source: Source) -> Offences:
    count = len(source.text.splitlines())
    return [(count, f"{count} lines")] if count > LINES_PER_MODULE else []


def long_lines(source: Source) -> Offences:
    lines = enumerate(source.text.splitlines(), 1)
    return [(number, f"{len(line)} characters") for number, line in lines if len(line) > CHARACTERS_PER_LINE]


def long_functions(source: Source) -> Offences:
    sizes = [(node, (node.end_lineno or node.lineno) - node.lineno + 1) for node in source.functions()]
    return [(node.lineno, f"{node.name}: {size} lines") for node, size in sizes if size > LINES_PER_FUNCTION]


def nesting(node: ast.AST) -> int:
    """How deep statements with a body of their own stand in each other; a function inside begins anew, elif is no depth."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child.col_offset == node.col_offset
        branches = isinstance(
            child, ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.Match
        )
        deepest = max(deepest, nesting(child) + (branches and not is_elif))
    return deepest


def deep_nesting(source: Source) -> Offences:
    depths = [(node, nesting(node)) for node in source.functions()]
    return [(node.lineno, f"{node.name}: {depth} levels") for node, depth in depths if depth > NESTING]


def many_positional(source: Source) -> Offences:
    for node in source.functions():
        names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count > POSITIONAL:
            yield node.lineno, f"{node.name}: {count} positional parameters"


def positional_defaults(source: Source) -> Offences:
    return [(node.lineno, f"{node.name}") for node in source.functions() if node.args.defaults]


def dotted_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """`module.name` for what is taken from an imported module, whether as `module.name` or by `from module import name`."""
    imported = {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            yield node.lineno, f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.lineno, re.sub(r"^datetime\.datetime\.", "datetime.", ast.unparse(node))


def uses(pattern: str) -> Callable[[Source], Offences]:
    return lambda source: [
        (line, name) for line, name in dotted_names(source.tree) if re.fullmatch(pattern, name) is not None
    ]


def unseeded(source: Source) -> Offences:
    """The shared generator of the module `random`, and names or numbers that come from the operating system."""
    imports_random = re.search(r"^\s*(import random\b|from random import)", source.text, re.MULTILINE) is not None
    pattern = r"uuid\.uuid[14]|os\.urandom|secrets\.\w+" + (r"|random\.(?!Random$)\w+" if imports_random else "")
    yield from uses(pattern)(source)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and not node.args and ast.unparse(node.func) in ("Random", "random.Random"):
            yield node.lineno, "Random() without a seed"


def imports(source: Source) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def wrong_layer(source: Source) -> Offences:
    lawful = next((names for pattern, names in LAYERS.items() if fnmatch(source.path, pattern)), ("sinkproof",))
    for line, name in imports(source):
        ours = name.startswith(".") or name.split(".")[0] in ("sinkproof", *PACKAGES)
        if ours and not any(name == prefix or name.startswith(prefix + ".") for prefix in lawful):
            yield line, f"imports {name}"
        if source.path == "harness/oracle.py" and re.match(r"sinkproof\.(reference_engine|sink_adapters)\b", name):
            yield line, f"imports {name}; the oracle knows only ledger and observation"


def foreign_library(source: Source) -> Offences:
    for line, name in imports(source):
        library = name.split(".")[0]
        if library in ("", "sinkproof", *PACKAGES) or library in sys.stdlib_module_names:
            continue
        if not any(fnmatch(source.path, home) for home in LIBRARY_HOMES.get(library, ())):
            yield line, f"imports {library}"


def prints(source: Source) -> Offences:
    if fnmatch(source.path, "harness/cli*.py"):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node.lineno, "print"


def asserted_verdict(source: Source) -> Offences:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assert) and re.search(r"\b[Vv]erdict", ast.unparse(node.test)):
            yield node.lineno, ast.unparse(node)


def swallowed(source: Source) -> Offences:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        broad = node.type is None or bool(re.search(r"\b(Base)?Exception\b", ast.unparse(node.type)))
        silent = all(isinstance(step, ast.Pass | ast.Continue) or is_constant_return(step) for step in node.body)
        if node.type is None or (broad and silent):
            yield node.lineno, f"except {ast.unparse(node.type) if node.type else ''}".rstrip()


def is_constant_return(step: ast.stmt) -> bool:
    return isinstance(step, ast.Return) and (step.value is None or isinstance(step.value, ast.Constant))


def unfinished(source: Source) -> Offences:
    words = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X{3})\b")
    return [(number, line.strip()) for number, line in enumerate(source.text.splitlines(), 1) if words.search(line)]


def of_one_machine(source: Source) -> Offences:
    registries = "|".join(("py" + r"pi\.", "pythonhost" + "ed", "maven" + r"\.org", "npm" + "js", "proxy.golang" + r"\."))
    words = re.compile(rf"({registries}|crates\.i{'o'})|(?<![\w.])/(work|farm|root)/|\.\./share{'d'}")
    return [(number, line.strip()) for number, line in enumerate(source.text.splitlines(), 1) if words.search(line)]


def asserts_nothing(source: Source) -> Offences:
    """A test asserts by itself, by pytest.raises and the like, or through a helper that does."""
    helpers = {node.name: node for node in source.functions()}

    def asserts(node: ast.AST, seen: frozenset[str]) -> bool:
        inner = list(ast.walk(node))
        calls = {ast.unparse(step.func).split(".")[-1] for step in inner if isinstance(step, ast.Call)}
        if any(isinstance(step, ast.Assert) for step in inner) or calls & {"raises", "warns", "fail"}:
            return True
        if any(name.startswith(("assert_", "check_", "expect_")) for name in calls):
            return True
        return any(asserts(helpers[name], seen | {name}) for name in calls & helpers.keys() - seen)

    tests = [node for node in source.functions() if node.name.startswith("test_")]
    return [(node.lineno, node.name) for node in tests if not asserts(node, frozenset({node.name}))]


def unknown_rows(source: Source) -> Offences:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("pytest.mark.row"):
            ids = [argument.value if isinstance(argument, ast.Constant) else None for argument in node.args]
            wrong = [row for row in ids if re.fullmatch(r"S(0[1-9]|1\d|2[0-7])", str(row)) is None]
            yield from ((node.lineno, f"row {row}") for row in wrong or ([] if ids else ["missing"]))


DEEP: Final = "def f():\n if a:\n  for b in c:\n   with d:\n    while e: pass"
RULES: Final = [
    Rule(name="module", mend=f"Split by noun: a module has {LINES_PER_MODULE} lines at most.",
         find=long_module, guilty="x = 1\n" * 351),
    Rule(name="line", mend=f"A line has {CHARACTERS_PER_LINE} characters at most.",
         find=long_lines, guilty="#" * 121),
]
