"""Which files are the sink's own code: their executed lines are points.

Classes and functions of a user add the files that user_code.py finds, in `site-packages` or not; a contract adds others
by `packages`, and takes some out by `not_struck`. Our own adapters and canaries add the files that define the classes
of the sink and of the targets it holds, except classes that bear the mark `without_line_points`. The engine, the
harness and libraries that a sink uses are never part of it.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

import sinkproof.sink_adapters
from sinkproof.chaos.points import CALLED_FROM, LINE
from sinkproof.chaos.standard_library import is_standard_module
from sinkproof.sink_adapters.protocol import REQUIRED_CALLS, lines_are_points
from sinkproof.subject.contract import ContractError
from sinkproof.subject.static_analysis.reachable_lines import Statement, reachable_statements
from sinkproof.subject.user_code import code_of_package, source_of, user_code

if TYPE_CHECKING:
    from sinkproof.reports.document import SourceLine

OURS: Final = Path(sinkproof.sink_adapters.__file__ or "").parent
# Names of our own files are relative to the folder of these packages, `sinkproof.sink_adapters`.
OUR_PACKAGES: Final = 2
LINES_AROUND: Final = 2  # of a struck line, shown before and after it
DEPTH_MOST: Final = 4  # a sink holds a target, which holds a file system, and so on
ELEMENTS_MOST: Final = 100  # of a list or a dictionary that a sink holds
WATCHED: Final = ("sinkproof.sink_adapters.", "sinkproof.canaries.")  # of our own packages
STRATEGIES: Final = "sinkproof.sink_adapters.strategies."  # these hold a user's target
CALLS_ON_SINKS: Final = frozenset(  # by the engine; `settle` only if they are in doubt
    ("open", "write", "snapshot", "notify_complete", "notify_aborted", "end_of_input", "close")
)
CALLS_ON_TARGETS: Final = CALLS_ON_SINKS | {  # and by strategies
    *("attach", "ready", "use_user_contexts", "flush", "begin", "pre_commit", "commit", "abort", "lingering"),
    *("publish", "send_values", "is_committed", "is_checkpoint_committed", "record", "commit_checkpoint"),
    *("stage", "seal", "reveal", "collect", "upsert", "append"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCode:
    """The code of one subject.

    `files`: absolute path -> name in points, relative to the folder of the package (or of the file) that it belongs to.
    `given`: class or function that the user gives -> names in points of its files, those of its bases included; empty:
    it is not written in Python.
    `names`: plain names of these; `contract`: that of the contract's class. `are_sinks`: not targets, around which a
    strategy is put.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    are_sinks: bool = False
    contract: str = ""


def own_code(contract: Any, sink: Any, *, imported: Sequence[str] = ()) -> OwnCode:
    """`sink`: what the contract's `sink` returned, perhaps with a strategy around it. `imported`: modules that attempts
    have loaded, by computed names perhaps. Raises ContractError.
    """
    files = files_of(contract, sink, imported=imported)
    given = [each for each in _given_by_user(sink) if not _is_ours_or_standard(each)]
    return OwnCode(
        files=files,
        given={f"{each.__module__}.{each.__qualname__}": _files_with_bases(each, files) for each in given},
        names=frozenset(each.__name__ for each in given),
        are_sinks=all(hasattr(each, call) for each in given for call in REQUIRED_CALLS),
        contract=type(contract).__name__,
    )


def _files_with_bases(given: Any, files: Mapping[str, str]) -> tuple[str, ...]:
    modules = dict.fromkeys(base.__module__ for base in getattr(given, "__mro__", (given,)))
    found = (files.get(str(source_of(module))) for module in modules)
    return tuple(name for name in found if name is not None)


def users_files(code: OwnCode) -> dict[str, str]:
    """Without those of our adapters."""
    return {path: name for path, name in code.files.items() if not Path(path).is_relative_to(OURS)}


def reachable_in(code: OwnCode, *, settles: bool = False) -> list[Statement]:
    """In the user's files: of our own adapters no sink needs every branch. `settles`: `settle` was called, too."""
    users = users_files(code)
    calls = CALLS_ON_SINKS if code.are_sinks else CALLS_ON_TARGETS
    calls = calls | {"settle"} if settles else calls
    return reachable_statements(users, sinks=code.names, calls=calls, contract=code.contract)


def _is_ours_or_standard(given: Any) -> bool:
    top = given.__module__.partition(".")[0]
    return top == "sinkproof" or is_standard_module(top)


def files_of(contract: Any, sink: Any, *, imported: Sequence[str] = ()) -> dict[str, str]:
    """`OwnCode.files`; `sink` None: there is none yet. Raises ContractError."""
    classes = list(_classes(contract, sink))
    users = user_code([type(contract), *_given_by_user(sink)], held=classes, imported=imported)
    for name in _texts(contract, "packages"):
        named = code_of_package(name)
        if not named:
            raise ContractError(
                f"packages of {type(contract).__name__} names {name!r}, but there is no Python file of this module "
                "or package. Name modules as they are imported"
            )
        users.update(named)
    ours = _our_files(classes, strategies=type(contract).__module__.startswith(WATCHED))
    return made_unique({**ours, **names_in_points(users, left_out=_texts(contract, "not_struck"))})


def names_in_points(files: Mapping[Path, str], *, left_out: Sequence[str] = ()) -> dict[str, str]:
    """Absolute path -> name in points, without the modules and packages in `left_out`."""
    return {
        str(file): _name_in_package(module, file)
        for file, module in files.items()
        if not any(module == name or module.startswith(f"{name}.") for name in left_out)
    }


def _texts(contract: Any, name: str) -> tuple[str, ...]:
    given = getattr(contract, name, ())
    return (given,) if isinstance(given, str) else tuple(given)


def _our_files(classes: Sequence[type], *, strategies: bool) -> dict[str, str]:
    """Around a user's target each step of a strategy is a point, and its lines add none between two effects. They count
    where a user's class is derived from one.
    """
    found = {}
    users = tuple(cls for cls in classes if not cls.__module__.startswith(WATCHED))
    for cls in classes:
        if cls.__module__.startswith(STRATEGIES) and not (strategies or any(issubclass(each, cls) for each in users)):
            continue
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if file is not None and cls.__module__.startswith(WATCHED) and lines_are_points(cls):
            found[file] = _name_in_package(cls.__module__, Path(file))
    return found


def source_line(point: str, files: Mapping[str, str]) -> SourceLine | None:
    """The line that a point names, with its text; None for named points. The lines that it was called from may follow
    (chaos/lines.py).
    """
    from sinkproof.reports.document import SourceLine  # attempts import this module, and write no document

    innermost, *callers = point.split(CALLED_FROM)
    match = LINE.fullmatch(innermost)
    if match is None:
        return None
    file, number = match["file"].replace("%20", " "), int(match["number"])
    path = next((path for path, name in files.items() if name == file), "")
    around = range(max(1, number - LINES_AROUND), number + LINES_AROUND + 1)
    shown = [f"{each:5}  {text.rstrip()}" for each in around if (text := linecache.getline(path, each)).strip()]
    functions = functions_of(path)
    return SourceLine(
        file=file,
        number=number,
        text=linecache.getline(path, number).strip(),
        function=functions[number] if number < len(functions) else "",
        path=path_in_repository(path),
        around=shown,
        called_from=[_in_one_line(line) for each in callers if (line := source_line(each, files)) is not None],
    )


def _in_one_line(line: SourceLine) -> str:
    return f"{line.file}:{line.number} in {line.function or 'the module'}: {line.text}"


@cache
def functions_of(path: str) -> Sequence[str]:
    """By number of line: the qualified name of the innermost function or class around it; empty outside of all."""
    lines = linecache.getlines(path)
    names = [""] * (len(lines) + 1)

    def name_inside(node: ast.AST, around: str) -> None:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name_inside(child, around)
                continue
            name = f"{around}.{child.name}".lstrip(".")
            for number in range(child.lineno, (child.end_lineno or child.lineno) + 1):
                names[number] = name
            name_inside(child, name)

    with suppress(SyntaxError, ValueError):
        name_inside(ast.parse("".join(lines)), "")
    return names


@cache
def path_in_repository(path: str) -> str:
    """Relative to the nearest folder above it with a `.git`, else to the working directory; empty for a file outside
    of both, and for an installed one.
    """
    file = Path(path)
    root = next((folder for folder in file.parents if (folder / ".git").exists()), None)
    with suppress(FileNotFoundError):  # a sink may have removed its working directory
        root = root or Path.cwd()
    is_inside = root is not None and file.is_relative_to(root) and "site-packages" not in file.parts
    return file.relative_to(root).as_posix() if root is not None and is_inside else ""


def _name_in_package(module: str, file: Path) -> str:
    """`a/client.py` for the module `package.a.client`; the plain name of a file that belongs to no package."""
    packages = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    skipped = OUR_PACKAGES if module.startswith("sinkproof.") else 1  # the folder that names are relative to
    return "/".join((*packages[skipped:], file.name))


def made_unique(given: Mapping[str, str]) -> dict[str, str]:
    """Sorted; a name that several files have is preceded by the folders in which they differ."""
    names = dict(sorted(given.items()))
    length = {file: len(Path(name).parts) for file, name in names.items()}
    unique = dict(names)
    while repeated := {name for name, count in Counter(unique.values()).items() if count > 1}:
        for file in [file for file, name in unique.items() if name in repeated]:
            length[file] += 1
            unique[file] = "/".join(Path(file).parts[-length[file] :])
    return unique


def _given_by_user(thing: Any) -> Iterator[Any]:
    """Classes and functions of the sink, or of what the user has put into one of our strategies."""
    if isinstance(thing, (tuple, list)):
        for each in thing:
            yield from _given_by_user(each)
    elif isinstance(thing, MethodType):
        yield from _given_by_user(thing.__self__)
    elif isinstance(thing, (type, FunctionType)):
        yield thing
    elif type(thing).__module__.startswith(STRATEGIES):
        for value in _held(thing):
            yield from _given_by_user(value)
    else:
        yield type(thing)


def _classes(*roots: Any) -> Iterable[type]:
    seen: set[int] = set()
    work = [(root, 0) for root in roots]
    while work:
        thing, depth = work.pop()
        if id(thing) in seen or thing is None or isinstance(thing, (str, bytes, int, float, type)):
            continue
        seen.add(id(thing))
        yield from (cls for cls in type(thing).__mro__ if cls is not object)
        if depth < DEPTH_MOST:
            work += [(value, depth + 1) for value in _held(thing)]


def _held(thing: Any) -> list[Any]:
    if isinstance(thing, dict):
        return list(thing.values())[:ELEMENTS_MOST]
    if isinstance(thing, (tuple, list, set, frozenset)):
        return list(thing)[:ELEMENTS_MOST]
    values = list(getattr(thing, "__dict__", {}).values())
    for cls in type(thing).__mro__:
        slots = getattr(cls, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                values.append(getattr(thing, name))
    return values
