"""The state of a run as values that can be compared, and what followed it, for later runs that reach the same state.

A state is taken at two moments: a new generation has opened its sinks and has done nothing else; or the last zombie
has ended while the new generation was working. In the second case, what subtasks and coordinator hold is compared, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from sinkproof.exploration.fingerprints import (
    PLAIN,
    Opaque,
    fingerprint,
    fingerprint_but_for_names,
    fingerprint_of_engine,
)
from sinkproof.judging.observer import Observer
from sinkproof.judging.oracle import Observation
from sinkproof.reference_engine.checkpointing.coordinator import Coordinator
from sinkproof.reference_engine.shells.simulated.simulation import Simulation

DEPTH_OF_ROWS: Final = 3  # nested containers that are searched for dictionaries; rows lie deeper
PARTS: Final = tuple(part.name for part in fields(Observation))
# Attributes of a coordinator: TIMES are compared relative to now; the restart counter is ignored, because runs use far
# fewer than the 25 restarts allowed.
TIMES, IGNORED = ("ended_last_ms", "unsettled"), ("restart",)


@dataclass(slots=True)
class JoinPoint:
    """The state of a run at one moment and, once the run is over, the rest of the run."""

    record: Any
    target: Any
    sinks: Any  # what they hold; None: none is open yet
    engine: Any  # what subtasks and coordinator hold; None: only what they were restored with
    events: list[tuple[Any, ...]]
    complete: list[Any]  # checkpoints that the reader has observed to be complete
    now: float
    lengths: tuple[int, ...]  # of each list of the observation; -1: the part is no list
    trace_length: int
    history_length: int
    clock_was_read: bool = False  # since this moment
    # The rest of the run, from this moment on:
    trace: Sequence[tuple[int, str]] = ()
    history: Sequence[tuple[Any, ...]] = ()
    observed: dict[str, Any] = field(default_factory=dict)
    finished: bool = False
    failure: str = ""

    def is_same(self, other: JoinPoint) -> bool:
        """Whether both runs have the same rest. Called on the known state: its run is over."""
        mine = (self.events, self.sinks, self.engine, self.complete, self.record)
        if mine != (other.events, other.sinks, other.engine, other.complete, other.record):
            return False
        return is_same_copy(self.target, other.target) and (not self.clock_was_read or self.now == other.now)

    def completed(self, simulation: Simulation, observer: Observer) -> JoinPoint:
        """Adds the rest of the run, which is over."""
        for part, length in zip(PARTS, self.lengths, strict=True):
            value = getattr(observer.observation, part)
            self.observed[part] = value[length:] if length >= 0 else value
        self.trace, self.history = simulation.trace[self.trace_length :], simulation.history[self.history_length :]
        self.finished, self.failure = simulation.finished, simulation.failure
        return self

    def copy_rest(self, simulation: Simulation, observer: Observer, *, at: float) -> None:
        """Appends the rest of this run to another run, which reached the same state at time `at`."""
        later, observation = at - self.now, observer.observation
        simulation.trace += self.trace
        simulation.history += [(when + later, *rest) for when, *rest in self.history]
        simulation.finished, simulation.failure = self.finished, self.failure
        for part, length in zip(PARTS, self.lengths, strict=True):
            value = self.observed[part]
            setattr(observation, part, getattr(observation, part) + value if length >= 0 else value)


def join_point_of(
    simulation: Simulation,
    observer: Observer,
    *,
    target: Any,
    outside: Mapping[int, Any],
    compares_sinks: bool,
    compares_engine: bool,
) -> JoinPoint:
    """The state of the run now. `compares_sinks`: with what the sinks hold; `compares_engine`: also with what subtasks
    and coordinator hold. Raises Opaque if one of them holds an object that cannot be compared.
    """
    observation = observer.observation
    return JoinPoint(
        record=simulation.storage.latest(),
        target=target,
        sinks=[(key, fingerprint(sink, outside)) for key, sink in simulation.sinks.items()] if compares_sinks else None,
        engine=held_by_engine(simulation) if compares_engine else None,
        events=queued_events(simulation),
        complete=list(observer.checkpoint_rows.complete),
        now=simulation.now,
        lengths=tuple(_length(getattr(observation, part)) for part in PARTS),
        trace_length=len(simulation.trace),
        history_length=len(simulation.history),
    )


def opening_of(simulation: Simulation, observer: Observer, *, outside: Mapping[int, Any]) -> str:
    """A job that began with what a crash left, and has opened its sinks, as text: the rest of the run depends only on
    this text and on the durable state. Raises Opaque if a sink holds an object that cannot be compared.
    """
    sinks = [
        (key, fingerprint_but_for_names(sink, outside, undrawn=simulation.random_for(key).getstate()))
        for key, sink in simulation.sinks.items()
    ]
    reader = list(observer.checkpoint_rows.complete), observer.is_up_to_date()
    return repr((simulation.now, sinks, queued_events(simulation), reader))


def is_alone(simulation: Simulation) -> bool:
    """Whether no attempt of an older generation is left, running or suspended."""
    if (
        simulation.actor_faults.suspended
        or simulation.actor_faults.resumed is not None
        or simulation.coordinator is None
    ):
        return False
    return all(key[1] == simulation.generation for key in simulation.subtasks)


def is_new(simulation: Simulation, *, opened: bool) -> bool:
    """Whether no older attempt is left and the generation has done nothing yet but open all of its sinks (`opened`), or
    not even that.
    """
    waiting = sum(key[1] == simulation.generation for key in simulation.restored)
    return is_alone(simulation) and waiting == (0 if opened else len(simulation.sinks))


def held_by_engine(simulation: Simulation) -> Any:
    """What subtasks and the coordinator hold. Times are relative to now, as in `queued_events`."""
    coordinator, now = simulation.coordinator, simulation.now
    assert coordinator is not None
    held = {name: value for name, value in vars(coordinator).items() if name not in (*TIMES, *IGNORED)}
    in_doubt = [
        (sink, [(checkpoint_id, since - now) for checkpoint_id, since in each.items()])
        for sink, each in coordinator.unsettled.items()
    ]
    subtasks = [(key, fingerprint_of_engine(subtask)) for key, subtask in simulation.subtasks.items()]
    return subtasks, fingerprint_of_engine(held), in_doubt, coordinator.ended_last_ms - now, simulation.held


def is_same_copy(one: Any, other: Any) -> bool:
    """Equal, and in the same order: a reader may iterate over a store in the order of its writes."""
    try:
        return bool(one == other) and _in_same_order(one, other, depth=0)
    except (TypeError, ValueError):  # arrays compare element by element and have no truth value
        return False


def _in_same_order(one: Any, other: Any, *, depth: int) -> bool:
    """Whether equal values have their dictionaries in the same order, down to the depth of rows."""
    if isinstance(one, dict):
        return list(one) == list(other) and all(_in_same_order(one[key], other[key], depth=depth + 1) for key in one)
    if isinstance(one, (tuple, list)) and depth < DEPTH_OF_ROWS:
        return all(_in_same_order(*pair, depth=depth + 1) for pair in zip(one, other, strict=True))
    return True


def contents_of(copy: Any) -> Any:
    """A hashable key of a frozen target: equal for copies with the same contents in the same order. Raises Opaque if
    there is none.
    """
    kind = type(copy)
    if kind in PLAIN:
        return copy
    if kind is dict:
        return kind, tuple((key, contents_of(value)) for key, value in copy.items())
    if kind in (tuple, list):
        return kind, tuple(map(contents_of, copy))
    if kind.__hash__ is None:
        raise Opaque(kind.__qualname__)
    return copy


def queued_events(simulation: Simulation) -> list[tuple[Any, ...]]:
    """The queued events with a receiver that still exists, in order, with times relative to now."""
    now, generation, subtasks = simulation.now, simulation.generation, simulation.subtasks
    return [
        (at - now, key, event)
        for at, _, key, event in sorted(simulation.queue, key=_order)
        if key in subtasks or (key[0] == 0 and (key[1] == generation or not hasattr(Coordinator, event[0])))
    ]


def _order(item: tuple[Any, ...]) -> tuple[float, int]:
    return item[0], item[1]


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else -1
