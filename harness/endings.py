"""Runs that cannot end differently are run once.

When all faults of a schedule have struck, a failure leads to a new generation, whose sinks are opened one by one. When
the last is open and has written nothing, everything that is still to come follows from what can be compared: the
target, the restored checkpoint, the generation, the events on their way, what the sinks hold. A run that stands where
another has stood ends as that one did: the same rest of the trace, the same view in the end. Of a pair of crashes this
saves half of the run, and more: what strikes later strikes both alike.

That is exact for sinks that keep nothing but in the target and in themselves. A sink that may hide something is
compared before it is opened, when there is nothing to hide. Who looks at the clock is compared with times as they are.
One in some hundred such runs is done in full all the same and compared; if it differs, nothing of
this kind is concluded any more. And what breaks a claim is always run in full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from sinkproof.chaos.faults.shell import Killed
from sinkproof.chaos.schedule import Schedule
from sinkproof.fingerprints import Opaque, fingerprint, outside_of
from sinkproof.observe import Observer
from sinkproof.oracle import Observation
from sinkproof.reference_engine.coordinator import Coordinator
from sinkproof.reference_engine.shells.acting import ACTIONS, open_sink, settle
from sinkproof.reference_engine.shells.simulated import Simulation
from sinkproof.reference_engine.subtask import Effect
from sinkproof.trial import Laboratory, Tracing, Trial, no_tracing

AUDITED_EVERY: Final = 200  # half a percent of the time, and hundreds of comparisons in a campaign of pairs
DEPTH_OF_ROWS: Final = 3  # of containers in each other
CANDIDATES_MOST: Final = 40  # states under one key; comparing costs 5 us each, and a run saved is worth 200
Key = tuple[int, int]
Mark = tuple[Any, tuple[float, int]]  # versions of what is durable; the time, and how many events were posted
PARTS: Final = tuple(part.name for part in fields(Observation))


@dataclass(slots=True)
class Crossing:
    """A run at the moment when a generation opens its first sink, and, once it is over, what came after."""

    record: Any
    target: Any
    sinks: Any  # what they hold; None: none is open yet
    events: list[tuple[Any, ...]]
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


class WatchedSimulation(Simulation):
    """Notes who looks at the clock."""

    __slots__ = ("crossed_at", "crossings", "looks", "schedule", "woke_at")

    def __init__(self, *given: Any, schedule: Schedule, **named: Any) -> None:
        super().__init__(*given, schedule=schedule, **named)
        self.schedule, self.woke_at, self.looks, self.crossed_at = schedule, 0, 0, 0.0
        self.crossings: list[tuple[Any, Crossing]] = []

    def clock_for(self, key: Key) -> Callable[[], float]:
        clock, is_ours = super().clock_for(key), True

        def look() -> float:
            nonlocal is_ours
            if not is_ours:  # the first look is the engine's, for the deadline
                self.somebody_looked()
            is_ours = False
            return clock()

        return look

    def stop_actor(self) -> None:
        super().stop_actor()
        self.woke_at = len(self.trace)

    def somebody_looked(self) -> None:
        self.looks += 1
        for _, crossing in self.crossings:
            crossing.asked = True


class Endings:
    """Runs schedules as the laboratory does, but none to an end that is known. For contracts that copy their target."""

    def __init__(self, laboratory: Laboratory, *, audited_every: int = AUDITED_EVERY) -> None:
        self.laboratory, self.audited_every = laboratory, audited_every
        self.known: defaultdict[Any, list[Crossing]] = defaultdict(list)
        self.used, self.audited = 0, 0
        self.outside = outside_of(laboratory.contract.given)
        self.crossed: tuple[int, Crossing] | None = None  # of the last run: where in its trace, and what it equals
        self.marks: list[Mark] = []  # of the last run that was asked to: at each place, what had happened by then
        self.woke_at = 0  # of the last run: where in its trace a sleeper woke up
        self.sees_through = True  # sinks can be compared when they are open
        self.why_not = "" if laboratory.contract.copies else "the contract does not copy its target"

    def run(self, schedule: Schedule, *, tracing: Tracing = no_tracing, marked: bool = False) -> Trial:
        """`marked`: `marks` are kept, up to where the run stands as an earlier one has stood."""
        self.crossed, self.marks = None, []
        if self.why_not or tracing is not no_tracing:
            return self.laboratory.run(schedule, tracing=tracing)
        self.laboratory.reset()
        simulation, observer = self.laboratory.simulation(schedule, shell=WatchedSimulation)
        assert isinstance(simulation, WatchedSimulation)
        if marked:
            self._mark(simulation)
        found = self.play(simulation, observer)
        if simulation.looks:
            self.marks = []  # times differ, and somebody has seen it
        trial = self.laboratory.trial(schedule, simulation, observer)
        if found is None:
            return trial
        self.used += 1
        return self._in_full(trial) if trial.anomalies or self.used % self.audited_every == 0 else trial

    def _mark(self, simulation: WatchedSimulation) -> None:
        version, scratch = self.laboratory.contract.optional("version"), self.laboratory.scratch
        if version is None:
            return

        def note(shell: Simulation, point: str) -> None:
            assert version is not None
            self.marks.append(((version(scratch), shell.storage.version), (shell.now, shell.sequence)))

        simulation.spy = note

    def _in_full(self, concluded: Trial) -> Trial:
        """Findings are shown as they happen; and some others are looked at in order to see that this is sound."""
        trial = self.laboratory.run(concluded.schedule)
        self.audited += 1
        if _ending(trial) != _ending(concluded):
            self.why_not = f"{concluded.schedule} ended otherwise than an equal run"
        return trial

    def play(self, simulation: WatchedSimulation, observer: Observer) -> Crossing | None:
        """To its end, or to where an earlier run has stood: that one, whose end is then this one's, too."""
        found: list[Crossing] = []

        def opening(shell: WatchedSimulation, key: Key, effect: Effect) -> None:
            if not self.sees_through:
                self._cross(shell, observer, found=found)
                open_sink(shell, key, effect)
            else:
                open_sink(shell, key, effect)
                self._cross(shell, observer, found=found)

        def settling(shell: WatchedSimulation, key: Key, effect: Effect) -> None:
            shell.somebody_looked()  # it is told the time
            settle(shell, key, effect)

        simulation.actions = {**ACTIONS, "open": opening, "settle": settling}
        self.laboratory.play(simulation)
        own = [crossing for _, crossing in simulation.crossings]
        self.crossed = (len(simulation.trace), found[0]) if found else (own[0].passed, own[0]) if own else None
        self.woke_at = simulation.woke_at
        if found:
            _go_on_as(found[0], simulation, observer)
        for head, crossing in simulation.crossings:
            candidates = self.known[head]
            if len(candidates) < CANDIDATES_MOST:
                candidates.append(_completed(crossing, simulation, observer))
        return found[0] if found else None

    def _cross(self, simulation: WatchedSimulation, observer: Observer, *, found: list[Crossing]) -> None:
        """Ends the run if it stands where an earlier one has stood; otherwise this place is kept."""
        if simulation.muted or simulation.faults or not simulation.struck:  # muted: the run was judged already
            return
        if not is_new(simulation, opened=self.sees_through):
            return
        sinks = self._held_by_sinks(simulation) if self.sees_through else None
        if self.sees_through and sinks is None:
            self.sees_through = False  # from now on they are compared before they are opened
            return
        schedule = simulation.schedule
        head = (
            *(schedule.seed, schedule.job, simulation.generation, simulation.checkpoint_id_last),
            *(simulation.checkpoint_id_floor, observer.is_up_to_date()),
        )
        target = self.laboratory.contract.given.freeze(self.laboratory.scratch)
        record, events, now = simulation.storage.latest(), to_come(simulation), simulation.now
        for known in self.known[head]:
            same = (known.events, known.sinks, known.record) == (events, sinks, record)
            if same and is_same_copy(known.target, target) and (not known.asked or known.now == now):
                found.append(known)
                simulation.crossed_at, simulation.over = now, True
                raise Killed
        marks = tuple(_length(getattr(observer.observation, part)) for part in PARTS)
        passed, told = len(simulation.trace), len(simulation.history)
        simulation.crossings.append((head, Crossing(record, target, sinks, events, now, marks, passed, told)))

    def _held_by_sinks(self, simulation: Simulation) -> Any:
        try:
            return [(key, fingerprint(sink, self.outside)) for key, sink in simulation.sinks.items()]
        except Opaque:
            return None


def is_new(simulation: Simulation, *, opened: bool) -> bool:
    """Whether nobody of an older generation is left, and of this one no sink was opened, or all, and nothing more."""
    generation = simulation.generation
    if simulation.sleepers or simulation.waking_up is not None or simulation.coordinator is None:
        return False
    if any(key[1] != generation for key in simulation.subtasks):
        return False
    waiting = sum(key[1] == generation for key in simulation.restored)
    return waiting == (0 if opened else len(simulation.sinks))


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


def _completed(crossing: Crossing, simulation: Simulation, observer: Observer) -> Crossing:
    for part, mark in zip(PARTS, crossing.marks, strict=True):
        value = getattr(observer.observation, part)
        crossing.seen[part] = value[mark:] if mark >= 0 else value
    crossing.trace, crossing.history = simulation.trace[crossing.passed :], simulation.history[crossing.told :]
    crossing.finished, crossing.failure = simulation.finished, simulation.failure
    return crossing


def _go_on_as(known: Crossing, simulation: WatchedSimulation, observer: Observer) -> None:
    later, observation = simulation.crossed_at - known.now, observer.observation
    simulation.trace += known.trace
    simulation.history += [(at + later, *rest) for at, *rest in known.history]
    simulation.finished, simulation.failure = known.finished, known.failure
    for part, mark in zip(PARTS, known.marks, strict=True):
        value = known.seen[part]
        setattr(observation, part, getattr(observation, part) + value if mark >= 0 else value)


def _ending(trial: Trial) -> tuple[Any, ...]:
    return trial.finished, trial.rows_committed, trial.anomalies
