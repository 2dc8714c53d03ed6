"""Finds the files of a user's own code: from classes and functions along their imports.

Imports inside functions count, executed or not. What lies in no `site-packages` is a user's own; of what is installed,
the distribution that the sink's class came with. The standard library is never part of it.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.standard_library import INSTALLED, is_installed, is_library, is_standard

STANDARD_WITH_CLOCK: Final = frozenset({"sqlite3"})  # of its own, in the standard library
OURS: Final = "sinkproof"
FILES_KNOWN_MOST: Final = 1000  # what is found in them is kept, by their text
Allowed = Callable[[Path], bool]
Files = dict[Path, str]  # file -> name of its module


def source_of(name: str) -> Path | None:
    """The Python file of a module, which need not be loaded; None if there is none."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None) if module is not None else _origin(name)
    return Path(file) if file is not None and file.endswith(".py") else None


def _origin(name: str) -> str | None:
    """Executes nothing, whereas `importlib.util.find_spec` imports the packages that a name lies in."""
    first, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(first)
        for end in range(2, len(rest) + 2):
            if spec is None or spec.submodule_search_locations is None:
                return None
            spec = PathFinder.find_spec(".".join(name.split(".")[:end]), list(spec.submodule_search_locations))
    except (ImportError, ValueError, AttributeError, KeyError):  # the last: a namespace in a package that is not loaded
        return None
    return None if spec is None else spec.origin


def user_code(roots: Iterable[Any], *, held: Iterable[type] = (), imported: Sequence[str] = ()) -> Files:
    """`roots`: classes and functions that the user has given; `held`: classes of what they hold; `imported`: modules
    that other processes have loaded.
    """
    starts: list[tuple[str, Path]] = []
    allowed_too: set[Path] = set()
    single: Files = {}
    for root in roots:
        for place, owner in enumerate(getattr(root, "__mro__", (root,))):
            name = getattr(owner, "__module__", None) or ""
            file = _own_file(name)
            if file is None:
                continue
            if is_installed(file) and place:
                single[file] = name  # a base class from another distribution: its package is not the user's
                continue
            starts.append((name, file))
            if is_installed(file):
                allowed_too |= distribution_files(name, file)
    for cls in held:
        file = _own_file(cls.__module__)
        if file is not None and not is_installed(file):
            starts.append((cls.__module__, file))

    def allowed(file: Path) -> bool:
        return file in allowed_too or not (is_installed(file) or is_standard(file))

    found = _along_imports([*starts, *_loaded_neighbours(starts, imported)], allowed)
    return {**single, **found}


def native_modules(files: Iterable[Path]) -> list[str]:
    """Top-level modules that these files import and of which a loaded part is not written in Python."""
    imported = {name.partition(".")[0] for file in files for name in _imports("", file)}
    loaded = ((name, getattr(module, "__file__", None) or "") for name, module in list(sys.modules.items()))
    native = {name.partition(".")[0] for name, file in loaded if file.endswith(tuple(EXTENSION_SUFFIXES))}
    return sorted(imported & (native - sys.stdlib_module_names | STANDARD_WITH_CLOCK))


def imports_packages(files: Iterable[Path]) -> bool:
    """Whether one of these files imports what is installed and neither the standard library nor sinkproof."""
    imported = {name.partition(".")[0] for file in files for name in _imports("", file)} - {OURS}
    return any(name not in sys.stdlib_module_names and is_library(name) for name in imported)


def own_native_modules(files: Iterable[Path]) -> list[str]:
    """Loaded modules that are not written in Python and lie beside the sink's own files: of no library."""
    beside = {file.parent for file in files if file.parent.name not in INSTALLED}
    loaded = ((name, Path(getattr(module, "__file__", None) or "")) for name, module in list(sys.modules.items()))
    return sorted(
        name
        for name, file in loaded
        if file.name.endswith(tuple(EXTENSION_SUFFIXES))
        and (file.parent in beside or not (is_installed(file) or is_standard(file)))
    )


def code_of_package(name: str) -> Files:
    """All files of a package, or the one of a module; empty if there is no such module."""
    file = source_of(name)
    if file is None:
        return {}
    if file.name != "__init__.py":
        return {file: name}
    return {path: _module_name(name, path.relative_to(file.parent)) for path in sorted(file.parent.rglob("*.py"))}


def _module_name(package: str, inside: Path) -> str:
    return ".".join((package, *inside.with_suffix("").parts)).removesuffix(".__init__")


def _own_file(module: str) -> Path | None:
    if module.partition(".")[0] in (OURS, "builtins", "__main__"):
        return None
    file = source_of(module)
    return None if file is None or is_standard(file) else file


@cache
def distribution_files(module: str, file: Path) -> frozenset[Path]:
    """Python files of the distribution that installed this file; without metadata, all of its top-level package."""
    top = module.partition(".")[0]
    for name in packages_distributions().get(top, ()):
        try:
            listed = distribution(name).files or ()
        except PackageNotFoundError:  # its metadata lie under another name
            continue
        files = {Path(str(each.locate())) for each in listed if each.suffix == ".py"}
        if file in files:
            return frozenset(files)
    return frozenset(code_of_package(top)) | {file}


def _along_imports(starts: Sequence[tuple[str, Path]], allowed: Allowed) -> Files:
    found: Files = {}
    work = deque(starts)
    while work:
        name, file = work.popleft()
        if file in found or not allowed(file):
            continue
        found[file] = name
        for imported in dict.fromkeys(_imports(name, file)):
            other = _own_file(imported)
            if other is not None:
                work.append((imported, other))
    return found


def _imports(name: str, file: Path) -> Iterator[str]:
    """Names of modules that the file may import, with the packages that they lie in."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    try:
        statements = _import_statements(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in statements:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_packages(alias.name)
        else:
            base = _base(node, package)
            yield from _with_packages(base)
            yield from (f"{base}.{alias.name}" for alias in node.names if base)


@lru_cache(maxsize=FILES_KNOWN_MOST)
def _import_statements(source: bytes) -> Sequence[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Import, ast.ImportFrom))]


def _base(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1) if parts[0])


def _loaded_neighbours(starts: Sequence[tuple[str, Path]], imported: Sequence[str]) -> list[tuple[str, Path]]:
    """Loaded modules of the same packages, or beside a file that is in none: perhaps imported by a computed name."""
    packages = {name.partition(".")[0] for name, _ in starts if "." in name}
    folders = {str(file.parent) for name, file in starts if "." not in name and not is_installed(file)}
    loaded = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    loaded |= {name: str(source_of(name)) for name in imported if name not in loaded}
    found = []
    for name, path in sorted(loaded.items()):
        if path is None or not path.endswith(".py"):
            continue
        top = name.partition(".")[0]
        beside = "." not in name and name not in ("conftest", "__main__") and os.path.dirname(path) in folders
        if (top in packages or beside) and top != OURS:
            found.append((name, Path(path)))
    return found
