"""Whether a name says where to look: folders that can be overseen, and one name for one file and one class."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from .house_rules import PACKAGES, Offences, ProjectOffences, Source, is_product, project_rule, rule
from .import_rules import path_of

MODULES_MOST: Final = 22  # a list that is read at one glance
CROWDED: Final = {  # folders with more modules: why
    "chaos/faults": "one fault kind a file",
    "harness/canaries": "one target and one sin a file",
    "harness/explain": "one row of the semantics a file",
    "reference_engine/shells/spark": "one kind of process a file",
}
REPEATED_FILES: Final = {  # folder: what it makes of a file name that another folder has, too
    "harness/canaries": "sinks that are wrong on purpose, by the strategy or target that they misuse",
    "sink_adapters/strategies": "the strategies themselves",
}
REPEATED_CLASSES: Final[dict[str, str]] = {}  # class: why two files need the name
DOCSTRING_LINES_MOST: Final = 9
PATH: Final = rf"(?<![\w/.{{}}<>-])(?:{'|'.join((*PACKAGES, 'tests'))})/[\w/.]*\w\.(?:py|md|j2|css|js|json|txt)\b"
FILE: Final = r"(?<![\w/])\w+\.py\b"
SAMPLE_PATHS: Final = {"tests/test_mine.py"}  # what a user is shown to write


@project_rule(
    f"Split the folder by the question that its files answer: {MODULES_MOST} modules at most.",
    guilty={f"chaos/m{number}.py": "" for number in range(MODULES_MOST + 1)},
)
def crowded_folder(sources: Sequence[Source]) -> ProjectOffences:
    paths = [PurePosixPath(each.path) for each in sources if is_product(each.path)]
    counts = Counter(str(path.parent) for path in paths if path.name != "__init__.py")
    for folder, count in sorted(counts.items()):
        if count > MODULES_MOST and folder not in CROWDED:
            yield f"{folder}/__init__.py", 1, f"{count} modules"


@project_rule(
    "Name the file for what only this one decides, or name its folder in REPEATED_FILES with the one idea of it.",
    guilty={"chaos/shared/names.py": "", "reports/names.py": ""},
)
def repeated_file_name(sources: Sequence[Source]) -> ProjectOffences:
    homes: dict[str, list[PurePosixPath]] = defaultdict(list)
    for path in (PurePosixPath(each.path) for each in sources if is_product(each.path)):
        homes[path.name].append(path)
    for name, paths in sorted(homes.items()):
        strange = [path for path in paths if str(path.parent) not in REPEATED_FILES]
        if name not in ("__init__.py", "__main__.py") and len(paths) > 1 and strange:
            yield str(strange[0]), 1, f"also {', '.join(str(path) for path in paths if path != strange[0])}"


@project_rule(
    "One word, one meaning: give one of them another name, or list it in REPEATED_CLASSES with the reason.",
    guilty={"chaos/shared/a.py": "class Reader: ...", "reports/b.py": "class Box:\n    class Reader: ..."},
)
def repeated_class_name(sources: Sequence[Source]) -> ProjectOffences:
    homes: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for each in sources:
        for name, line in classes(each.tree) if is_product(each.path) else ():
            homes[name].append((each.path, line))
    for name, places in sorted(homes.items()):
        if len(places) > 1 and name not in REPEATED_CLASSES:
            yield *places[0], f"class {name}, also {', '.join(f'{path}:{line}' for path, line in places[1:])}"


def classes(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Classes by name and line. Not those inside functions, which are local, nor nested ones in small letters, which
    are a contract's attribute: `class make(FileTransactions)` in a canary.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.ClassDef) and not child.name.islower():
            yield child.name, child.lineno
        yield from classes(child)


@rule(
    f"The docstring of a sub-package says in {DOCSTRING_LINES_MOST} lines at most which question it answers, its main"
    " type, and what it may import.",
    guilty='"""Things."""',
    files="[!t]*/__init__.py",
)
def package_docstring(source: Source) -> Offences:
    text = ast.get_docstring(source.tree) or ""
    if source.path == "harness/__init__.py":  # the public names; every import of a part of sinkproof runs it
        return
    if source.path != "chaos/faults/__init__.py" and text.count("\n") + 1 > DOCSTRING_LINES_MOST:
        yield 1, f"{text.count(chr(10)) + 1} lines"
    if not re.search(r"\b([Ii]mports?|[Kk]nows)\b", text):
        yield 1, "does not say what it may import"


@project_rule(
    "The docstring of a sub-package and its DECISIONS.md name files that are in it.",
    guilty={"chaos/shared/__init__.py": '"""The journal (journal.py)."""'},
)
def folder_without_the_file_named(sources: Sequence[Source]) -> ProjectOffences:
    files = {each.path for each in sources}
    for each in sources:
        folder, _, name = each.path.rpartition("/")
        is_docstring = is_product(each.path) and name == "__init__.py"
        text = ast.get_docstring(each.tree) or "" if is_docstring else each.text if name == "DECISIONS.md" else ""
        beside = {path.rpartition("/")[2] for path in files if path.startswith(f"{folder}/")}
        yield from ((each.path, 1, named) for named in re.findall(FILE, text) if named not in beside)


@project_rule(
    "Mend the path: there is no such file.",
    guilty={"chaos/a.py": "# as in chaos/points" + "_of_old.py"},
)
def path_that_leads_nowhere(sources: Sequence[Source]) -> ProjectOffences:
    """Paths from the root in code, comments, documents and messages."""
    files = {each.path for each in sources} | SAMPLE_PATHS
    for each in sources:
        lines = enumerate(each.text.splitlines(), 1)
        paths = [(number, path) for number, line in lines for path in re.findall(PATH, line)]
        yield from ((each.path, number, path) for number, path in paths if path not in files)


@project_rule(
    "Mend the name: a module that is loaded by its name in a text does not exist.",
    guilty={"chaos/a.py": "PRELOAD = ('sinkproof.chaos.points_of_old',)"},
)
def module_name_that_leads_nowhere(sources: Sequence[Source]) -> ProjectOffences:
    """`sinkproof.chaos.points`, `sinkproof.chaos.points:CATALOGUE` or `sinkproof.chaos.points.CATALOGUE` in a text."""
    modules = {re.sub(r"(/__init__)?\.py$", "", each.path) for each in sources}
    for each in sources:
        constants = [node for node in each.nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        named = [node for node in constants if re.fullmatch(r"sinkproof\.[a-z_]\w*(\.\w+)*(:[\w.]+)?", node.value)]
        for node in named:
            path = PurePosixPath(path_of(node.value.partition(":")[0]))
            if str(path) not in modules and (":" in node.value or str(path.parent) not in modules):
                yield each.path, node.lineno, node.value
