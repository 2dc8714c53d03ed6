"""Which files are the sink's own code: the ones whose executed lines are points.

A class of a user's package or folder brings that package or folder; adapters of ours bring the files that define the
classes of the sink and of the targets it holds. The engine, the harness and installed libraries are never the sink's.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.points import LINE
from sinkproof.reports.document import SourceLine

OURS: Final = Path(__file__).resolve().parent
DEPTH_MOST: Final = 4  # a sink holds a target, which holds a file system, ...
NEVER: Final = (
    "sinkproof.chaos.",
    "sinkproof.reference_engine.",
    "sinkproof.sink_adapters.protocol",
    "sinkproof.sink_adapters.memory_store",  # the outside world, as is a disk
    "sinkproof.sink_adapters.disk_",
)


def files_of(contract: Any, sink: Any) -> dict[str, str]:
    """Absolute path -> name in points: relative to the folder of the package (or of the file) that it belongs to."""
    found: dict[str, str] = {}
    for cls in _classes(contract, sink):
        name = cls.__module__
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None or name.startswith(NEVER) or (name.startswith("sinkproof.") and not _ours_to_watch(name)):
            continue
        if name.startswith("sinkproof."):
            found[file] = Path(file).name
        elif not _installed(file):
            found.update(_neighbours(name, Path(file)))
    return dict(sorted(found.items()))


def source_line(point: str, files: Mapping[str, str]) -> SourceLine | None:
    """The line that a point names, with its text; None for named points."""
    match = LINE.fullmatch(point)
    if match is None:
        return None
    file, number = match["file"].replace("%20", " "), int(match["number"])
    path = next((path for path, name in files.items() if name == file), "")
    return SourceLine(file=file, number=number, text=linecache.getline(path, number).strip())


def _ours_to_watch(module: str) -> bool:
    """Not the contracts: they only say how a sink is made."""
    return module.startswith(("sinkproof.sink_adapters.", "sinkproof.canaries.")) and not module.endswith("_contract")


def _installed(file: str) -> bool:
    return any(part in ("site-packages", "dist-packages") for part in Path(file).parts) or file.startswith(
        str(Path(sys.base_prefix) / "lib")
    )


def _neighbours(module: str, file: Path) -> Iterable[tuple[str, str]]:
    """The file itself, or all files of its package that are loaded."""
    package = module.partition(".")[0] if "." in module else ""
    yield str(file), file.name
    for name, other in sorted(sys.modules.items()):
        path = getattr(other, "__file__", None)
        if path is None or not path.endswith(".py") or _installed(path) or name.startswith("sinkproof."):
            continue
        if (package and name.startswith(package + ".")) or (
            not package and Path(path).parent == file.parent and "." not in name and name != "conftest"
        ):
            yield path, Path(path).name


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
