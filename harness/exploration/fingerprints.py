"""What an object holds, as values that can be compared: whether two sinks of two runs are in the same state.

Only what can be seen is compared: attributes, containers, closures. Whatever may hide something (an open file, a lock,
a generator, an object made in C) raises Opaque, and then nobody may be taken for equal. What outlives a run (the
contract, its store, its disk) is compared elsewhere, as the frozen target; here it is itself.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping
from functools import cache, partial
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.dataflow.job_graph import Plan, SubtaskOutput, SubtaskPlan
from sinkproof.reference_engine.dataflow.replayable_sources import Input
from sinkproof.sink_adapters.protocol import Batch, Context

PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes, complex})
HEAP_TYPE: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made by a class statement
# What a sink may reach, but does not hold: the shell is compared as such.
SHELLS: Final = (
    "sinkproof.reference_engine.",
    *(
        f"sinkproof.{name}"
        for name in ("exploration.run_memo", "execution.schedule_runner", "subject.scratch", "subject.contract")
    ),
)
CONSTANT: Final = (
    CheckpointConfiguration,
    Input,
    SubtaskOutput,
    Plan,
    SubtaskPlan,
)  # the same objects in all runs of a job
DEPTH_OUTSIDE_MOST: Final = 4
NODES_MOST: Final = 500  # a sink that has just been opened holds a few dozen


class Opaque(Exception):
    """Something that cannot be compared; which type."""


def outside_of(given: Any) -> Mapping[int, Any]:
    """What a contract holds: stores, disks, connections, whoever shares them. By id, and kept: what is made later may
    otherwise get the id of something that is gone.
    """
    found: dict[int, Any] = {}
    work = [(given, 0)]
    while work:
        thing, depth = work.pop()
        if id(thing) in found or type(thing) in PLAIN:
            continue
        found[id(thing)] = thing
        if depth < DEPTH_OUTSIDE_MOST:
            work += [(part, depth + 1) for part in _parts(thing)]
    return found


def _parts(thing: Any) -> list[Any]:
    if isinstance(thing, dict):
        return list(thing.values())
    if isinstance(thing, (list, tuple, set)):
        return list(thing)
    return list(getattr(thing, "__dict__", {}).values())


def fingerprint(thing: Any, outside: Mapping[int, Any]) -> Any:
    """Equal for two things that hold equal values in the same places. Raises Opaque."""
    return _Walk(outside).see(thing)


def fingerprint_but_for_names(thing: Any, outside: Mapping[int, Any], *, undrawn: Any) -> Any:
    """The same; but of a source of names, which each attempt has one of its own of, only whether any was drawn.
    `undrawn`: its state if none was. Raises Opaque.
    """
    return _NamelessWalk(outside, undrawn=undrawn).see(thing)


def fingerprint_of_engine(thing: Any) -> Any:
    """The same of a subtask or a coordinator. Raises Opaque."""
    return _EngineWalk({}).see(thing)


class _Walk:
    __slots__ = ("outside", "seen")

    def __init__(self, outside: Mapping[int, Any]) -> None:
        self.outside, self.seen = outside, dict[int, int]()

    def see(self, thing: Any) -> Any:
        kind = type(thing)
        if kind in PLAIN:
            return thing
        number = id(thing)
        if number in self.outside or kind is type or kind is ModuleType:
            return (number,)
        if number in self.seen:
            return ("again", self.seen[number])
        if len(self.seen) > NODES_MOST:
            raise Opaque("it holds too much")
        self.seen[number] = len(self.seen)
        if kind in (tuple, list, deque):
            return kind.__name__, [item if type(item) in PLAIN else self.see(item) for item in thing]
        if kind is dict:
            return [
                (key if type(key) in PLAIN else self.see(key), value if type(value) in PLAIN else self.see(value))
                for key, value in thing.items()
            ]
        if kind in (set, frozenset):
            return sorted(repr(self.see(item)) for item in thing)
        return self._see_rarer(thing, kind)

    def _see_rarer(self, thing: Any, kind: type) -> Any:
        if kind is MethodType:
            return thing.__func__.__qualname__, self.see(thing.__self__)
        if kind is FunctionType:
            return id(thing.__code__), [self.see(cell.cell_contents) for cell in thing.__closure__ or ()]
        if kind is BuiltinFunctionType:
            owner = thing.__self__
            return thing.__name__, None if isinstance(owner, ModuleType) else self.see(owner)
        if kind is partial:
            return self.see(thing.func), self.see(thing.args), self.see(thing.keywords)
        if kind is Context:  # all of it follows from the restored checkpoint and the generation, but what was drawn
            return self.see(thing.random)
        if kind is Random:
            return thing.getstate()
        if isinstance(thing, enum.Enum):
            return kind.__name__, thing.name
        return self._see_object(thing, kind)

    def _looks_into(self, kind: type) -> bool:
        return not kind.__module__.startswith(SHELLS)

    def _see_object(self, thing: Any, kind: type) -> Any:
        """An object of Python: its value, if it is a number or a text, too, and its attributes."""
        if not self._looks_into(kind):
            return kind.__name__
        valued, slots = _shape_of(kind)
        attributes = [*getattr(thing, "__dict__", {}).items()]
        attributes += [(name, getattr(thing, name)) for name in slots if hasattr(thing, name)]
        seen = [(name, value if type(value) in PLAIN else self.see(value)) for name, value in attributes]
        return kind.__qualname__, None if valued is None else _value_as(valued, thing), seen


class _NamelessWalk(_Walk):
    __slots__ = ("undrawn",)

    def __init__(self, outside: Mapping[int, Any], *, undrawn: Any) -> None:
        super().__init__(outside)
        self.undrawn = undrawn

    def _see_rarer(self, thing: Any, kind: type) -> Any:
        if kind is Random and thing.getstate() == self.undrawn:
            return "undrawn"
        return super()._see_rarer(thing, kind)


class _EngineWalk(_Walk):
    """Looks into the engine's own objects, but not into what never changes, nor into rows."""

    __slots__ = ()

    def _see_rarer(self, thing: Any, kind: type) -> Any:
        if isinstance(thing, CONSTANT):
            return (id(thing),)
        if kind is CheckpointRecord:
            return thing
        if kind is Batch and not thing.columnar:
            return thing.rows
        return super()._see_rarer(thing, kind)

    def _looks_into(self, kind: type) -> bool:
        return True


def _value_as(base: type, thing: Any) -> Any:
    if base in (str, int, bytes, float):
        return base(thing)
    if base is tuple:
        return repr(tuple(thing))
    raise Opaque(base.__qualname__)


@cache
def _shape_of(kind: type) -> tuple[type | None, tuple[str, ...]]:
    """The type of what an object of this class is besides (a text, a number), and the names of its slots."""
    if not kind.__flags__ & HEAP_TYPE:
        raise Opaque(kind.__qualname__)
    made_in_c = [base for base in kind.__mro__ if not base.__flags__ & HEAP_TYPE and base is not object]
    if len(made_in_c) > 1:
        raise Opaque(kind.__qualname__)
    names = (base.__dict__.get("__slots__", ()) for base in kind.__mro__)
    slots = [name for each in names for name in ((each,) if isinstance(each, str) else each)]
    return next(iter(made_in_c), None), tuple(name for name in slots if name not in ("__dict__", "__weakref__"))
