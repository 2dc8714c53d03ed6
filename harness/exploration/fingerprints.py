"""Turns what an object holds into values that can be compared: are two sinks of two runs in the same state?

Only what Python shows is compared: attributes, containers, closures. An object that may hold hidden state (an open
file, a lock, a generator, an object made in C) raises Opaque, and its run is never matched with another one. Objects
that outlive a run (the contract, its store, its disk) are compared by identity here; the frozen target holds their
contents.
"""

from __future__ import annotations

import enum
import struct
from collections import deque
from collections.abc import Mapping
from functools import cache, partial
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from sinkproof import reference_engine
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.dataflow.job_graph import Plan, SubtaskOutput, SubtaskPlan
from sinkproof.reference_engine.dataflow.replayable_sources import Input
from sinkproof.reference_engine.shells.simulated.simulation import Simulation
from sinkproof.sink_adapters.protocol import Batch, Context
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import Scratch

PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes, complex})
HEAP_TYPE: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE: each class statement makes such a type, and so do some extensions in C
POINTER_BYTES: Final = struct.calcsize("P")
# Objects that a sink refers to but does not own: the shell's state is compared separately.
ENGINE: Final = f"{reference_engine.__name__}."
# Simulation stands here for classes outside of the engine that extend it.
OF_SHELLS: Final = (Contract, Scratch, ScheduleRunner, Simulation)
CONSTANT: Final = (
    CheckpointConfiguration,
    Input,
    SubtaskOutput,
    Plan,
    SubtaskPlan,
)  # the same objects in all runs of a job
DEPTH_OUTSIDE_MOST: Final = 4
NODES_MOST: Final = 500  # objects; a sink that has just been opened holds a few dozen


class Opaque(Exception):
    """An object that cannot be compared. The message names its type."""


def outside_of(given: Any) -> Mapping[int, Any]:
    """All that a contract holds and its sinks share (stores, disks, connections): id -> object. The objects are kept
    alive, so that no later object gets the id of one that was freed.
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
    """Equal for two objects that hold equal values in the same places. Raises Opaque."""
    return _Walk(outside).visit(thing)


def fingerprint_but_for_names(thing: Any, outside: Mapping[int, Any], *, undrawn: Any) -> Any:
    """As `fingerprint`, but without the random generator from which an attempt draws its names, as long as it has drawn
    none. `undrawn`: the state of that generator then. Raises Opaque.
    """
    return _NamelessWalk(outside, undrawn=undrawn).visit(thing)


def fingerprint_of_engine(thing: Any) -> Any:
    """The fingerprint of a subtask or a coordinator. Raises Opaque."""
    return _EngineWalk({}).visit(thing)


class _Walk:
    __slots__ = ("outside", "seen")

    def __init__(self, outside: Mapping[int, Any]) -> None:
        self.outside, self.seen = outside, dict[int, int]()

    def visit(self, thing: Any) -> Any:
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
            return kind.__name__, [item if type(item) in PLAIN else self.visit(item) for item in thing]
        if kind is dict:
            return [
                (key if type(key) in PLAIN else self.visit(key), value if type(value) in PLAIN else self.visit(value))
                for key, value in thing.items()
            ]
        if kind in (set, frozenset):
            return sorted(repr(self.visit(item)) for item in thing)
        return self._visit_rare(thing, kind)

    def _visit_rare(self, thing: Any, kind: type) -> Any:
        if kind is MethodType:
            return thing.__func__.__qualname__, self.visit(thing.__self__)
        if kind is FunctionType:
            return id(thing.__code__), [self.visit(cell.cell_contents) for cell in thing.__closure__ or ()]
        if kind is BuiltinFunctionType:
            owner = thing.__self__
            return thing.__name__, None if isinstance(owner, ModuleType) else self.visit(owner)
        if kind is partial:
            return self.visit(thing.func), self.visit(thing.args), self.visit(thing.keywords)
        if issubclass(kind, Context):  # its other fields follow from the restored checkpoint and the generation
            return self.visit(thing.random)
        if kind is Random:
            return thing.getstate()
        if isinstance(thing, enum.Enum):
            return kind.__name__, thing.name
        return self._visit_object(thing, kind)

    def _descends_into(self, kind: type) -> bool:
        return not (kind.__module__.startswith(ENGINE) or issubclass(kind, OF_SHELLS))

    def _visit_object(self, thing: Any, kind: type) -> Any:
        """An instance of a Python class: its attributes and, if the class extends a number or a text, its value."""
        if not self._descends_into(kind):
            return kind.__name__
        valued, slots = _shape_of(kind)
        attributes = [*getattr(thing, "__dict__", {}).items()]
        attributes += [(name, getattr(thing, name)) for name in slots if hasattr(thing, name)]
        seen = [(name, value if type(value) in PLAIN else self.visit(value)) for name, value in attributes]
        return kind.__qualname__, None if valued is None else _value_as(valued, thing), seen


class _NamelessWalk(_Walk):
    __slots__ = ("undrawn",)

    def __init__(self, outside: Mapping[int, Any], *, undrawn: Any) -> None:
        super().__init__(outside)
        self.undrawn = undrawn

    def _visit_rare(self, thing: Any, kind: type) -> Any:
        if kind is Random and thing.getstate() == self.undrawn:
            return "undrawn"
        return super()._visit_rare(thing, kind)


class _EngineWalk(_Walk):
    """Descends into the engine's own objects, but not into constants of the job, nor into rows."""

    __slots__ = ()

    def _visit_rare(self, thing: Any, kind: type) -> Any:
        if isinstance(thing, CONSTANT):
            return (id(thing),)
        if kind is CheckpointRecord:
            return thing
        if kind is Batch and not thing.columnar:
            return thing.rows
        return super()._visit_rare(thing, kind)

    def _descends_into(self, kind: type) -> bool:
        return True


def _value_as(base: type, thing: Any) -> Any:
    if base in (str, int, bytes, float):
        return base(thing)
    if base is tuple:
        return repr(tuple(thing))
    raise Opaque(base.__qualname__)


@cache
def _shape_of(kind: type) -> tuple[type | None, tuple[str, ...]]:
    """The built-in type that this class extends (a text, a number; or None), and the names of its slots."""
    made_in_c = [base for base in kind.__mro__ if base is not object and _is_made_in_c(base)]
    if kind in made_in_c:
        raise Opaque(kind.__qualname__)
    if len(made_in_c) > 1:
        raise Opaque(kind.__qualname__)
    slots = [name for base in kind.__mro__ for name in _slots_of(base)]
    return next(iter(made_in_c), None), tuple(name for name in slots if name not in ("__dict__", "__weakref__"))


def _is_made_in_c(kind: type) -> bool:
    """Whether its instances hold something that is no attribute of theirs."""
    base = kind.__base__
    if base is None or not kind.__flags__ & HEAP_TYPE:
        return True
    own = kind.__dict__
    slots = [each for each in _slots_of(kind) if each not in ("__dict__", "__weakref__")]
    references = len(slots) + ("__dict__" in own) + ("__weakref__" in own)
    bytes_of_attributes = base.__basicsize__ + references * POINTER_BYTES
    return kind.__basicsize__ > bytes_of_attributes or kind.__itemsize__ != base.__itemsize__


def _slots_of(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
