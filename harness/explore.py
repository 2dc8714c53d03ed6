"""The certifying job as a world for the explorer: its durable state is the target and the checkpoint storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sinkproof.chaos.schedule import STANDARD, Fault, Schedule
from sinkproof.observe import Observer
from sinkproof.reference_engine.checkpoint_storage import FIRST_GENERATION, MemoryCheckpointStorage
from sinkproof.reference_engine.coordinator import CheckpointRecord
from sinkproof.reference_engine.shells.simulated import Simulation
from sinkproof.scratch import freeze_folder, thaw_folder
from sinkproof.trial import Laboratory, Tracing, Trial, no_tracing
from sinkproof.workload import named_job


@dataclass(frozen=True, slots=True)
class JobState:
    """What a whole-job crash leaves behind, and the crashes that led to it."""

    generation: int
    record: CheckpointRecord | None
    target: Any
    path: tuple[Fault, ...] = ()
    prelude: tuple[Fault, ...] = ()  # faults that strike on the way from here: a lost message, a declined vote
    passed: Counter[tuple[int, str]] | None = None  # how often each point was passed before the last crash


class JobWorld:
    """Runs the laboratory's job from any durable state. `tracing` makes executed lines points, too."""

    def __init__(
        self,
        laboratory: Laboratory,
        *,
        job: str = STANDARD,
        tracing: Tracing = no_tracing,
        preludes: Sequence[tuple[Fault, ...]] = ((),),
    ) -> None:
        self.laboratory, self.job, self.preludes = laboratory, job, preludes
        self.contract, self.scratch = laboratory.contract, laboratory.scratch
        self.tracing = tracing
        self.simulation: Simulation | None = None
        self.state: JobState | None = None
        self.points: Counter[str] = Counter()  # how often each point was a place to crash
        self._target_version = self.contract.optional("version")
        self._canonical = self.contract.optional("canonical")

    def beginnings(self) -> Sequence[JobState]:
        self.laboratory.reset()
        empty = self.freeze_target()
        return [JobState(FIRST_GENERATION - 1, None, empty, prelude=prelude) for prelude in self.preludes]

    def version(self) -> Any:
        if self._target_version is None:
            return None
        return self._target_version(self.scratch), self._storage().version

    def text(self) -> str:
        """The live part is what only the record can name; committed things nowhere named in it may be anonymous."""
        live = repr(self._storage().record)
        if self._canonical is not None:
            return live + str(self._canonical(self.scratch, live))
        return live + repr(self.freeze_target())

    def freeze(self) -> JobState:
        assert self.simulation is not None
        assert self.state is not None
        trace, names = self.simulation.trace, self.simulation.names
        passed = Counter(self.state.passed or ())
        passed.update(trace)
        actor, point = trace[-1]
        crash = Fault(names[actor], point, passed[actor, point], "kill-job")
        storage = self._storage()
        path = (*self.state.path, *self.simulation.struck, crash)
        return JobState(storage.generation, storage.record, self.freeze_target(), path, passed=passed)

    def run(self, state: JobState, visit: Callable[[], None] | None) -> Sequence[Any]:
        self.thaw_target(state.target)
        storage = MemoryCheckpointStorage(generation=state.generation, record=state.record)
        simulation, observer = self.laboratory.simulation(Schedule(state.prelude, job=self.job), storage=storage)
        self.simulation, self.state = simulation, state
        if visit is None:
            self.laboratory.play(simulation)
        else:
            simulation.spy = lambda _, point: visit()
            self.laboratory.play(simulation, tracing=self.tracing)
            self.points.update(point for _, point in simulation.trace)
        self.observer: Observer = observer
        return self.laboratory.judge(observer)

    @property
    def names(self) -> Sequence[str]:
        return named_job(self.job).widest.names

    def last_trial(self, schedule: Schedule) -> Trial:
        """The run before, as one of this schedule."""
        assert self.simulation is not None
        return self.laboratory.trial(schedule, self.simulation, self.observer)

    def _storage(self) -> MemoryCheckpointStorage:
        assert self.simulation is not None
        assert isinstance(self.simulation.storage, MemoryCheckpointStorage)
        return self.simulation.storage

    def freeze_target(self) -> Any:
        if self.contract.copies:
            return self.contract.given.freeze(self.scratch)
        return freeze_folder(self.scratch.path)

    def schedule(self, state: JobState) -> Schedule:
        """The faults that led to this state, and those that strike on the way from it, as one line."""
        return Schedule((*state.path, *state.prelude), job=self.job)

    def thaw_target(self, target: Any) -> None:
        if self.contract.copies:
            self.contract.given.thaw(self.scratch, target)
        else:
            thaw_folder(self.scratch.path, target)
