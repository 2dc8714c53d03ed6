"""Decides which files are the sink's own code: their executed lines are points.

A class of a user's package or folder adds that package or folder. Our own adapters and canaries add the files that
define the classes of the sink and of the targets it holds, except classes that bear the mark `without_line_points`. The
engine, the harness and installed libraries are never part of a sink.
"""

from __future__ import annotations

import linecache
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.points import LINE
from sinkproof.reports.document import SourceLine
from sinkproof.sink_adapters.protocol import lines_are_points

OUR_PACKAGES: Final = 2  # `sinkproof.sink_adapters`: names of our own files are relative to its folder
DEPTH_MOST: Final = 4  # a sink holds a target, which holds a file system, ...
WATCHED: Final = ("sinkproof.sink_adapters.", "sinkproof.canaries.")  # of our own packages


def files_of(contract: Any, sink: Any) -> dict[str, str]:
    """Absolute path -> name in points: relative to the folder of the package (or of the file) that it belongs to."""
    found: dict[str, str] = {}
    for cls in _classes(contract, sink):
        name = cls.__module__
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None:
            continue
        if name.startswith("sinkproof."):
            if name.startswith(WATCHED) and lines_are_points(cls):
                found[file] = _name_in_package(name, Path(file))
        elif not _installed(file):
            found.update(_neighbours(name, Path(file)))
    return _made_unique(dict(sorted(found.items())))


def source_line(point: str, files: Mapping[str, str]) -> SourceLine | None:
    """The line that a point names, with its text; None for named points."""
    match = LINE.fullmatch(point)
    if match is None:
        return None
    file, number = match["file"].replace("%20", " "), int(match["number"])
    path = next((path for path, name in files.items() if name == file), "")
    return SourceLine(file=file, number=number, text=linecache.getline(path, number).strip())


def _installed(file: str) -> bool:
    return any(part in ("site-packages", "dist-packages") for part in Path(file).parts) or file.startswith(
        str(Path(sys.base_prefix) / "lib")
    )


def _name_in_package(module: str, file: Path) -> str:
    """`a/client.py` for the module `package.a.client`; the plain name of a file that belongs to no package."""
    packages = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    skipped = OUR_PACKAGES if module.startswith("sinkproof.") else 1  # the folder that names are relative to
    return "/".join((*packages[skipped:], file.name))


def _made_unique(names: Mapping[str, str]) -> dict[str, str]:
    """A name that several files have is preceded by the folders in which they differ."""
    length = {file: len(Path(name).parts) for file, name in names.items()}
    unique = dict(names)
    while repeated := {name for name, count in Counter(unique.values()).items() if count > 1}:
        for file in [file for file, name in unique.items() if name in repeated]:
            length[file] += 1
            unique[file] = "/".join(Path(file).parts[-length[file] :])
    return unique


def _neighbours(module: str, file: Path) -> Iterable[tuple[str, str]]:
    """The file itself, or all files of its package that are loaded."""
    package = module.partition(".")[0] if "." in module else ""
    yield str(file), _name_in_package(module, file)
    for name, other in sorted(sys.modules.items()):
        path = getattr(other, "__file__", None)
        if path is None or not path.endswith(".py") or _installed(path) or name.startswith("sinkproof."):
            continue
        if (package and name.startswith(package + ".")) or (
            not package and Path(path).parent == file.parent and "." not in name and name != "conftest"
        ):
            yield path, _name_in_package(name, Path(path))


def _classes(*roots: Any) -> Iterable[type]:
    seen: set[int] = set()
    work = [(root, 0) for root in roots]
    while work:
        thing, depth = work.pop()
        if id(thing) in seen or thing is None or isinstance(thing, (str, bytes, int, float, type)):
            continue
        seen.add(id(thing))
        yield from (cls for cls in type(thing).__mro__ if cls is not object)
        if depth < DEPTH_MOST and type(thing).__module__ != "builtins":
            work += [(value, depth + 1) for value in _held(thing)]


def _held(thing: Any) -> list[Any]:
    values = list(getattr(thing, "__dict__", {}).values())
    for cls in type(thing).__mro__:
        slots = getattr(cls, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                values.append(getattr(thing, name))
    return values
