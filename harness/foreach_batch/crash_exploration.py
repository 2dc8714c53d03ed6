"""Explores the states that crashes of a simulated query leave: every crash from every state, until no state is new."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.foreach_batch.certifying_query import EARLY, KILL, LEDGER, POINTS, anomalies_of
from sinkproof.foreach_batch.simulated_batches import CrashState, SimulatedQuery
from sinkproof.judging.altered_rows import Fields
from sinkproof.judging.oracle import Anomaly, Observation, fields_of
from sinkproof.subject.claims import Claim
from sinkproof.subject.scratch import freeze_folder


@dataclass(slots=True, kw_only=True)
class ExploredState:
    """One state, every crash that has led to it, and the result of its run."""

    first: CrashState
    ending: Observation | None = None  # None: it was not run
    anomalies: tuple[Anomaly, ...] = ()
    crashes: list[Fault] = field(default_factory=list)  # the last fault of each schedule that led to it


class Exploration:
    """Every crash from every state, breadth first, until no state is new or the budget is spent."""

    def __init__(self, query: SimulatedQuery, *, should_stop: Callable[[], bool], step: Callable[[str], None]) -> None:
        self.query, self.should_stop, self.step = query, should_stop, step
        self.states: dict[Any, ExploredState] = {}
        self.waiting: deque[Any] = deque()
        self.later: deque[Any] = deque()  # inside calls; they come when nothing else waits
        self.places: dict[str, Schedule] = {}  # call to the outside -> the first crash there
        self.bad_states = 0
        self.base = Observation()
        self.fields: Fields | None = None  # that the reader shows, as the run without crash tells

    def run_without_crash(self) -> bool:
        """False: the function is wrong without any crash, so that crashes prove nothing."""
        start = CrashState(target=freeze_folder(self.query.scratch.path))
        self.base, anomalies = self._explore(start)
        return all(anomaly.oracle == EARLY for anomaly in anomalies)

    def crash_once(self) -> None:
        """Runs every state after a single crash, whatever the budget."""
        while self.waiting and len(self.states[self.waiting[0]].first.faults) == 1:
            self._run(self.waiting.popleft())

    def crash_again(self) -> None:
        """Runs the states after a sequence of crashes, within the budget."""
        while (left := self.waiting or self.later) and not self.should_stop():
            self._run(left.popleft())

    def crash_inside(self, left: Sequence[CrashState]) -> tuple[dict[Schedule, Any], list[Schedule]]:
        """`left`: by deaths inside single calls (watched_query.py). Runs the states at the edges, that is with the
        first and the last call of each name, until it should stop and something is wrong already; the others wait.
        Returns all these schedules with their states' keys, and those at the edges. A state that has run is no part.
        """
        new: dict[Any, CrashState] = {}
        for crashed in left:
            self._note(crashed)
            if not self.has_run(crashed.key):
                new.setdefault(crashed.key, crashed)
        by_name: dict[str, list[Any]] = {}
        for key, crashed in new.items():
            by_name.setdefault(crashed.faults[-1].point, []).append(key)
        edges = dict.fromkeys(key for alike in by_name.values() for key in (alike[0], alike[-1]))
        self.later += [key for key in new if key not in edges]
        for key in edges:
            if self.bad_states and self.should_stop():
                break
            self._run(key)
        schedules = {key: Schedule(crashed.faults) for key, crashed in new.items()}
        return {schedule: key for key, schedule in schedules.items()}, [schedules[key] for key in edges]

    def add(self, left: Iterable[CrashState]) -> None:
        """The new ones of these states come later."""
        self.later += [crashed.key for crashed in left if self._note(crashed)]

    def has_run(self, key: Any) -> bool:
        return self.states[key].ending is not None

    def _run(self, key: Any) -> None:
        if self.has_run(key):
            return
        explored = self.states[key]
        self.step(str(Schedule(explored.first.faults)))
        explored.ending, explored.anomalies = self._explore(explored.first)

    def _explore(self, state: CrashState) -> tuple[Observation, tuple[Anomaly, ...]]:
        left: list[CrashState] = []
        ending = self.query.run(state, visit=lambda point: left.append(self.query.left_by(state, point, KILL)))
        if self.fields is None:
            self.fields = fields_of(LEDGER, ending)
        contract = self.query.contract
        ordered = Claim.ORDER_PER_KEY in contract.claims
        anomalies = anomalies_of(ending, contract.rows, ordered=ordered, fields=self.fields)
        if state.faults and anomalies:
            self.bad_states += 1
            return ending, anomalies  # a state with an anomaly is not crashed again
        for crashed in left:
            point = crashed.faults[-1].point
            if point not in POINTS and not is_line(point):
                self.places.setdefault(point, Schedule(crashed.faults))
            if self._note(crashed):
                self.waiting.append(crashed.key)
        return ending, anomalies

    def _note(self, crashed: CrashState) -> bool:
        """Whether the state is new."""
        known = self.states.setdefault(crashed.key, ExploredState(first=crashed))
        known.crashes.append(crashed.faults[-1])
        return known.first is crashed

    @property
    def complete(self) -> bool:
        return not self.waiting and not self.bad_states
