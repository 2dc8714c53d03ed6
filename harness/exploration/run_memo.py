"""State matching: a run that reaches a state that an earlier run reached is not run further; its outcome is known.

Runs are compared at two moments, and only after all faults of the schedule were injected:
1. A new generation has opened its last sink (or, for opaque sinks, is about to open its first) and has done nothing
   else. All that follows then depends on values that can be compared: the target, the restored checkpoint, the
   generation, the queued events and what the sinks hold.
2. The last zombie has ended. By then the new generation has worked for some time, so what its subtasks and the
   coordinator hold is compared, too.
When all of these are equal, the rest of the trace and the final committed view are equal. A pair of faults costs half
of a run or less this way, because many second faults lead to the same state.

This is exact for sinks that keep state only in the target and in their own attributes. A sink that holds an object that
cannot be compared (`Opaque`) is compared before it is opened, when it holds nothing. If a clock was read after the
state was reached, the times must be equal, too.
Every 200th reused outcome is checked against a full run; after one difference, no outcome is reused any more. A
schedule that breaks a claim is always run in full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from sinkproof.chaos.faults.fault_target import Killed
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.fingerprints import Opaque, outside_of
from sinkproof.exploration.run_state import PARTS, JoinPoint, contents_of, is_new, join_point_of
from sinkproof.judging.observer import Observer
from sinkproof.judging.oracle import Observation
from sinkproof.reference_engine.dataflow.subtask import Effect
from sinkproof.reference_engine.shells.carry_out_effects import open_sink, settle
from sinkproof.reference_engine.shells.simulated.simulation import Simulation
from sinkproof.sink_adapters.protocol import Sink

AUDITED_EVERY: Final = 200  # so rarely an audit takes half a percent of the time
CANDIDATES_MOST: Final = 40  # states under one key; a comparison takes 5 us, a saved run 200 us
KEPT_MOST: Final = 3_000  # states kept for comparison, some 70 KB each
SAMPLE_SIZE: Final = 200  # states kept before `is_worth_it` judges by the share of runs that matched
MATCHES_LEAST: Final = 0.05  # runs that match a kept state, for each state that is kept
Key = tuple[int, int]
# The parts of an observation that grow during a run. `kinds` (of faults) is left out: none of those injected in runs
# that are compared here waives a claim.
LISTS: Final = tuple(part for part in PARTS if part != "kinds" and isinstance(getattr(Observation(), part), list))


class Mark(NamedTuple):
    """The state of the job when an actor passed one entry of the trace."""

    status: tuple[Key, int]  # the actor (id, generation), and the event that it was handling
    durable: tuple[Any, int]  # versions of the target and of the checkpoint storage
    sent: tuple[float, int]  # the time, and how many events had been posted
    crash_state: int | None  # number of the state that a whole-job crash leaves here; None: it cannot be compared
    accesses: Any  # how often the target and the clock had been read; None: the target does not count its accesses


class WatchedSimulation(Simulation):
    """Counts the reads of the clock by sinks, and calls `on_zombies_ended` when the last zombie has ended."""

    __slots__ = ("clock_reads", "join_points", "matched_at", "on_zombies_ended", "zombie_present")

    def __init__(self, *given: Any, schedule: Schedule, **named: Any) -> None:
        super().__init__(*given, schedule=schedule, **named)
        self.clock_reads, self.matched_at = 0, 0.0
        self.join_points: list[tuple[Any, JoinPoint]] = []
        self.actions = {**self.actions, "settle": _settle_at}
        self.zombie_present = False  # a suspended attempt has resumed, and may still be running
        self.on_zombies_ended: Callable[[WatchedSimulation], None] = lambda _: None

    def clock_for(self, key: Key) -> Callable[[], float]:
        clock, is_of_engine = super().clock_for(key), True

        def read_clock() -> float:
            nonlocal is_of_engine
            if not is_of_engine:  # the engine reads it first, for the deadline
                self.note_clock_read()
            is_of_engine = False
            return clock()

        return read_clock

    def zombie_resuming(self, key: Key) -> None:
        super().zombie_resuming(key)
        self.zombie_present = True

    def _zombie_resumed(self, key: Key) -> None:
        super()._zombie_resumed(key)
        self._check_zombies_ended()

    def _cancel(self, key: Key, *, leave: Callable[[Sink], None]) -> None:
        super()._cancel(key, leave=leave)
        self._check_zombies_ended()

    def _attempt_failed(self, key: Key, error: BaseException) -> None:
        super()._attempt_failed(key, error)
        self._check_zombies_ended()

    def _check_zombies_ended(self) -> None:
        if self.zombie_present and not self.points_off and not self.faults.pending and is_new(self, opened=True):
            self.zombie_present = False
            self.on_zombies_ended(self)

    def note_clock_read(self) -> None:
        self.clock_reads += 1
        for _, join_point in self.join_points:
            join_point.clock_was_read = True


def _settle_at(shell: WatchedSimulation, key: Key, effect: Effect) -> None:
    """Settling passes the time to the sink."""
    shell.note_clock_read()
    settle(shell, key, effect)


class MemoizedRuns:
    """Runs schedules as `ScheduleRunner` does, but ends a run at a state that an earlier run reached, and takes the
    rest from that run. For contracts with freeze and thaw; with others (`why_not`) every schedule is run in full.

    `confirms`: a schedule that breaks a claim is run in full at once; without it, the caller calls `in_full` for each
    result that it shows. `trace_lines`: executed lines are points, in all runs.
    """

    def __init__(
        self,
        runner: ScheduleRunner,
        *,
        audited_every: int = AUDITED_EVERY,
        confirms: bool = True,
        trace_lines: bool = False,
    ) -> None:
        self.runner, self.audited_every, self.confirms = runner, audited_every, confirms
        self.trace_lines = trace_lines
        self.known: defaultdict[Any, list[JoinPoint]] = defaultdict(list)
        self.used = 0
        self.kept, self.matched = 0, 0
        self.outside = outside_of(runner.contract.given)
        self.marks: list[Mark] = []  # of the last marked run, one for each entry of its trace
        self.compares_open_sinks = True  # False after a sink was Opaque
        self.why_not = "" if runner.contract.copies else "the contract does not copy its target"
        self.crash_states: dict[Any, int] = {}  # state that a whole-job crash leaves -> its number
        self.copy = runner.contract.optional("while_powered") or getattr(runner.contract.given, "freeze", None)

    def run(self, schedule: Schedule, *, marked: bool = False) -> RunResult:
        """`marked`: keeps `marks`, up to the state at which the run matches an earlier one."""
        self.marks = []
        if self.why_not:
            return self.runner.run(schedule, trace_lines=self.trace_lines)
        self.runner.reset()
        simulation, observer = self.runner.simulation(schedule, shell=WatchedSimulation)
        assert isinstance(simulation, WatchedSimulation)
        if marked:
            simulation.on_point = self.marker(simulation, observer)
        found = self.play(simulation, observer)
        if simulation.clock_reads:
            self.marks = []  # a sink has read the clock, and marks do not compare what it read
        run_result = self.runner.result_of(schedule, simulation, observer)
        if found is None:
            return run_result
        run_result = replace(run_result, joined=True)
        self.used += 1
        is_due = self.used % self.audited_every == 0 or (self.confirms and run_result.anomalies)
        return self.in_full(run_result) if is_due else run_result

    @property
    def is_worth_it(self) -> bool:
        """Whether enough runs match earlier ones. Few do if each crash leaves something behind in the target."""
        return self.kept < SAMPLE_SIZE or self.matched >= MATCHES_LEAST * self.kept

    def marker(self, simulation: WatchedSimulation, observer: Observer) -> Callable[[Simulation, str], None]:
        """A listener that appends a mark to `marks` at each point of this run."""
        self.marks = marks = []
        version, scratch = self.runner.contract.optional("version"), self.runner.scratch
        if version is None:
            return lambda shell, point: None
        count_accesses = self.runner.contract.optional("touched") or (lambda scratch: None)
        before: tuple[Any, Any] = (None, None)

        def note(shell: Simulation, point: str) -> None:
            nonlocal before
            durable = version(scratch), shell.storage.version
            moment = durable, observer.is_up_to_date()
            if before[0] != moment:
                before = moment, self._crash_state(shell, observer, is_up_to_date=moment[1])
            accesses = count_accesses(scratch)
            accesses = None if accesses is None else (accesses, simulation.clock_reads)
            status, sent = (shell.actor, shell.handling), (shell.now, shell.sequence)
            marks.append(Mark(status, durable, sent, before[1], accesses))

        return note

    def _crash_state(self, simulation: Simulation, observer: Observer, *, is_up_to_date: bool) -> int | None:
        """Number of the state that a whole-job crash leaves now, with the observation so far. Runs that crash in states
        of one number have the same outcome.
        """
        storage, observation = simulation.storage, observer.observation
        try:
            target = contents_of(self._target())
            lists = tuple(tuple(getattr(observation, part)) for part in LISTS)
            state = target, repr(storage.latest()), simulation.generation, is_up_to_date, lists
            return self.crash_states.setdefault(state, len(self.crash_states))
        except (Opaque, TypeError):  # a part of it cannot be hashed
            return None

    def _target(self) -> Any:
        """A copy of the target. Buffers that only a power loss destroys are part of it only if `copy` freezes them: no
        fault that is still to come cuts the power.
        """
        assert self.copy is not None
        return self.copy(self.runner.scratch)

    def in_full(self, reused: RunResult) -> RunResult:
        """The full run of the schedule of a reused outcome: for results that are shown, and as an audit. If the
        outcomes differ, nothing is reused any more.
        """
        run_result = self.runner.run(reused.schedule, trace_lines=self.trace_lines)
        if outcome_of(run_result) != outcome_of(reused):
            self.why_not = f"{reused.schedule} ended otherwise than an equal run"
        return run_result

    def play(self, simulation: WatchedSimulation, observer: Observer, *, resumed: bool = False) -> JoinPoint | None:
        """Runs the simulation to its end, or to a state that an earlier run reached. Returns that state, from which the
        rest was copied. `resumed`: the run begins with what a crash has left.
        """
        found: list[JoinPoint] = []

        def match(shell: WatchedSimulation) -> None:
            if resumed or shell.faults.injected:
                self._match_at_open(shell, observer, found=found)

        def opening(shell: WatchedSimulation, key: Key, effect: Effect) -> None:
            if not self.compares_open_sinks:
                match(shell)
                open_sink(shell, key, effect)
            else:
                open_sink(shell, key, effect)
                match(shell)

        simulation.actions = {**simulation.actions, "open": opening}
        simulation.on_zombies_ended = lambda shell: self._match(shell, observer, found=found, compares_engine=True)
        self.runner.play(simulation, trace_lines=self.trace_lines)
        if found:
            self.matched += 1
            found[0].copy_rest(simulation, observer, at=simulation.matched_at)
        for head, join_point in simulation.join_points:
            candidates = self.known[head]
            if len(candidates) < CANDIDATES_MOST and self.kept < KEPT_MOST:
                candidates.append(join_point.completed(simulation, observer))
                self.kept += 1
        return found[0] if found else None

    def _match_at_open(self, simulation: WatchedSimulation, observer: Observer, *, found: list[JoinPoint]) -> None:
        """Called whenever a generation opens a sink."""
        if simulation.points_off or simulation.faults.pending:  # points off: the committed view was read already
            return
        if is_new(simulation, opened=self.compares_open_sinks):
            simulation.zombie_present = False
            self._match(simulation, observer, found=found, compares_engine=False)

    def _match(
        self, simulation: WatchedSimulation, observer: Observer, *, found: list[JoinPoint], compares_engine: bool
    ) -> None:
        """Ends the run if an earlier run reached this state; otherwise keeps the state."""
        if compares_engine and not self.compares_open_sinks:
            return
        outside, target = self.outside, self._target()
        try:
            here = join_point_of(
                *(simulation, observer),
                target=target,
                outside=outside,
                compares_sinks=self.compares_open_sinks,
                compares_engine=compares_engine,
            )
        except Opaque:
            self.compares_open_sinks = False  # from now on, states are compared before sinks are opened
            return
        head = head_of(simulation, observer, target=target, compares_engine=compares_engine)
        for known in self.known[head]:
            if known.is_same(here):
                found.append(known)
                simulation.matched_at, simulation.over = simulation.now, True
                raise Killed
        simulation.join_points.append((head, here))


def head_of(simulation: WatchedSimulation, observer: Observer, *, target: Any, compares_engine: bool) -> Any:
    """A hashable part of the state, under which known states are found."""
    schedule = simulation.schedule
    return (
        *(schedule.seed, schedule.job, schedule.orders[simulation.actor_faults.job_crashes :], compares_engine),
        *(simulation.generation, simulation.checkpoint_id_last, simulation.actor_faults.checkpoint_id_floor),
        *(observer.is_up_to_date(), key_of(target)),
    )


def key_of(target: Any) -> int:
    """A hash: equal copies have the same one, others rarely."""
    try:
        return hash(contents_of(target))
    except (Opaque, TypeError):  # a part of it cannot be hashed
        return 0


def outcome_of(run_result: RunResult) -> tuple[Any, ...]:
    return run_result.finished, run_result.rows_committed, run_result.anomalies
