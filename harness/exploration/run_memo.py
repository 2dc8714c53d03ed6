"""Runs that cannot end differently are run once.

When all faults of a schedule have struck, a failure leads to a new generation, whose sinks are opened one by one. When
the last is open and has written nothing, everything that is still to come follows from what can be compared: the
target, the restored checkpoint, the generation, the events on their way, what the sinks hold. Who was stopped goes on
long after that; when it has left, what everybody else holds by then is compared, too. A run that stands where
another has stood ends as that one did: the same rest of the trace, the same view in the end. Of a pair of faults this
saves half of the run, and more: what strikes later strikes both alike.

That is exact for sinks that keep nothing but in the target and in themselves. A sink that may hide something is
compared before it is opened, when there is nothing to hide. Who looks at the clock is compared with times as they are.
One in some hundred such runs is done in full all the same and compared; if it differs, nothing of
this kind is concluded any more. And what breaks a claim is always run in full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
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
from sinkproof.reference_engine.shells.effects import open_sink, settle
from sinkproof.reference_engine.shells.simulated.simulation import Simulation
from sinkproof.sink_adapters.protocol import Sink

AUDITED_EVERY: Final = 200  # half a percent of the time
CANDIDATES_MOST: Final = 40  # states under one key; comparing costs 5 us each, and a run saved is worth 200
KEPT_MOST: Final = 3_000  # places to be compared with, of some 70 KB each
TRIED: Final = 200  # places kept, after which it is asked whether runs meet there
WORTH: Final = 0.05  # of them, at least
Key = tuple[int, int]
# Of an observation, what grows while the job runs; of the kinds of faults, none in question excuses anything.
LISTS: Final = tuple(part for part in PARTS if part != "kinds" and isinstance(getattr(Observation(), part), list))


class Mark(NamedTuple):
    """What had happened when somebody stood at a place."""

    status: tuple[Key, int]  # whoever stood there (actor id, generation), and which event it handled
    durable: tuple[Any, int]  # versions of the target and of the checkpoint storage
    sent: tuple[float, int]  # the time, and how many events were posted
    left: int | None  # number of what a crash of the whole job leaves here; None: it cannot be compared
    touched: Any  # how often somebody had asked the target, or the clock; None: nobody counts


class WatchedSimulation(Simulation):
    """Notes who looks at the clock, and tells when the last zombie has left."""

    __slots__ = ("crossed_at", "join_points", "left", "looks", "zombie_present")

    def __init__(self, *given: Any, schedule: Schedule, **named: Any) -> None:
        super().__init__(*given, schedule=schedule, **named)
        self.looks, self.crossed_at = 0, 0.0
        self.join_points: list[tuple[Any, JoinPoint]] = []
        self.actions = {**self.actions, "settle": _settle_at}
        self.zombie_present = False  # somebody was stopped, and may be there still
        self.left: Callable[[WatchedSimulation], None] = lambda _: None  # called when it is not any more

    def clock_for(self, key: Key) -> Callable[[], float]:
        clock, is_ours = super().clock_for(key), True

        def look() -> float:
            nonlocal is_ours
            if not is_ours:  # the first look is the engine's, for the deadline
                self.somebody_looked()
            is_ours = False
            return clock()

        return look

    def zombie_resuming(self, key: Key) -> None:
        super().zombie_resuming(key)
        self.zombie_present = True

    def _zombie_resumed(self, key: Key) -> None:
        super()._zombie_resumed(key)
        self._look_around()

    def _cancel(self, key: Key, *, leave: Callable[[Sink], None]) -> None:
        super()._cancel(key, leave=leave)
        self._look_around()

    def _attempt_failed(self, key: Key, error: Exception) -> None:
        super()._attempt_failed(key, error)
        self._look_around()

    def _look_around(self) -> None:
        if self.zombie_present and not self.points_off and not self.faults.pending and is_new(self, opened=True):
            self.zombie_present = False
            self.left(self)

    def somebody_looked(self) -> None:
        self.looks += 1
        for _, join_point in self.join_points:
            join_point.asked = True


def _settle_at(shell: WatchedSimulation, key: Key, effect: Effect) -> None:
    """Who settles is told the time."""
    shell.somebody_looked()
    settle(shell, key, effect)


class MemoizedRuns:
    """Runs schedules as the laboratory does, but none to an end that is known. For contracts that copy their target.

    `confirms`: what breaks a claim is run in full at once; if not, who asks calls `in_full` for what is to be shown.
    `trace_lines`: executed lines are points, in all runs.
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
        self.used, self.audited = 0, 0
        self.kept, self.met = 0, 0
        self.outside = outside_of(runner.contract.given)
        self.marks: list[Mark] = []  # of the last run that was asked to: at each place, what had happened by then
        self.sees_through = True  # sinks can be compared when they are open
        self.why_not = "" if runner.contract.copies else "the contract does not copy its target"
        self.numbers: dict[Any, int] = {}  # of what crashes of the whole job leave
        self.copy = runner.contract.optional("while_powered") or getattr(runner.contract.given, "freeze", None)

    def run(self, schedule: Schedule, *, marked: bool = False) -> RunResult:
        """`marked`: `marks` are kept, up to where the run stands as an earlier one has stood."""
        self.marks = []
        if self.why_not:
            return self.runner.run(schedule, trace_lines=self.trace_lines)
        self.runner.reset()
        simulation, observer = self.runner.simulation(schedule, shell=WatchedSimulation)
        assert isinstance(simulation, WatchedSimulation)
        if marked:
            simulation.on_point = self.marker(simulation, observer)
        found = self.play(simulation, observer)
        if simulation.looks:
            self.marks = []  # times differ, and somebody has seen it
        run_result = self.runner.result_of(schedule, simulation, observer)
        if found is None:
            return run_result
        self.used += 1
        is_due = self.used % self.audited_every == 0 or (self.confirms and run_result.anomalies)
        return self.in_full(run_result) if is_due else run_result

    @property
    def is_worth_it(self) -> bool:
        """Whether runs meet earlier ones often enough: what is left behind by every crash keeps them apart."""
        return self.kept < TRIED or self.met >= WORTH * self.kept

    def marker(self, simulation: WatchedSimulation, observer: Observer) -> Callable[[Simulation, str], None]:
        """To be called at each place of this run."""
        self.marks = marks = []
        version, scratch = self.runner.contract.optional("version"), self.runner.scratch
        if version is None:
            return lambda shell, point: None
        asked = self.runner.contract.optional("touched") or (lambda scratch: None)
        before: tuple[Any, Any] = (None, None)

        def note(shell: Simulation, point: str) -> None:
            nonlocal before
            durable = version(scratch), shell.storage.version
            moment = durable, observer.is_up_to_date()
            if before[0] != moment:
                before = moment, self._left_by_crash(shell, observer, is_up_to_date=moment[1])
            touched = asked(scratch)
            touched = None if touched is None else (touched, simulation.looks)
            status, sent = (shell.actor, shell.handling), (shell.now, shell.sequence)
            marks.append(Mark(status, durable, sent, before[1], touched))

        return note

    def _left_by_crash(self, simulation: Simulation, observer: Observer, *, is_up_to_date: bool) -> int | None:
        """Number of what a crash of the whole job leaves now, and of what was seen by then: equal ones go on alike."""
        storage, seen = simulation.storage, observer.observation
        try:
            target = contents_of(self._target())
            lists = tuple(tuple(getattr(seen, part)) for part in LISTS)
            left = target, repr(storage.latest()), simulation.generation, is_up_to_date, lists
            return self.numbers.setdefault(left, len(self.numbers))
        except (Opaque, TypeError):  # a part of it cannot be hashed
            return None

    def _target(self) -> Any:
        """To be compared. All faults have struck, or none that is still to come takes the power away."""
        assert self.copy is not None
        return self.copy(self.runner.scratch)

    def in_full(self, concluded: RunResult) -> RunResult:
        """Findings are shown as they happen; and some others are looked at in order to see that this is sound."""
        run_result = self.runner.run(concluded.schedule, trace_lines=self.trace_lines)
        self.audited += 1
        if outcome_of(run_result) != outcome_of(concluded):
            self.why_not = f"{concluded.schedule} ended otherwise than an equal run"
        return run_result

    def play(self, simulation: WatchedSimulation, observer: Observer, *, resumed: bool = False) -> JoinPoint | None:
        """To its end, or to where an earlier run has stood: that one, whose end is then this one's, too. `resumed`:
        it begins with what a crash has left.
        """
        found: list[JoinPoint] = []

        def cross(shell: WatchedSimulation) -> None:
            if resumed or shell.faults.injected:
                self._cross(shell, observer, found=found)

        def opening(shell: WatchedSimulation, key: Key, effect: Effect) -> None:
            if not self.sees_through:
                cross(shell)
                open_sink(shell, key, effect)
            else:
                open_sink(shell, key, effect)
                cross(shell)

        simulation.actions = {**simulation.actions, "open": opening}
        simulation.left = lambda shell: self._compare(shell, observer, found=found, at_rest=True)
        self.runner.play(simulation, trace_lines=self.trace_lines)
        if found:
            self.met += 1
            found[0].go_on(simulation, observer, at=simulation.crossed_at)
        for head, join_point in simulation.join_points:
            candidates = self.known[head]
            if len(candidates) < CANDIDATES_MOST and self.kept < KEPT_MOST:
                candidates.append(join_point.completed(simulation, observer))
                self.kept += 1
        return found[0] if found else None

    def _cross(self, simulation: WatchedSimulation, observer: Observer, *, found: list[JoinPoint]) -> None:
        """Where a generation opens its sinks."""
        if simulation.points_off or simulation.faults.pending:  # points off: the run was judged already
            return
        if is_new(simulation, opened=self.sees_through):
            simulation.zombie_present = False
            self._compare(simulation, observer, found=found, at_rest=False)

    def _compare(
        self, simulation: WatchedSimulation, observer: Observer, *, found: list[JoinPoint], at_rest: bool
    ) -> None:
        """Ends the run if it stands where an earlier one has stood; otherwise this place is kept."""
        if at_rest and not self.sees_through:
            return
        outside, target = self.outside, self._target()
        try:
            here = join_point_of(
                *(simulation, observer), target=target, outside=outside, opened=self.sees_through, at_rest=at_rest
            )
        except Opaque:
            self.sees_through = False  # from now on they are compared before they are opened
            return
        head = head_of(simulation, observer, target=target, at_rest=at_rest)
        for known in self.known[head]:
            if known.is_same(here):
                found.append(known)
                simulation.crossed_at, simulation.over = simulation.now, True
                raise Killed
        simulation.join_points.append((head, here))


def head_of(simulation: WatchedSimulation, observer: Observer, *, target: Any, at_rest: bool) -> Any:
    """What is cheap to look for among the known ones."""
    schedule = simulation.schedule
    return (
        *(schedule.seed, schedule.job, schedule.orders[simulation.actor_faults.job_crashes :], at_rest),
        *(simulation.generation, simulation.checkpoint_id_last, simulation.actor_faults.checkpoint_id_floor),
        *(observer.is_up_to_date(), key_of(target)),
    )


def key_of(target: Any) -> int:
    """Equal for copies that are the same; others rarely have the same."""
    try:
        return hash(contents_of(target))
    except (Opaque, TypeError):  # a part of it cannot be hashed
        return 0


def outcome_of(run_result: RunResult) -> tuple[Any, ...]:
    return run_result.finished, run_result.rows_committed, run_result.anomalies
