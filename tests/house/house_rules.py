"""The house rules. Each one says how to mend what it finds, and has a guilty snippet that proves it can find something.

Where a rule makes some code worse, the code wins: name the file in ALLOWED, with the reason.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from typing import Final

PACKAGES: Final = ("harness", "chaos", "reference_engine", "reports", "sink_adapters")
LAYERS: Final = {  # what a folder may import of ours; the harness composes, and may import everything
    "harness/*": ("sinkproof",),
    "chaos/*": ("sinkproof.chaos",),
    "sink_adapters/*": ("sinkproof.sink_adapters",),
    "reference_engine/*": ("sinkproof.reference_engine", "sinkproof.chaos", "sinkproof.sink_adapters.protocol"),
    "reports/*": ("sinkproof.reports",),
}
LIBRARY_HOMES: Final = {  # the files that may import a foreign library
    "cassandra": ("sink_adapters/cassandra/cassandra_client.py",),
    "click": ("harness/cli*.py",),
    "confluent_kafka": ("reference_engine/kafka*.py", "sink_adapters/kafka*.py"),
    "hypothesis": ("harness/*hypothesis*.py", "harness/strategies.py"),
    **dict.fromkeys(("jinja2", "markupsafe"), ("reports/page.py",)),
    "jsonschema": ("reports/document.py",),
    "numpy": (
        "reference_engine/dataflow/columns.py",
        "reference_engine/shells/spark/python_worker_daemon.py",
        "sink_adapters/column_*.py",
    ),
    "pyarrow": ("reference_engine/*.py", "sink_adapters/*.py", "harness/spark*.py"),
    "pyspark": ("reference_engine/shells/spark/*.py", "harness/spark_*.py", "harness/micro_batch*.py"),
    "pytest": ("harness/pytest_plugin/plugin.py", "harness/pytest_*.py"),
    "toxiproxy": ("chaos/services/toxiproxy/toxic_network.py",),
    **dict.fromkeys(("docker", "testcontainers"), ("chaos/services/container_nodes.py",)),
    "rich": ("reports/terminal.py", "reports/progress.py", "harness/explain/*.py"),
}
ALLOWED: Final = {  # (rule, files): why they may
    ("reads_the_clock", "chaos/clock.py"): "the one place where real time may be asked for",
    ("reads_the_clock", "tests/bench/*"): "it measures",
    ("prints", "harness/cli*.py"): "stdout is its artefact",
    (
        "prints",
        "reference_engine/shells/spark/spark_class_archive.py",
    ): "a line of the installation, for who waits for it",
    ("reads_the_clock", "harness/cli/certify_command.py"): "the name of a run's folder is a date, for people",
    ("positional_default", "harness/subject/scratch.py"): "setting(name, default) reads like dict.get",
    ("draws_from_the_air", "tests/zoo/*"): "strangers' sinks do what strangers do",
    ("prints", "tests/*"): "benchmarks, and commands under test, speak on stdout",
}


@dataclass(frozen=True)
class Source:
    path: str  # from the root, with slashes
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of the tree: twenty rules look at it."""
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]

    @cached_property
    def names(self) -> set[tuple[int, str]]:
        """(line, `time.sleep`) for whatever is taken from a module, however it was imported."""
        homes: dict[str, str] = {}
        found: set[tuple[int, str]] = set()
        for node in self.nodes:
            if isinstance(node, ast.Import):
                homes |= {alias.asname or alias.name: alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                homes |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                found |= {(node.lineno, f"{node.module}.{alias.name}") for alias in node.names}
        for node in self.nodes:
            base, _, rest = ast.unparse(node).partition(".") if isinstance(node, ast.Attribute) else ("", "", "")
            if base in homes:
                found.add((node.lineno, f"{homes[base]}.{rest}"))
        return found


Offences = Iterable[tuple[int, str]]  # (line, what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    find: Callable[[Source], Offences]
    mend: str
    guilty: str
    files: str

    def offences(self, source: Source) -> list[str]:
        name = self.find.__name__
        if not fnmatch(source.path, self.files) or any(
            name == rule and fnmatch(source.path, files) for rule, files in ALLOWED
        ):
            return []
        return [f"{source.path}:{line}: {what}" for line, what in self.find(source)]


RULES: Final[dict[str, Rule]] = {}


def rule(mend: str, *, guilty: str, files: str = "*") -> Callable[[Callable[[Source], Offences]], None]:
    """`guilty`: a text that the rule must convict. `files`: where it holds."""

    def register(find: Callable[[Source], Offences]) -> None:
        RULES[find.__name__] = Rule(find=find, mend=mend, guilty=guilty, files=files)

    return register


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


@rule("Make all but three keyword-only: put * before them.", guilty="def f(self, a, b, c, d): pass", files="[!t]*")
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
    "Wait for a condition, with a Deadline: nobody knows how long is long enough.", guilty="import time\ntime.sleep(1)"
)
def waits_blindly(source: Source) -> Offences:
    return uses(source, r"time\.sleep")


@rule("Take a clock as a parameter, or chaos.clock.now.", guilty="from datetime import datetime\ndatetime.now()")
def reads_the_clock(source: Source) -> Offences:
    return uses(source, r"time\.(time|monotonic|perf_counter)(_ns)?|datetime\.(datetime|date)\.(now|utcnow|today)")


@rule("Take a random.Random(seed) as a parameter; names come from scratch.", guilty="import random\nrandom.choice([1])")
def draws_from_the_air(source: Source) -> Offences:
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
    files="[!t]*",
)
def asserts_a_verdict(source: Source) -> Offences:
    asserts = [node for node in source.nodes if isinstance(node, ast.Assert)]
    return [(node.lineno, ast.unparse(node)) for node in asserts if re.search(r"\bVerdict\.", ast.unparse(node.test))]


@rule(
    "Name the errors that you expect; a border turns the others into UNKNOWN.", guilty="try: x\nexcept Exception: pass"
)
def swallows(source: Source) -> Offences:
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler):
            kind = ast.unparse(node.type) if node.type else "everything"
            broad = re.search(r"\b(Base)?Exception\b|everything", kind)
            if kind == "everything" or (broad and all(map(is_silent, node.body))):
                yield node.lineno, f"swallows {kind}"


def is_silent(step: ast.stmt) -> bool:
    return isinstance(step, ast.Pass | ast.Continue) or (
        isinstance(step, ast.Return) and (step.value is None or isinstance(step.value, ast.Constant))
    )


@rule("Do it, or leave it out and say so to the owner.", guilty="# FIX" + "ME later")
def unfinished(source: Source) -> Offences:
    return matching_lines(source.text, r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


@rule("Name neither a package registry's host nor a path of one machine.", guilty="'/ro" + "ot/x'")
def of_one_machine(source: Source) -> Offences:
    hosts = ("py" + "pi.", "pythonhost" + "ed.", "maven" + ".org", "npm" + "js", "proxy.golang" + ".", "crates" + ".io")
    return matching_lines(
        source.text, "|".join(map(re.escape, hosts)) + r"|(?<![\w.$}])/(work|farm|root)/|\.\./share[d]"
    )


def matching_lines(text: str, pattern: str) -> list[tuple[int, str]]:
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if re.search(pattern, line)]


def imports(source: Source) -> Iterator[tuple[int, str]]:
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


@rule(
    "A lower layer knows nothing of a higher one (ARCHITECTURE.md); hand it in as a parameter. Imports are absolute.",
    guilty="from sinkproof.subject.claims import Claim",
    files="[!t]*",
)
def climbs_a_layer(source: Source) -> Offences:
    lawful = next((names for files, names in LAYERS.items() if fnmatch(source.path, files)), ())
    for line, name in imports(source):
        ours = name.startswith(".") or name.split(".")[0] in ("sinkproof", *PACKAGES)
        if ours and not any(f"{name}.".startswith(f"{prefix}.") for prefix in lawful):
            yield line, f"imports {name}"


@rule(
    "The oracle knows only the ledger and the observation.",
    guilty="from sinkproof.sink_adapters.protocol import Row",
    files="harness/judging/oracle.py",
)
def oracle_knows_too_much(source: Source) -> Offences:
    return [
        (line, name)
        for line, name in imports(source)
        if re.match(r"sinkproof\.(reference_engine|sink_adapters)\b", name)
    ]


@rule("Import it where LIBRARY_HOMES says, or add the file there.", guilty="import rich", files="[!t]*")
def foreign_library(source: Source) -> Offences:
    for line, name in imports(source):
        library = name.split(".")[0]
        lawful = library in ("", "sinkproof", *PACKAGES) or library in sys.stdlib_module_names
        if not lawful and not any(fnmatch(source.path, home) for home in LIBRARY_HOMES.get(library, ())):
            yield line, f"imports {library}"


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
        asked = {name for name in calls & helpers.keys() if not name.startswith("test_")}  # that one asserts for itself
        return any(asserts(helpers[name], seen | {name}) for name in asked - seen)

    tests = [node for node in source.functions if node.name.startswith("test_")]
    return [(node.lineno, node.name) for node in tests if not asserts(node, {node.name})]


@rule("Rows are S01 to S27: @pytest.mark.row('S07').", guilty="@pytest.mark.row('S28')\ndef f(): pass")
def unknown_row(source: Source) -> Offences:
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.row"):
            rows = [ast.unparse(argument).strip("'\"") for argument in node.args] or ["nothing"]
            yield from ((node.lineno, row) for row in rows if not re.fullmatch(r"S(0[1-9]|1\d|2[0-7])", row))
