"""Runs one schedule on one subject in the simulated shell: from the empty target to a judged result."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, Self
from zlib import crc32

from sinkproof.chaos.lines import LineTracer, file_points
from sinkproof.chaos.requests.socket_points import POINT as SENDS
from sinkproof.chaos.schedule import STANDARD, Schedule
from sinkproof.chaos.wall_clock import WallClock
from sinkproof.execution.contract_host import ContractHost, ContractTarget
from sinkproof.execution.run_result import RunResult, restarts_in
from sinkproof.judging.altered_rows import Fields, doubtful_column, why_not_compared
from sinkproof.judging.coordinator_rules import checked
from sinkproof.judging.fault_allowances import (
    LATE_SETTLING,
    LONG_WAITS,
    MOVED_CLOCK,
    OUTAGE,
    REFUSABLE,
    SUSPENDED_FOR_LONG,
    gave_up_before_a_zombie_went_on,
    still_promised,
)
from sinkproof.judging.observer import Observer
from sinkproof.judging.oracle import Anomaly, fields_of, judge
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION, MemoryCheckpointStorage
from sinkproof.reference_engine.shells.job import Host, Job
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.reference_engine.shells.simulated.simulation import Simulation
from sinkproof.subject.claims import Claim
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.scratch import Scratch, clear_folder
from sinkproof.subject.source_files import OwnCode, own_code
from sinkproof.subject.static_analysis.names_in_code import COMPUTED_IMPORTS, has_name
from sinkproof.workload.job_names import HUNDREDS_OF_CHECKPOINTS_JOB, REFUSABLE_JOBS, TOGETHER
from sinkproof.workload.jobs import INPUTS, input_of, named_job
from sinkproof.workload.ledger import Identity, Ledger
from sinkproof.workload.made_jobs import APART

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
COORDINATOR_CHECKED_EVERY: Final = 10  # of all other schedules: the check takes almost as long as the run itself
COORDINATOR_FAULTS: Final = frozenset({"decline", "late", "cancel", "drain"})  # the coordinator has to react to these
# Thresholds of the garbage collector: a run makes thousands of objects, most of which are gone when it is over.
COLLECTED_AFTER: Final = (20_000, 20, 50)
GROWN_MOST: Final = 48 << 20  # bytes of this process, since all of its dead objects were collected last


def resident_bytes() -> int:
    """Of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


class ScheduleRunner:
    """A contract and its scratch folder: everything that stays the same from run to run. Use as a context manager:
    entering calls the contract's `setup`, leaving its `teardown`.
    """

    # After the last collection. Python itself collects what has grown old by the number of objects that have grown old
    # since, and does not count those that were frozen meanwhile.
    bytes_left: ClassVar[int] = 0

    def __init__(self, contract: Contract, scratch: Scratch) -> None:
        self.contract, self.scratch = contract, replace(scratch, clock=self.seconds)
        self.target = ContractTarget(contract, self.scratch)
        self._running: Simulation | None = None
        self.locked_at: set[str] = set()  # points: suspended there, an attempt holds a lock that a reader waits for
        self.attach: Callable[[Simulation, Observer], None] | None = None  # called before each run
        self.ledgers = {name: Ledger(source) for name, source in INPUTS.items()}
        self.ordered = Claim.ORDER_PER_KEY in contract.claims
        self.fields: Fields | None = None  # that the reader shows; None: no run without faults has told
        self.not_compared = ""  # why keys or values are not, as the same run tells
        self.doubtful = ""  # why every row may be altered
        self.shows_more = False  # than identities, in any run
        self.own_code = OwnCode()
        self.tracer = LineTracer({})
        self._empty: Any = None

    def __enter__(self) -> Self:
        self.contract.call_if_there("setup", self.scratch)
        self._collected_after = gc.get_threshold()
        gc.freeze()
        if self.contract.copies:
            self._empty = self.contract.copy(self.scratch)
            gc.set_threshold(*COLLECTED_AFTER)
        return self

    def __exit__(self, *_: object) -> None:
        gc.unfreeze()
        gc.set_threshold(*self._collected_after)
        if resident_bytes() > ScheduleRunner.bytes_left + GROWN_MOST:
            gc.collect()
            ScheduleRunner.bytes_left = resident_bytes()
        self.contract.call_if_there("teardown", self.scratch)

    @property
    def moves_wall_clock(self) -> bool:
        """Of attempts, in jobs with a wall clock of their own."""
        return False

    def wall_clock_of(self, job: Job) -> WallClock | None:
        """Where attempts of this job see another time than the true one."""
        return None

    @property
    def target_may_expire(self) -> bool:
        """Whether something but the sink may remove what the target keeps, after a day."""
        return True

    @property
    def files(self) -> Mapping[str, str]:
        """The sink's own code: path -> name in points. Empty until `find_own_files` was called."""
        return self.tracer.files

    def find_own_files(self) -> None:
        """Makes the sink's own lines traceable. Creates a sink to find the classes that it consists of. A module
        that is imported by a computed name is found by a run.
        """
        sink = self.contract.sink(self.scratch)
        self._know_code(sink)
        if has_name(self.files, *COMPUTED_IMPORTS):
            with suppress(ContractError, ReaderFailed):  # the baseline says so
                self.run(Schedule())
                self._know_code(sink)
                self.reset()

    def _know_code(self, sink: Any) -> None:
        with self.contract.state():
            self.own_code = own_code(self.contract.given, sink, imported=self.imported_by_attempts)
        self.tracer = LineTracer(self.own_code.files)

    @property
    def imported_by_attempts(self) -> Sequence[str]:
        """Modules that the last run has imported in other processes."""
        return ()

    def reset(self) -> None:
        """Empties the target."""
        if self.contract.copies:
            self.contract.put_back(self.scratch, self._empty)
        else:
            self.contract.call_if_there("teardown", self.scratch)
            clear_folder(self.scratch.path)
            self.contract.call_if_there("setup", self.scratch)

    def seconds(self) -> float:
        """The clock that the target sees."""
        return 0.0 if self._running is None else self._running.seconds()

    def committed_rows(self) -> list[Identity]:
        """What an independent reader sees between two runs."""
        return Observer(self.contract, self.scratch, self.ledgers[STANDARD]).read() or []

    def ledger(self, job: str) -> Ledger:
        """The rows that the sources of this job hold."""
        if job not in self.ledgers:
            self.ledgers[job] = Ledger(input_of(job))
        return self.ledgers[job]

    def new_host(self, job: Job) -> Host:
        """Where the attempts of one run live."""
        return ContractHost(self.contract, self.scratch)

    def simulation(
        self,
        schedule: Schedule,
        *,
        storage: Any = None,
        shell: type[Simulation] = Simulation,
        concurrent_reader: bool = False,
    ) -> tuple[Simulation, Observer]:
        """The job of this schedule, ready to run, and its observer. `concurrent_reader`: the observer also reads at
        each point where the target has changed.
        """
        job, ledger = named_job(schedule.job), self.ledger(schedule.job)
        observer = Observer(self.contract, self.scratch, ledger, files=self.files)
        observer.locked_at = self.locked_at
        storage = storage or MemoryCheckpointStorage(generation=FIRST_GENERATION - 1 + schedule.ids)
        made = shell(job, self.new_host(job), storage=storage, watcher=observer, schedule=schedule, target=self.target)
        self._running = made
        if job.outage_seconds and self.target_may_expire:
            observer.observation.kinds.append(OUTAGE)
        refusable = schedule.job.startswith(APART) or not {*schedule.job.split(TOGETHER)}.isdisjoint(REFUSABLE_JOBS)
        if refusable:
            observer.observation.kinds.append(REFUSABLE)
        if job.timing.settle > 1:
            observer.observation.kinds.append(LATE_SETTLING)
        if concurrent_reader:
            made.on_point = observer.read_concurrently
        return made, observer

    def judge(self, observer: Observer) -> tuple[Anomaly, ...]:
        self.shows_more |= bool(observer.observation.rows)
        found = judge(
            *(observer.ledger, observer.observation),
            rows=self.contract.rows,
            ordered=self.ordered,
            fields=self.fields,
        )
        return still_promised(found, observer.observation, claims=self.contract.claims) if found else found

    def note_fields(self, schedule: Schedule, observer: Observer) -> None:
        """What the reader shows of each row is known after the first run of the standard job without faults."""
        if self.fields is None and schedule == Schedule():
            self.fields = fields_of(observer.ledger, observer.observation)
            seen = observer.observation
            self.not_compared = why_not_compared(seen.rows, self.fields, committed=len(seen.committed))
            self.doubtful = doubtful_column(observer.ledger, seen.committed, seen.rows, fields=self.fields)

    def run(self, schedule: Schedule, *, trace_lines: bool = False, concurrent_reader: bool = False) -> RunResult:
        """From the empty target to the end. `trace_lines`: executed lines of the sink are points, too."""
        self.reset()
        simulation, observer = self.simulation(schedule, concurrent_reader=concurrent_reader)
        if self.attach is not None:
            self.attach(simulation, observer)
        self.play(simulation, trace_lines=trace_lines)
        if observer.has_ended_suspended:  # the reader waited for it; it does not read there again
            return self.run(schedule, trace_lines=trace_lines, concurrent_reader=concurrent_reader)
        result = self.result_of(schedule, simulation, observer)
        result = replace(result, read_concurrently=True) if concurrent_reader else result
        concerned = not schedule.faults or not COORDINATOR_FAULTS.isdisjoint(fault.kind for fault in schedule.faults)
        if not (concerned or is_drawn(schedule)):
            return result
        broken, pending = checked(simulation.terms, simulation.job.configuration)
        return replace(result, broken_rule=broken, checkpoints_pending=pending)

    def run_alone(self, schedule: Schedule, **options: bool) -> RunResult:
        """As `run`, without a campaign. Where a reader shows more than identities, a run without faults tells which
        fields, and the schedule is run once more: it may alter every row.
        """
        result = self.run(schedule, **options)
        if self.fields is not None or not self.shows_more:
            return result
        self.run(Schedule())
        return self.run(schedule, **options)

    def play(self, simulation: Simulation, *, trace_lines: bool = False) -> None:
        """Runs it with points at file effects, unless the sink names points itself, and (`trace_lines`) at lines."""
        own_points = self.contract.marks_points
        effects = nullcontext() if own_points else file_points(self.scratch.path, simulation.reach)
        lines = self.tracer(simulation.reach) if trace_lines else nullcontext()
        with self.contract.state(), effects, lines:
            simulation.play()
        self._release(simulation)
        self.target.raise_what_failed()

    def _release(self, simulation: Simulation) -> None:
        """Finalises the sinks of this run now, not in the middle of the next one: a sqlite connection that the garbage
        collector finds rolls back, and removes a journal by its name. Freezing makes 10 ms into 0.1 ms.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # an attempt that died has closed no files
            simulation.sinks.clear()
            simulation.host.close()
            if not self.contract.copies:
                gc.collect()
                gc.freeze()

    def result_of(self, schedule: Schedule, simulation: Simulation, observer: Observer) -> RunResult:
        committed = observer.observation.committed
        moved = self.wall_clock_of(simulation.job) is not None
        if moved and any(point == SENDS for _, point in simulation.trace):
            observer.observation.kinds.append(MOVED_CLOCK)
        if HUNDREDS_OF_CHECKPOINTS_JOB in schedule.job and gave_up_before_a_zombie_went_on(simulation.history):
            observer.observation.kinds.append(SUSPENDED_FOR_LONG)
        if simulation.job.patient:
            observer.observation.kinds.append(LONG_WAITS)
        self.note_fields(schedule, observer)
        return RunResult(
            schedule=schedule,
            struck=tuple(simulation.faults.injected),
            anomalies=self.judge(observer),
            trace=simulation.trace,
            names=simulation.names,
            history=simulation.history,
            finished=simulation.finished,
            failure=simulation.failure,
            rows_committed=len(committed),
            struck_line=observer.struck_line,
            readings=observer.observation.readings,
            doubtful_hook=observer.observation.doubtful_hook,
            unreadable=observer.observation.unreadable,
            restarts=restarts_in(simulation.history),
            moved_wall_clock=moved,
        )


def is_drawn(schedule: Schedule) -> bool:
    """Whether its run is one of those that check the coordinator: the same ones in whichever process they run."""
    return crc32(str(schedule).encode()) % COORDINATOR_CHECKED_EVERY == 0
