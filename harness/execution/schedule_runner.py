"""One schedule tried on one subject: run it, look, judge. What campaigns, replays and plugins are made of."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from sinkproof.chaos.lines import file_points
from sinkproof.chaos.schedule import STANDARD, Fault, Schedule
from sinkproof.execution.contract_host import ContractHost, ContractTarget
from sinkproof.judging.coordinator_rules import broken_rule
from sinkproof.judging.fault_allowances import LATE_SETTLING, OUTAGE, still_promised
from sinkproof.judging.observer import Observer
from sinkproof.judging.oracle import Anomaly, judge
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION, MemoryCheckpointStorage
from sinkproof.reference_engine.shells.job import Host
from sinkproof.reference_engine.shells.simulated.simulation import Simulation
from sinkproof.reports.document import SourceLine
from sinkproof.subject.claims import Claim
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import Scratch, clear_folder
from sinkproof.workload.jobs import INPUTS, input_of, named_job
from sinkproof.workload.ledger import Identity, Ledger

Tracing = Callable[[Callable[[str], None]], AbstractContextManager[Any]]


def no_tracing(reach: Callable[[str], None]) -> AbstractContextManager[Any]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What came of one schedule."""

    schedule: Schedule
    struck: tuple[Fault, ...]  # fewer than the schedule's: the others never found their place
    anomalies: tuple[Anomaly, ...]
    trace: list[tuple[int, str]]  # every point passed, in order: (actor id, point)
    names: tuple[str, ...]  # of actors by id
    history: list[tuple[Any, ...]]
    finished: bool
    failure: str
    rows_committed: int
    rows_committed_after: int  # after the last fault
    log: bytes = b""  # where it is not made of the history
    struck_line: SourceLine | None = None
    unreadable: str = ""  # why the committed view could not be read in the end
    kills: int = 0  # counted from wait statuses
    broken_rule: str = ""  # of a coordinator's, where a referee has watched

    @property
    def event_log(self) -> bytes:
        """The event log: byte-equal for the same schedule and seed, in any process."""
        return self.log or "\n".join(map(repr, self.history)).encode()

    @property
    def fired(self) -> bool:
        return len(self.struck) == len(self.schedule.faults)


REFEREED_EVERY: Final = 10  # other runs: the referee takes almost as long as the run itself
ASKED_OF_COORDINATORS: Final = frozenset({"decline", "late", "cancel", "drain"})  # what they alone have to answer
# Of the garbage collector: a run makes thousands of objects, most of which are gone when it is over.
COLLECTED_AFTER: Final = (20_000, 20, 50)


class ScheduleRunner:
    """A contract, its scratch and a job: everything that stays the same from trial to trial.

    Use as a context manager.
    """

    def __init__(
        self,
        contract: Contract,
        scratch: Scratch,
    ) -> None:
        self.contract, self.scratch = contract, replace(scratch, clock=self.seconds)
        self.target = ContractTarget(contract, self.scratch)
        self.watches = False  # a reader looks wherever the target has changed
        self.runs = 0
        self._running: Simulation | None = None
        self.ledgers = {name: Ledger(source) for name, source in INPUTS.items()}
        self.ordered = Claim.ORDER_PER_KEY in contract.claims
        self.files: Mapping[str, str] = {}  # the sink's own code: path -> name in points
        self.counts_rows = False  # at each fault; a reading costs as much as the rest of a simulated run
        self._empty: Any = None

    def __enter__(self) -> Self:
        self.contract.call_if_there("setup", self.scratch)
        self._collected_after = gc.get_threshold()
        gc.freeze()
        if self.contract.copies:
            self._empty = self.contract.given.freeze(self.scratch)
            gc.set_threshold(*COLLECTED_AFTER)
        return self

    def __exit__(self, *_: object) -> None:
        gc.unfreeze()
        gc.set_threshold(*self._collected_after)
        self.contract.call_if_there("teardown", self.scratch)

    def reset(self) -> None:
        """Back to the empty target."""
        if self.contract.copies:
            self.contract.given.thaw(self.scratch, self._empty)
        else:
            self.contract.call_if_there("teardown", self.scratch)
            clear_folder(self.scratch.path)
            self.contract.call_if_there("setup", self.scratch)

    def seconds(self) -> float:
        """The clock that the target sees."""
        return 0.0 if self._running is None else self._running.seconds()

    def look(self) -> list[Identity]:
        """What an independent reader sees between two runs."""
        return Observer(self.contract, self.scratch, self.ledgers[STANDARD]).read() or []

    def ledger(self, job: str) -> Ledger:
        """What the sources of this job hold."""
        if job not in self.ledgers:
            self.ledgers[job] = Ledger(input_of(job))
        return self.ledgers[job]

    def new_host(self) -> Host:
        """Where the attempts of one run live."""
        return ContractHost(self.contract, self.scratch)

    def simulation(
        self, schedule: Schedule, *, storage: Any = None, shell: type[Simulation] = Simulation
    ) -> tuple[Simulation, Observer]:
        job, ledger = named_job(schedule.job), self.ledger(schedule.job)
        observer = Observer(self.contract, self.scratch, ledger, files=self.files, counts_rows=self.counts_rows)
        storage = storage or MemoryCheckpointStorage(generation=FIRST_GENERATION - 1 + schedule.ids)
        made = shell(job, self.new_host(), storage=storage, watcher=observer, schedule=schedule)
        made.target, self._running = self.target, made
        if job.outage_seconds:
            observer.observation.kinds.append(OUTAGE)
        if job.timing.settle > 1:
            observer.observation.kinds.append(LATE_SETTLING)
        if self.watches:
            made.spy = observer.read_concurrently
        return made, observer

    def judge(self, observer: Observer) -> tuple[Anomaly, ...]:
        found = judge(observer.ledger, observer.observation, rows=self.contract.rows, ordered=self.ordered)
        return still_promised(found, observer.observation, claims=self.contract.claims) if found else found

    def run(self, schedule: Schedule, *, tracing: Tracing = no_tracing) -> RunResult:
        """From the empty target to the end. `tracing` makes executed lines points."""
        self.reset()
        simulation, observer = self.simulation(schedule)
        self.play(simulation, tracing=tracing)
        run_result = self.run_result(schedule, simulation, observer)
        asked = not schedule.faults or not ASKED_OF_COORDINATORS.isdisjoint(fault.kind for fault in schedule.faults)
        is_refereed = asked or self.runs % REFEREED_EVERY == 0
        self.runs += 1
        broken = broken_rule(simulation.terms, simulation.job.configuration) if is_refereed else ""
        return replace(run_result, broken_rule=broken) if broken else run_result

    def play(self, simulation: Simulation, *, tracing: Tracing = no_tracing) -> None:
        """Runs it with points at file effects, where the sink has no points of its own, and at lines, if asked for."""
        own_points = self.contract.marks_points
        effects = nullcontext() if own_points else file_points(self.scratch.path, simulation.reach)
        with effects, tracing(simulation.reach):
            simulation.play()
        self._let_go(simulation)
        self.target.raise_what_failed()

    def _let_go(self, simulation: Simulation) -> None:
        """Nothing of this run may be finalised in the middle of the next one: a connection to sqlite that is
        collected rolls back, and removes a journal by its name. Freezing makes that 10 ms into 0.1 ms.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the dead close no files
            simulation.sinks.clear()
            simulation.host.close()
            if not self.contract.copies:
                gc.collect()
                gc.freeze()

    def run_result(self, schedule: Schedule, simulation: Simulation, observer: Observer) -> RunResult:
        committed = observer.observation.committed
        return RunResult(
            schedule=schedule,
            struck=tuple(simulation.struck),
            anomalies=self.judge(observer),
            trace=simulation.trace,
            names=simulation.names,
            history=simulation.history,
            finished=simulation.finished,
            failure=simulation.failure,
            rows_committed=len(committed),
            rows_committed_after=len(committed) - observer.rows_when_struck,
            struck_line=observer.struck_line,
            unreadable=observer.observation.unreadable,
        )
