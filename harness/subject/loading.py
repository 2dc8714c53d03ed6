"""Finds what is to be certified by its locator, checks it, and makes its `Contract`.

This is the only file that knows all kinds of subjects and the registry. A *locator* names a subject in any process:

    files/two-phase             a registered pair
    a name                      a contract that another package registers (entry point `sinkproof.sinks`)
    path/to/file.py:Class       a contract; package.module:Class as well
    path/to/file.py:function    a foreachBatch function
    command:{...}               a command, with all its options (command_contract.py)
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from sinkproof.chaos.entry_points import SINKS, registered
from sinkproof.chaos.error_text import described
from sinkproof.chaos.processes.fork_server import children_of
from sinkproof.chaos.processes.process_wide_state import subjects_state
from sinkproof.subject.command_contract import PREFIX, CommandContract
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.foreach_batch_contract import active_spark, of_function

if TYPE_CHECKING:
    from sinkproof.sink_adapters.registry import Pair

EXAMPLE: Final = """
    class MyContract:
        claims = Claim.EXACTLY_ONCE
        def sink(self, scratch): ...        # -> a Sink, or a two-phase or write-ahead target
        def committed(self, scratch): ...   # -> (split, offset, key, value) of every row that a reader sees
"""
RELATIVE: Final = "attempted relative import"  # of the error that Python raises in a file without a package
HIDDEN: Final = (
    "is defined inside a function, where a child process cannot find it. Move it to the top level of its module"
)


@cache
def load(locator: str) -> Contract:
    """The contract that the locator names, checked. Raises ContractError with the next step."""
    if locator.startswith(PREFIX):
        return Contract(locator, CommandContract(locator), kind="command")
    pairs = {} if _is_place(locator) else _registered_pairs()
    if locator in pairs:
        return Contract(locator, pairs[locator].contract())
    others = registered(SINKS)
    place = others[locator].value if locator in others else locator
    if Path(place).is_dir():
        files = sorted(file.name for file in Path(place).glob("*.py"))
        example = Path(place) / f"{files[0] if files else 'file.py'}:Class"
        raise ContractError(f"{place} is a folder: name a contract in one of its files, as in {example}")
    if not _is_place(place):
        near = ", ".join([*sorted(others), *sorted(pairs)])
        raise ContractError(
            f"unknown subject {locator!r}{_meant(locator, [*others, *pairs])}. Name a registered pair ({near}), "
            "or your own contract as path/to/file.py:Class or package.module:Class"
        )
    with subjects_state():
        spark_before = active_spark()
        found = _found(place, locator)
        if isfunction(found):
            return Contract(locator, of_function(locator, found, spark_before=spark_before), kind="foreach_batch")
        return check(locator, found)


def _is_place(text: str) -> bool:
    """Of a module or a file."""
    return ":" in text or text.endswith(".py")


def _registered_pairs() -> dict[str, Pair]:
    from sinkproof.sink_adapters.registry import PAIRS, SERVICE_PAIRS  # the adapters: 40 modules, for no user's sink

    return {**PAIRS, **SERVICE_PAIRS}


def _found(place_and_name: str, locator: str) -> Any:
    place, _, name = place_and_name.rpartition(":") if ":" in place_and_name else (place_and_name, "", "")
    file = Path(place).resolve() if place.endswith(".py") else None
    for folder in (file.parent,) if file is not None else (Path("src").resolve(), Path.cwd()):
        _make_importable(folder, subject=file)
    found: Any = _module(place, locator, file)
    if not name:
        raise ContractError(f"{place} alone is no subject: name its contract, as in {place}:{_example(found)}")
    for part in name.split("."):
        if not hasattr(found, part):
            meant = _meant(part, vars(found))
            raise ContractError(f"{locator}: there is no {part!r} in {place}{meant}. It holds: {_public(found)}")
        found = getattr(found, part)
    return found


def function_anew(contract: Contract) -> Callable[..., Any]:
    """The foreachBatch function as a process has it that has done nothing yet: its modules are imported again."""
    given = contract.given
    if not given.files:
        return cast(Callable[..., Any], given.write_batch)
    with subjects_state():
        again: Any = _FromTheSameFiles(given.files)
        sys.meta_path.insert(0, again)
        try:
            return cast(Callable[..., Any], _found(given.place, contract.locator))
        finally:
            sys.meta_path.remove(again)


class _FromTheSameFiles:
    """Forgets the modules of these files, and finds them by name where they were: a folder that has come before theirs
    in `sys.path` meanwhile may have modules of the same names.
    """

    def __init__(self, files: Collection[str]) -> None:
        loaded = [(name, module) for name, module in [*sys.modules.items()] if getattr(module, "__file__", "") in files]
        self.modules = dict(loaded)
        for name in self.modules:
            del sys.modules[name]

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        module = self.modules.get(name)
        if module is None or module.__file__ is None or not Path(module.__file__).exists():
            return None  # of another folder that is gone; this subject's own is found where it is
        inside = getattr(module, "__path__", None)
        return spec_from_file_location(name, module.__file__, submodule_search_locations=inside and [*inside])


def class_at(locator: str) -> tuple[type, Path, str]:
    """A class that is no contract yet: (class, its file, its module's name, as other modules import it)."""
    if ":" not in locator:
        raise ContractError(f"{locator!r} names no class. Write path/to/file.py:Class or package.module:Class")
    with subjects_state():
        found = _found(locator, locator)
    file = getattr(sys.modules.get(getattr(found, "__module__", "")), "__file__", None)
    if not isinstance(found, type) or file is None:
        raise ContractError(f"{locator}: it is no class of a Python file. Name the class of the sink")
    path, packages = Path(file), [Path(file).stem]
    while (path.parent / "__init__.py").exists():
        path = path.parent
        packages.insert(0, path.name)
    near = Path(file)
    return found, near.relative_to(Path.cwd()) if near.is_relative_to(Path.cwd()) else near, ".".join(packages)


def found_anywhere(locator: str) -> str:
    """For processes with another working directory."""
    place, _, name = locator.rpartition(":")
    if locator.startswith(PREFIX) or not place:
        return locator
    file = place if place.endswith(".py") else getattr(sys.modules.get(place), "__file__", None)
    return f"{Path(file).resolve()}:{name}" if file else locator


def load_to_read(locator: str) -> Contract:
    """For a process that calls nothing of the contract: what an import starts there is ended."""
    here, exit_at_once = os.getpid(), os._exit
    before = children_of(here)

    def exit_with_an_error(status: int) -> NoReturn:
        if os.getpid() == here:
            sys.exit(status)
        exit_at_once(status)

    os._exit = exit_with_an_error  # the exit status of this process is a verdict
    try:
        return load(locator)
    finally:
        os._exit = exit_at_once
        for pid in children_of(here) - before:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def check(locator: str, found: Any) -> Contract:
    """A contract that is a class, or an instance of one. Raises ContractError with the next step."""
    if isinstance(found, type):
        if "<locals>" in found.__qualname__:
            raise ContractError(f"{locator}: {found.__qualname__} {HIDDEN}")
        try:
            found = found()
        except Exception as error:  # the border to the user's class, which may raise anything
            why = f"{locator}: a contract is made without arguments, but: {described(error)}"
            raise ContractError(f"{why}. If it is a sink, `sinkproof init {locator}` writes a contract") from error
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


def _meant(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _example(module: ModuleType) -> str:
    """The first contract of a module, or a name for one."""
    return next((name for name, value in vars(module).items() if hasattr(value, "committed")), "MyContract")


def _public(holder: Any) -> str:
    names = [name for name, value in vars(holder).items() if isinstance(value, type) and not name.startswith("_")]
    return ", ".join(sorted(names)) or "no class"


def _module(place: str, locator: str, file: Path | None) -> ModuleType:
    if file is None and (not place or place.startswith(".")):
        raise ContractError(f"{locator}: {place!r} is no module and no file in Python. Name one: my_sink.py:MyContract")
    try:
        return importlib.import_module(place) if file is None else _module_of_file(file)
    except ContractError:
        raise
    except BaseException as error:  # the border to the user's module, which may raise anything
        is_handled = signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, signal.default_int_handler)
        if isinstance(error, KeyboardInterrupt) and not is_handled:  # Ctrl-C; the command ignores further ones
            raise
        raise ContractError(f"{locator}: importing {place} failed: {described(error)}") from error


def _make_importable(folder: Path, *, subject: Path | None = None) -> None:
    """As when a file in it is run; but where no file imports `queue.py` of this folder by that name, no library gets it
    instead of the standard module.
    """
    if folder.is_dir() and str(folder) not in sys.path:
        hidden = {file.stem for file in folder.glob("*.py")} & sys.stdlib_module_names
        is_package = (folder / "__init__.py").is_file()
        is_last = hidden and (is_package or (subject is not None and hidden == {subject.stem}))
        sys.path.insert(len(sys.path) if is_last else 0, str(folder))


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        meant = _meant(path.name, (each.name for each in path.parent.glob("*.py")))
        raise ContractError(f"there is no file {path}{meant}")
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and module.__name__ != "__main__" and Path(file) == path:
            return module
    _make_importable(path.parent, subject=path)
    is_taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    name = f"sinkproof_subject_{path.stem}" if is_taken else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ContractError(f"{path} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        if RELATIVE not in str(error):
            raise
        del sys.modules[name]
        return _module_of_package(path)
    return module


def _module_of_package(path: Path) -> ModuleType:
    """A file that imports its neighbours by their place, as in `from .rows import Row`."""
    root, parts = path.parent.parent, [path.parent.name, path.stem]
    while (root / "__init__.py").is_file():
        root, parts = root.parent, [root.name, *parts]
    _make_importable(root)
    return importlib.import_module(".".join(parts))
