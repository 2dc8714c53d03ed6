"""What a house rule is, and where exceptions are listed.

A rule says how to mend an offence, and has a guilty snippet that proves that it can find one. A file rule reads one
file at a time, a project rule all of them together. The rules are in code_rules.py (sizes and habits), import_rules.py
(layers, libraries, circles), name_rules.py (files, folders, classes) and word_rules.py (prose); test_tidy.py runs them.

Where a rule makes some code worse, the code wins: name the file in ALLOWED, with the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from typing import Final

PACKAGES: Final = ("harness", "chaos", "reference_engine", "reports", "sink_adapters")
ALLOWED: Final = {  # (rule, files): why they may
    ("reads_the_clock", "chaos/clock.py"): "the one place that may read real time",
    ("reads_the_clock", "chaos/*_clock.py"): "they move the wall clock",
    ("reads_the_clock", "tests/chaos/test_wall_clock.py"): "it was moved",
    ("reads_the_clock", "tests/bench/*"): "benchmarks measure time",
    ("reads_the_clock", "harness/cli/certify_command.py"): "the name of a run's folder is a date",
    ("prints", "harness/cli/*"): "stdout is the artefact of a command",
    ("prints", "reference_engine/shells/spark/spark_class_archive.py"): "a line of progress during the installation",
    ("prints", "tests/*"): "benchmarks, and commands under test, write to stdout",
    ("path_that_leads_nowhere", "tests/house/*_rules.py"): "guilty snippets",
    ("path_that_leads_nowhere", "reports/examples/*"): "samples of an earlier run",
    ("positional_default", "harness/subject/scratch.py"): "setting(name, default) reads like dict.get",
    ("unseeded_randomness", "reference_engine/shells/spark/peer_authentication.py"): "secrets must not be guessed",
    ("unseeded_randomness", "chaos/services/spark_cluster/standalone_spark.py"): "as above",
    ("unseeded_randomness", "tests/zoo/*"): "the zoo imitates sinks of users, which draw random names",
}


@dataclass(frozen=True)
class Source:
    path: str  # from the root, with slashes
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree, kept because thirty rules read it."""
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]

    @cached_property
    def names(self) -> set[tuple[int, str]]:
        """(line, `time.sleep`) for each name that is taken from a module, however it was imported."""
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


def source(path: str, text: str) -> Source:
    return Source(path, text, ast.parse(text if path.endswith(".py") else ""))


Offences = Iterable[tuple[int, str]]  # (line, what)
ProjectOffences = Iterable[tuple[str, int, str]]  # (path, line, what)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRule:
    find: Callable[[Source], Offences]
    mend: str
    guilty: str
    files: str

    def offences(self, sources: Sequence[Source]) -> list[str]:
        name = self.find.__name__
        judged = [each for each in sources if fnmatch(each.path, self.files) and not is_allowed(name, each.path)]
        return [f"{each.path}:{line}: {what}" for each in judged for line, what in self.find(each)]

    def convicts_the_guilty(self) -> bool:
        path = "chaos/guilty.md" if self.files.endswith(".md") else "chaos/guilty.py"
        return any(True for _ in self.find(source(path, self.guilty)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRule:
    find: Callable[[Sequence[Source]], ProjectOffences]
    mend: str
    guilty: dict[str, str]  # path: text

    def offences(self, sources: Sequence[Source]) -> list[str]:
        name = self.find.__name__
        return [f"{path}:{line}: {what}" for path, line, what in self.find(sources) if not is_allowed(name, path)]

    def convicts_the_guilty(self) -> bool:
        return any(True for _ in self.find([source(path, text) for path, text in self.guilty.items()]))


def is_allowed(name: str, path: str) -> bool:
    return any(name == rule and fnmatch(path, files) for rule, files in ALLOWED)


RULES: Final[dict[str, FileRule | ProjectRule]] = {}


def rule(mend: str, *, guilty: str, files: str = "*.py") -> Callable[[Callable[[Source], Offences]], None]:
    """`guilty`: a text in which the rule must find an offence. `files`: where it holds."""

    def register(find: Callable[[Source], Offences]) -> None:
        RULES[find.__name__] = FileRule(find=find, mend=mend, guilty=guilty, files=files)

    return register


def project_rule(
    mend: str, *, guilty: dict[str, str]
) -> Callable[[Callable[[Sequence[Source]], ProjectOffences]], None]:
    """`guilty`: files by path among which the rule must find an offence."""

    def register(find: Callable[[Sequence[Source]], ProjectOffences]) -> None:
        RULES[find.__name__] = ProjectRule(find=find, mend=mend, guilty=guilty)

    return register


def is_product(path: str) -> bool:
    return path.endswith(".py") and path.split("/")[0] in PACKAGES


def matching_lines(text: str, pattern: str) -> list[tuple[int, str]]:
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if re.search(pattern, line)]
