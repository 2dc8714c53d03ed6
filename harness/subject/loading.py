"""Finds what is to be certified by its locator, checks it, and makes its `Contract`.

This is the only file that knows all kinds of subjects and the registry. A *locator* names a subject in any process:

    files/two-phase             a registered pair
    path/to/file.py:Class       a contract; package.module:Class as well
    path/to/file.py:function    a foreachBatch function
    command:{...}               a command, with all its options (command_contract.py)
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from sinkproof.sink_adapters.registry import PAIRS, SERVICE_PAIRS
from sinkproof.subject.command_contract import PREFIX, CommandContract
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.foreach_batch_contract import of_function

EXAMPLE: Final = """
    class MyContract:
        claims = Claim.EXACTLY_ONCE
        def sink(self, scratch): ...        # -> a Sink, or a two-phase or write-ahead target
        def committed(self, scratch): ...   # -> (split, offset, key, value) of every row that a reader sees
"""
HIDDEN: Final = (
    "is defined inside a function, where a child process cannot find it. Move it to the top level of its module"
)


@cache
def load(locator: str) -> Contract:
    """The contract that the locator names, checked. Raises ContractError with the next step."""
    if locator.startswith(PREFIX):
        return Contract(locator, CommandContract(locator), kind="command")
    pairs = {**PAIRS, **SERVICE_PAIRS}
    if locator in pairs:
        return Contract(locator, pairs[locator].contract())
    if ":" not in locator:
        near = ", ".join(sorted(pairs))
        raise ContractError(
            f"unknown subject {locator!r}. Name a registered pair ({near}), "
            "or your own contract as path/to/file.py:Class or package.module:Class"
        )
    place, _, name = locator.rpartition(":")
    found: Any = _module(place, locator)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ContractError(f"{locator}: there is no {part!r} in {place}. It holds: {_public(found)}")
        found = getattr(found, part)
    if isfunction(found):
        return Contract(locator, of_function(locator, found), kind="foreach_batch")
    return check(locator, found)


def check(locator: str, found: Any) -> Contract:
    """A contract that is a class, or an instance of one. Raises ContractError with the next step."""
    if isinstance(found, type):
        if "<locals>" in found.__qualname__:
            raise ContractError(f"{locator}: {found.__qualname__} {HIDDEN}")
        try:
            found = found()
        except Exception as error:  # the border to the user's class, which may raise anything
            said = f"{type(error).__name__}: {error}"
            raise ContractError(f"{locator}: a contract is made without arguments, but: {said}") from error
    for name in ("sink", "committed"):
        if not callable(getattr(found, name, None)):
            raise ContractError(f"{locator}: it has no method {name}(scratch). A contract looks like this:\n{EXAMPLE}")
    return Contract(locator, found)


def locator_of(cls: type) -> str:
    """The locator by which another process finds this class."""
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if "<locals>" in cls.__qualname__:
        raise ContractError(f"{cls.__qualname__} {HIDDEN}")
    if file is None:
        raise ContractError(f"{cls.__qualname__} is in no file (module {cls.__module__}); put it into one")
    return f"{file}:{cls.__qualname__}"


def _public(holder: Any) -> str:
    names = [name for name, value in vars(holder).items() if isinstance(value, type) and not name.startswith("_")]
    return ", ".join(sorted(names)) or "no class"


def _module(place: str, locator: str) -> ModuleType:
    try:
        if place.endswith(".py"):
            return _module_of_file(Path(place))
        return importlib.import_module(place)
    except ContractError:
        raise
    except (Exception, SystemExit) as error:  # the border to the user's module, which may raise anything
        raise ContractError(f"{locator}: importing {place} failed: {type(error).__name__}: {error}") from error


def _module_of_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise ContractError(f"there is no file {path}")
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and module.__name__ != "__main__" and Path(file) == path:
            return module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # so that it can import its neighbours, as when it is run
    name = path.stem if path.stem not in sys.modules else f"sinkproof_subject_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ContractError(f"{path} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
