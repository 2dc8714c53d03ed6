"""Puts other functions in the place of those of the standard library, wherever a module has imported them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, Final

STEADY_CLOCKS: Final = ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")  # of `time`
STEADY_IDS: Final = (time.CLOCK_MONOTONIC, time.CLOCK_MONOTONIC_RAW, time.CLOCK_BOOTTIME)
FUNCTIONS: Final = (FunctionType, staticmethod, classmethod)
SECOND_NS: Final = 1e9


def replace_everywhere(name: str, original: Callable[..., Any], instead: Callable[..., Any]) -> None:
    """In its module, and in those that have imported it from there. Attributes that a module makes are not asked for:
    it may import others then.
    """
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and vars(module).get(name) is original:
            setattr(module, name, instead)


def replace_in_defaults(original: Callable[..., Any], instead: Callable[..., Any]) -> None:
    """As a default value of a parameter, but for functions of the standard library."""
    for function in _functions():
        defaults, named = function.__defaults__ or (), function.__kwdefaults__ or {}
        if any(each is original for each in defaults):
            function.__defaults__ = tuple(instead if each is original else each for each in defaults)
        named.update({name: instead for name, value in named.items() if value is original})


def _functions() -> Iterator[FunctionType]:
    """Of modules, and of their classes."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and name.partition(".")[0] not in sys.stdlib_module_names:
            found = list(vars(module).values())
            found += [each for made in found if isinstance(made, type) for each in list(vars(made).values())]
            unwrapped = (getattr(each, "__func__", each) for each in found if isinstance(each, FUNCTIONS))
            yield from (each for each in unwrapped if isinstance(each, FunctionType))


def unit_of(clock: str) -> float:
    """What a function of `time` shows for a second."""
    return SECOND_NS if clock.endswith("_ns") else 1.0


class ClocksAhead:
    """Functions of `time` that show so many seconds more, to the end of this process. What Python itself times goes on
    as it did: timeouts of locks, queues and sockets.
    """

    def __init__(self, names: Collection[str]) -> None:
        self.seconds = 0.0
        for name in names:
            clock = vars(time)[name]
            ahead = partial(self._read, clock, unit_of(name))
            replace_everywhere(name, clock, ahead)
            replace_in_defaults(clock, ahead)

        if "monotonic" in names:
            for name, unit in (("clock_gettime", 1.0), ("clock_gettime_ns", SECOND_NS)):
                replace_everywhere(name, vars(time)[name], partial(self._read_named, vars(time)[name], unit))

    def _read(self, clock: Callable[[], float], unit: float) -> float:
        shown = clock()
        return shown + type(shown)(self.seconds * unit)

    def _read_named(self, clock: Callable[[int], float], unit: float, which: int) -> float:
        shown = clock(which)
        return shown + type(shown)(self.seconds * unit) if which in STEADY_IDS else shown
