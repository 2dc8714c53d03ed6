"""Lets a sink's own code see another machine than this one: the process id that it has in a container, or a host of its
own, with a name, a time zone, a number of cores, and locks that no other host knows, or a file system that lists
folders in another order.

In its own modules only: the libraries that it calls tell processes apart by their true ids, and reach hosts by their
true names. But the time zone is that of the process; locks, files that tell hosts apart, and the order of listings, are
those of all Python code.
"""

from __future__ import annotations

import fcntl
import os
import platform
import socket
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import md5
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

from sinkproof.chaos.processes.files_of_hosts import on_own_host
from sinkproof.chaos.processes.host_identity import show_host_in_files
from sinkproof.chaos.replaced_functions import STEADY_CLOCKS, unit_of

FIRST: Final = 1  # the id of a container's first process
TRUE_NAMES: Final = frozenset({socket.gethostname(), os.uname().nodename, platform.node()})
ZONES: Final = ("EAST-9", "WEST10")
CORES: Final = (4, 2)
UPTIMES: Final = (0.0, 9 * 86_400.0)  # seconds that clocks which count from a host's start show more than the true ones
RESOLVING: Final = ("gethostbyname", "gethostbyname_ex", "getaddrinfo")
Functions = Mapping[ModuleType, Mapping[str, Callable[..., Any]]]  # to be shown, by module and name


class _Instead(ModuleType):
    """A module, but for some functions."""

    def __init__(self, module: ModuleType, functions: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(module.__name__)
        self._module = module
        vars(self).update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """Where it is sent to another process, it is the true module."""
        return import_module, (self.__name__,)


def be_in_a_container(files: Collection[str]) -> None:
    """For the rest of this process. `files`: of modules that have been imported."""
    _show(files, {os: {"getpid": lambda: FIRST}})


def list_by_hash() -> None:
    """For the rest of this process, folders are listed in an order that has to do with neither time nor names, as by
    ext4. In memory the newest entry comes first.
    """
    listdir, scandir = os.listdir, os.scandir

    def listed(*path: Any, **named: Any) -> list[Any]:
        return sorted(listdir(*path, **named), key=_hash_of)

    def scanned(*path: Any, **named: Any) -> _Scanned:
        with scandir(*path, **named) as entries:
            return _Scanned(sorted(entries, key=lambda entry: _hash_of(entry.name)))

    os.listdir, os.scandir = listed, scanned  # type: ignore[assignment]


class _Scanned:
    """What os.scandir returns."""

    def __init__(self, entries: list[os.DirEntry[Any]]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[os.DirEntry[Any]]:
        return self

    def __next__(self) -> os.DirEntry[Any]:
        return next(self._entries)

    def __enter__(self) -> Iterator[os.DirEntry[Any]]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def _hash_of(name: str | bytes) -> bytes:
    return md5(os.fsencode(name), usedforsecurity=False).digest()


def be_on_a_host(subtask: int, generation: int, files: Collection[str], *, shared: Path) -> None:
    """The same, on the host of this attempt alone; a successor has another time zone, other cores, and another uptime.
    `shared`: the folder of all.
    """
    cores, name = CORES[(subtask + generation) % len(CORES)], f"host-{subtask}-{generation}"
    uptime = UPTIMES[(subtask + generation) % len(UPTIMES)]
    clocks = {each: _ahead(vars(time)[each], uptime * unit_of(each)) for each in STEADY_CLOCKS}
    locks = {each: _unless_local(getattr(fcntl, each), shared) for each in ("flock", "lockf")}
    counts: dict[str, Callable[..., Any]] = {
        "cpu_count": lambda: cores,
        "sched_getaffinity": lambda _: set(range(cores)),
    }
    be_named(name, files, others={os: counts, fcntl: locks, time: clocks})
    show_host_in_files(name)
    for each, lock in locks.items():
        setattr(fcntl, each, lock)
    os.environ.update(HOSTNAME=name, TZ=ZONES[(subtask + generation) % len(ZONES)])
    time.tzset()


def _ahead(clock: Callable[[], float], by: float) -> Callable[[], float]:
    """It shows floats, or whole numbers, as it did."""
    return lambda: (shown := clock()) + type(shown)(by)


def be_named(name: str, files: Collection[str], *, others: Functions = MappingProxyType({})) -> None:
    """This host has that name, for these modules, and other functions are what they are in `others`."""
    true_uname = os.uname()

    def uname() -> os.uname_result:
        return os.uname_result((true_uname[0], name, *true_uname[2:]))

    def named(*_: str) -> str:
        return name

    def number() -> int:
        return int.from_bytes(_hash_of(name)[:6], "big")  # as long as the address of a network card

    def resolved(by: str) -> Callable[..., Any]:
        """Its address is this machine's."""
        resolve = getattr(socket, by)
        return lambda host, *how, **named: resolve(true_uname[1] if host == name else host, *how, **named)

    names = {"gethostname": named, "getfqdn": named, **{by: resolved(by) for by in RESOLVING}}
    of_host: Functions = {socket: names, platform: {"node": named}, uuid: {"getnode": number}}
    _show(files, {**others, os: {**others.get(os, {}), "uname": uname}, **of_host})
    for module in _modules_of(files):  # `HOST = socket.gethostname()`
        texts = {variable: value for variable, value in vars(module).items() if isinstance(value, str)}
        vars(module).update({variable: name for variable, value in texts.items() if value in TRUE_NAMES})


def _unless_local(lock: Callable[..., Any], shared: Path) -> Callable[..., Any]:
    """What one host has locked for itself is free on the others: granted at once."""

    def granted(file: Any, *how: Any) -> Any:
        descriptor = file if isinstance(file, int) else file.fileno()
        is_local = bool(on_own_host([os.readlink(f"/proc/self/fd/{descriptor}")], shared))
        return None if is_local else lock(file, *how)

    return granted


def _show(files: Collection[str], instead: Functions) -> None:
    """Modules and functions, in whatever variable of a module of these files they are."""
    shown: dict[int, Any] = {id(module): _Instead(module, functions) for module, functions in instead.items()}
    for module, functions in instead.items():
        shown |= {id(getattr(module, name)): function for name, function in functions.items()}
    for module in _modules_of(files):
        vars(module).update({name: shown[id(value)] for name, value in vars(module).items() if id(value) in shown})


def _modules_of(files: Collection[str]) -> list[ModuleType]:
    return [each for each in list(sys.modules.values()) if getattr(each, "__file__", None) in files]
