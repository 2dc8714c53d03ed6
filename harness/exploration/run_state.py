"""Where a run stands, as values that can be compared; and what came after, for those that come to stand there, too.

Two moments are looked at: a new generation has opened its sinks and nothing else was done yet; or the last zombie has
left, and everybody else is in the middle of something. Then what subtasks and coordinator hold is compared as well.
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

DEPTH_OF_ROWS: Final = 3  # of containers in each other
PARTS: Final = tuple(part.name for part in fields(Observation))
# Of a coordinator. One restart more or less is no matter: 25 are allowed, and nobody who needs as many recovers.
TIMES, NO_MATTER = ("ended_last_ms", "unsettled"), ("restart",)


@dataclass(slots=True)
class JoinPoint:
    """A run at such a moment, and, once it is over, what came after."""

    record: Any
    target: Any
    sinks: Any  # what they hold; None: none is open yet
    engine: Any  # what subtasks and coordinator hold; None: nothing but what they were restored with
    events: list[tuple[Any, ...]]
    complete: list[Any]  # checkpoints that a reader knows of
    now: float
    marks: tuple[int, ...]  # how long each list of the observation was
    passed: int
    told: int
    asked: bool = False  # whether anybody has looked at the clock since
    trace: Sequence[tuple[int, str]] = ()
    history: Sequence[tuple[Any, ...]] = ()
    seen: dict[str, Any] = field(default_factory=dict)
    finished: bool = False
    failure: str = ""

    def is_same(self, other: JoinPoint) -> bool:
        """Whether both runs go on alike from here."""
        mine = (self.events, self.sinks, self.engine, self.complete, self.record)
        if mine != (other.events, other.sinks, other.engine, other.complete, other.record):
            return False
        return is_same_copy(self.target, other.target) and (not self.asked or self.now == other.now)

    def completed(self, simulation: Simulation, observer: Observer) -> JoinPoint:
        """With all that came after, now that the run is over."""
        for part, mark in zip(PARTS, self.marks, strict=True):
            value = getattr(observer.observation, part)
            self.seen[part] = value[mark:] if mark >= 0 else value
        self.trace, self.history = simulation.trace[self.passed :], simulation.history[self.told :]
        self.finished, self.failure = simulation.finished, simulation.failure
        return self

    def go_on(self, simulation: Simulation, observer: Observer, *, at: float) -> None:
        """The other run, which stood here at this time, goes on in the same way."""
        later, observation = at - self.now, observer.observation
        simulation.trace += self.trace
        simulation.history += [(when + later, *rest) for when, *rest in self.history]
        simulation.finished, simulation.failure = self.finished, self.failure
        for part, mark in zip(PARTS, self.marks, strict=True):
            value = self.seen[part]
            setattr(observation, part, getattr(observation, part) + value if mark >= 0 else value)


def join_point_of(
    simulation: Simulation, observer: Observer, *, target: Any, outside: Mapping[int, Any], opened: bool, at_rest: bool
) -> JoinPoint:
    """Where it stands now. Raises Opaque if somebody may hide something. `opened`: sinks are compared; `at_rest`: so
    is everybody else, who has gone on meanwhile.
    """
    observation = observer.observation
    return JoinPoint(
        record=simulation.storage.latest(),
        target=target,
        sinks=[(key, fingerprint(sink, outside)) for key, sink in simulation.sinks.items()] if opened else None,
        engine=held_by_engine(simulation) if at_rest else None,
        events=to_come(simulation),
        complete=list(observer.checkpoint_rows.complete),
        now=simulation.now,
        marks=tuple(_length(getattr(observation, part)) for part in PARTS),
        passed=len(simulation.trace),
        told=len(simulation.history),
    )


def opening_of(simulation: Simulation, observer: Observer, *, outside: Mapping[int, Any]) -> str:
    """A job that begins with what a crash has left, and has opened its sinks: all that follows from now on follows from
    this text and what is durable. Raises Opaque if a sink may hide something.
    """
    sinks = [
        (key, fingerprint_but_for_names(sink, outside, undrawn=simulation.random_for(key).getstate()))
        for key, sink in simulation.sinks.items()
    ]
    reader = list(observer.checkpoint_rows.complete), observer.is_up_to_date()
    return repr((simulation.now, sinks, to_come(simulation), reader))


def is_alone(simulation: Simulation) -> bool:
    """Whether nobody of an older generation is left."""
    if (
        simulation.actor_faults.suspended
        or simulation.actor_faults.resumed is not None
        or simulation.coordinator is None
    ):
        return False
    return all(key[1] == simulation.generation for key in simulation.subtasks)


def is_new(simulation: Simulation, *, opened: bool) -> bool:
    """Whether, besides, no sink of this generation was opened, or all, and nothing more."""
    waiting = sum(key[1] == simulation.generation for key in simulation.restored)
    return is_alone(simulation) and waiting == (0 if opened else len(simulation.sinks))


def held_by_engine(simulation: Simulation) -> Any:
    """By subtasks and the coordinator, with times from now, as its events have them."""
    coordinator, now = simulation.coordinator, simulation.now
    assert coordinator is not None
    held = {name: value for name, value in vars(coordinator).items() if name not in (*TIMES, *NO_MATTER)}
    in_doubt = [
        (sink, [(checkpoint_id, since - now) for checkpoint_id, since in each.items()])
        for sink, each in coordinator.unsettled.items()
    ]
    subtasks = [(key, fingerprint_of_engine(subtask)) for key, subtask in simulation.subtasks.items()]
    return subtasks, fingerprint_of_engine(held), in_doubt, coordinator.ended_last_ms - now, simulation.held


def is_same_copy(one: Any, other: Any) -> bool:
    """Equal, and in the same order: a store may be read in the order in which it was written."""
    try:
        return bool(one == other) and _in_same_order(one, other, depth=0)
    except (TypeError, ValueError):  # arrays compare element by element, and tell no truth
        return False


def _in_same_order(one: Any, other: Any, *, depth: int) -> bool:
    """Of values that are equal. Rows are not looked into."""
    if isinstance(one, dict):
        return list(one) == list(other) and all(_in_same_order(one[key], other[key], depth=depth + 1) for key in one)
    if isinstance(one, (tuple, list)) and depth < DEPTH_OF_ROWS:
        return all(_in_same_order(*pair, depth=depth + 1) for pair in zip(one, other, strict=True))
    return True


def contents_of(copy: Any) -> Any:
    """A key of a frozen target: equal for copies that are the same, in the same order. Raises Opaque if it has none."""
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


def to_come(simulation: Simulation) -> list[tuple[Any, ...]]:
    """Events that somebody will hear, in order, with times from now."""
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
