"""What is the standard library's, and what is installed, by where files lie: a user's own `queue.py` is neither."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
STANDARD: Final = tuple(
    {f"{folder}/" for folder in (*map(sysconfig.get_path, ("stdlib", "platstdlib")), os.path.dirname(os.__file__))}
)


def is_installed(file: Path) -> bool:
    return not INSTALLED.isdisjoint(file.parts)


def is_standard(file: Path) -> bool:
    return str(file).startswith(STANDARD) and not is_installed(file)


def defines_standard_module(namespace: Mapping[str, Any]) -> bool:
    """`namespace`: of a loaded module. One without a file is built in, or frozen."""
    if str(namespace.get("__name__", "")).partition(".")[0] not in sys.stdlib_module_names:
        return False
    file = namespace.get("__file__")
    return not file or is_standard(Path(file))


def is_standard_module(name: str) -> bool:
    """Of a module that is loaded; another one is known by its name alone."""
    top = name.partition(".")[0]
    loaded = sys.modules.get(top)
    return top in sys.stdlib_module_names and (loaded is None or defines_standard_module(vars(loaded)))


def is_library(module: str) -> bool:
    """Whether it belongs to the standard library or is installed."""
    top = module.partition(".")[0]
    if is_standard_module(top):
        return True
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return False
    places = () if spec is None else (spec.origin or "", *(spec.submodule_search_locations or ()))
    return any(is_installed(Path(place)) for place in places)
