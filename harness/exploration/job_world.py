"""Presents the certifying job to the explorer as states (target and checkpoint storage) and their successors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from sinkproof.chaos.canonical_names import FINDABLE_IDS, by_distance, canonical
from sinkproof.chaos.crash_closure import ExploredRun, digest
from sinkproof.chaos.schedule import IN_ORDER, STANDARD, Fault, Schedule, trimmed
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.fingerprints import Opaque
from sinkproof.exploration.run_memo import Mark, MemoizedRuns, WatchedSimulation
from sinkproof.exploration.run_state import is_new, opening_of
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION, MemoryCheckpointStorage
from sinkproof.reference_engine.dataflow.subtask import Effect
from sinkproof.reference_engine.shells.carry_out_effects import open_sink
from sinkproof.reference_engine.shells.simulated.simulation import Simulation
from sinkproof.subject.claims import ORACLE_CLAIMS
from sinkproof.subject.scratch import freeze_folder, thaw_folder
from sinkproof.workload.jobs import named_job

PointListener = Callable[[Simulation, str], None]


@dataclass(frozen=True, slots=True)
class JobState:
    """What a whole-job crash leaves behind, and the crashes that led to it."""

    generation: int
    record: CheckpointRecord | None
    target: Any
    path: tuple[Fault, ...] = ()
    prelude: tuple[Fault, ...] = ()  # faults injected in the run from here; occurrences count from here
    orders: tuple[str, ...] = (IN_ORDER,)  # of each run so far, and of the run from here
    passed: Counter[tuple[int, str]] | None = None  # how often each point was passed before the last crash
    names: tuple[str, ...] = ()  # of actors by id
    is_known: bool = False  # the prelude was injected in an equal state before, so its outcome is known


Between = Callable[[RunResult, Sequence[Mark]], Sequence[Fault]]


class JobWorld:
    """Runs the certifying job from any durable state. `trace_lines` makes executed lines points, too.

    `ids`: the number after which checkpoint ids and generations begin. `order`: in which subtasks take turns in the
    first run. `orders`: other orders in which each run is repeated. `between`: computes, from a run and its marks, the
    faults that may be injected before the next whole-job crash. `memo`: reuses outcomes of equal states. `times_most`:
    how many passes of one point by one actor are places to crash in one run.
    """

    def __init__(
        self,
        runner: ScheduleRunner,
        *,
        job: str = STANDARD,
        trace_lines: bool = False,
        preludes: Sequence[tuple[Fault, ...]] = ((),),
        ids: int = 0,
        order: str = IN_ORDER,
        orders: Sequence[str] = (),
        between: Between | None = None,
        memo: MemoizedRuns | None = None,
        times_most: float = inf,
    ) -> None:
        self.runner, self.job, self.preludes = runner, job, preludes
        self.ids, self.order, self.orders, self.between, self.memo = ids, order, orders, between, memo
        self.times_most = times_most
        self.contract, self.scratch = runner.contract, runner.scratch
        self.trace_lines = trace_lines
        self.simulation: Simulation | None = None
        self.state: JobState | None = None
        self.points: set[str] = set()  # passed in any run
        self.in_threads: set[str] = set()  # of them, by threads of the sink
        self.openings: set[bytes] = set()  # digests of states in which all sinks had just been opened
        self.known_from: int | None = None  # index in the last trace: the rest is known
        self._record_text: tuple[Any, str] = (None, "None")  # the last record, and its text
        self._target_version = self.contract.optional("version")
        self._canonical = self.contract.optional("canonical")
        self._while_powered = self.contract.optional("while_powered") if self._canonical is not None else None

    def beginnings(self) -> Sequence[JobState]:
        self.runner.reset()
        empty = self.freeze_target()
        return [
            JobState(FIRST_GENERATION - 1 + self.ids, None, empty, prelude=prelude, orders=(self.order,))
            for prelude in self.preludes
        ]

    def version(self) -> Any:
        if self._target_version is None:
            return None
        return self._target_version(self.scratch), self._storage().version

    def exact(self) -> int | None:
        """A hash of the exact state, for targets that are copied as bytes. Buffers that only a power loss destroys are
        left out, as they are from `text`.
        """
        frozen = self.freeze_target() if self._while_powered is None else self._while_powered(self.scratch)
        return hash((frozen, self._live())) if isinstance(frozen, bytes) else None

    def _live(self) -> str:
        """The checkpoint record as text, computed once for each record."""
        record = self._storage().record
        if record is not self._record_text[0]:
            self._record_text = record, repr(record)
        return self._record_text[1]

    def text(self) -> str:
        return self._text_with(self._live())

    def _text_with(self, live: str) -> str:
        """`live`: the state outside the target. A contract may make names anonymous that `live` does not contain."""
        target = self.freeze_target() if self._canonical is None else self._canonical(self.scratch, live)
        text = live + (repr(target) if self._canonical is None else str(target))
        if self.ids != FINDABLE_IDS:
            return text
        record = self._storage().record
        return by_distance(text, last=self.ids if record is None else record.checkpoint_id)

    def point(self) -> str:
        assert self.simulation is not None
        return self.simulation.trace[-1][1]

    def freeze(self) -> JobState:
        assert self.simulation is not None
        assert self.state is not None
        trace, names = self.simulation.trace, self.simulation.names
        passed = Counter(self.state.passed or ())
        passed.update(trace)
        actor, point = trace[-1]
        crash = Fault(names[actor], point, passed[actor, point], "kill-job")
        storage = self._storage()
        path = (*self.state.path, *_from_the_start(self.simulation.faults.injected, self.state), crash)
        orders = (*self.state.orders, IN_ORDER)
        return JobState(
            storage.generation, storage.record, self.freeze_target(), path, passed=passed, orders=orders, names=names
        )

    def branches(self, state: JobState) -> Sequence[JobState]:
        """The same state, but subtasks take turns in another order, or a fault is injected before the next crash."""
        if state.prelude:
            return []
        others = [replace(state, orders=(*state.orders[:-1], order)) for order in self.orders]
        if self.between is None or self.simulation is None:
            return others
        clock_was_read = isinstance(self.simulation, WatchedSimulation) and self.simulation.clock_reads
        marks = [] if self.memo is None or clock_was_read else self.memo.marks  # marks do not compare clock readings
        faults = self.between(self.last_result(Schedule()), marks)
        return others + [replace(state, prelude=(fault,), is_known=self._is_known(fault)) for fault in faults]

    def _is_known(self, fault: Fault) -> bool:
        assert self.simulation is not None
        actor = self.simulation.names.index(fault.actor)
        return fault.occurrence > self.simulation.trace[: self.known_from].count((actor, fault.point))

    def run(self, state: JobState, visit: Callable[[], None] | None, *, in_full: bool = False) -> ExploredRun:
        if state.is_known and not in_full:
            return ExploredRun(was_run=False)
        self.thaw_target(state.target)
        storage = MemoryCheckpointStorage(generation=state.generation, record=state.record)
        schedule = Schedule(state.prelude, job=self.job, ids=self.ids, orders=trimmed(state.orders[-1:]))
        marking = self.between is not None and not state.prelude and visit is not None
        whole = in_full or marking or self.trace_lines
        memo = None if whole or self.memo is None or not self.memo.is_worth_it else self.memo
        kind = WatchedSimulation if marking or memo is not None else Simulation
        simulation, observer = self.runner.simulation(schedule, storage=storage, shell=kind)
        self.simulation, self.state, self.observer = simulation, state, observer
        if visit is not None:
            simulation.on_point = self._listener(visit, marking=marking)
        if marking:
            simulation.actions = {**simulation.actions, "open": self._opening}
            self.known_from = None
        known = 0
        if memo is not None and isinstance(simulation, WatchedSimulation):
            join_point = memo.play(simulation, observer, resumed=True)
            known = 0 if join_point is None else len(join_point.trace)
        else:
            self.runner.play(simulation, trace_lines=self.trace_lines)
        if visit is not None and not in_full:  # an audit in full only compares states; no crash of it is explored
            self.points.update(point for _, point in simulation.trace)
            self.in_threads |= simulation.in_threads
        found = self.runner.judge(observer)
        claims = self.contract.claims
        return ExploredRun(found, known, is_wrong=any(ORACLE_CLAIMS[anomaly.oracle] & claims for anomaly in found))

    def _opening(self, shell: Simulation, key: Any, effect: Effect) -> None:
        """When the last sink is open: keeps the state, or notes that an earlier run was in the same state."""
        open_sink(shell, key, effect)
        if self.memo is None or not is_new(shell, opened=True):
            return
        assert self.state is not None
        with suppress(Opaque):
            opening = opening_of(shell, self.observer, outside=self.memo.outside)
            here = digest(canonical(f"{self._text_with(self._live() + opening)}{self.state.orders[-1:]}"))
            if here in self.openings:
                self.known_from = len(shell.trace)
            self.openings.add(here)

    def _listener(self, visit: Callable[[], None], *, marking: bool) -> PointListener:
        if self.between is not None and not marking:  # the points before the fault were visited in the run without it
            return lambda shell, point: visit() if shell.faults.injected else None
        if marking and self.memo is not None and isinstance(self.simulation, WatchedSimulation):
            return self._mark_and_visit(visit, note=self.memo.marker(self.simulation, self.observer))
        return (lambda shell, point: visit()) if self.times_most == inf else self._visit_first_passes(visit)

    def _mark_and_visit(self, visit: Callable[[], None], *, note: PointListener) -> PointListener:
        def on_point(shell: Simulation, point: str) -> None:
            note(shell, point)
            visit()

        return on_point

    def _visit_first_passes(self, visit: Callable[[], None]) -> PointListener:
        passed: Counter[tuple[int, str]] = Counter()

        def on_point(shell: Simulation, point: str) -> None:
            place = shell.trace[-1]
            passed[place] += 1
            if passed[place] <= self.times_most:
                visit()

        return on_point

    @property
    def names(self) -> Sequence[str]:
        return named_job(self.job).widest.names

    def last_result(self, schedule: Schedule) -> RunResult:
        """The result of the last run, as a run of this schedule."""
        assert self.simulation is not None
        return self.runner.result_of(schedule, self.simulation, self.observer)

    def _storage(self) -> MemoryCheckpointStorage:
        assert self.simulation is not None
        assert isinstance(self.simulation.storage, MemoryCheckpointStorage)
        return self.simulation.storage

    def freeze_target(self) -> Any:
        if self.contract.copies:
            return self.contract.copy(self.scratch)
        return freeze_folder(self.scratch.path)

    def schedule(self, state: JobState) -> Schedule:
        """The faults that led to this state, and its prelude, as one schedule."""
        faults = (*state.path, *_from_the_start(state.prelude, state))
        return Schedule(faults, job=self.job, ids=self.ids, orders=trimmed(state.orders))

    def thaw_target(self, target: Any) -> None:
        if self.contract.copies:
            self.contract.put_back(self.scratch, target)
        else:
            thaw_folder(self.scratch.path, target)


def _from_the_start(faults: Sequence[Fault], state: JobState) -> tuple[Fault, ...]:
    """A run from a state counts occurrences from its own beginning; a schedule counts from that of the first run."""
    passed = state.passed
    if not passed:
        return tuple(faults)
    actors = {name: actor for actor, name in enumerate(state.names)}
    return tuple(
        replace(fault, occurrence=fault.occurrence + passed[actors[fault.actor], fault.point]) for fault in faults
    )
