"""Runs a whole job in one process under virtual time, where any actor can die at any point.

The queue is a heap of (time, number, (actor id, generation), event). An actor handles one event at a time, and its
effects are carried out in order (carry_out_effects.py). No actor's stack ever spans another actor's, so at a point
everything but the acting actor is explicit data. A crash does not unwind before it is judged: `reach` removes the dead
actor, runs the rest of the job to its end on top of the dead stack, lets the watcher judge, and only then raises
Killed. So no `finally` and no buffer flush of a dead actor can change what is judged. The same loop drives attempts
that are processes (process_host.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from random import Random
from threading import get_ident
from typing import Any, Final
from weakref import proxy

from sinkproof.chaos.error_text import described
from sinkproof.chaos.faults.fault_target import Killed
from sinkproof.chaos.schedule import COORDINATOR, IN_ORDER, Schedule
from sinkproof.reference_engine.checkpointing.coordinator import (
    CheckpointRecord,
    Coordinator,
    CoordinatorStep,
    CoordinatorTerm,
)
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION, CheckpointStorage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import (
    Restored,
    assign,
    covered,
    holds_rows,
    refuse_another_graph,
    restore,
)
from sinkproof.reference_engine.dataflow.subtask import Subtask
from sinkproof.reference_engine.shells.carry_out_effects import ACTIONS, BUFFERED_ACTIONS, act_for_coordinator
from sinkproof.reference_engine.shells.held_back_notifications import Held
from sinkproof.reference_engine.shells.job import Host, Job, Watcher
from sinkproof.reference_engine.shells.simulated.actor_faults import ActorFaults
from sinkproof.reference_engine.shells.simulated.engine_faults import EngineFaults
from sinkproof.reference_engine.shells.simulated.fault_injection import FaultInjector
from sinkproof.reference_engine.shells.simulated.faulted_job import ELECT, Event, FaultableTarget, Key
from sinkproof.sink_adapters.protocol import Sink

EVENTS_MOST: Final = 20_000  # a run of the certifying job needs 150 to 500; more means that it goes round in circles
CANCEL: Final[Event] = ("cancel", None, None)
OPEN: Final[Event] = ("open", None, None)
START: Final[Event] = ("start", None, None)
OPENINGS_PER_MS: Final = 1_000  # so many subtasks can open one after the other before a message of 1 ms arrives


class Simulation:
    """One run of one schedule."""

    # More than 30 attributes in a dictionary cost 4 % of a run.
    __slots__ = (
        *("job", "host", "watcher", "target", "schedule", "storage", "plan", "names", "latency", "actions", "restart"),
        *("queue", "now", "until", "sequence", "handling", "actor", "finished", "over", "failure"),
        *("coordinator", "generation", "checkpoint_id_last", "subtasks", "sinks", "restored", "held"),
        *("trace", "terms", "history", "points_off", "on_point", "thread", "message_fault", "clock_offset"),
        *("attempt_clock_offset", "in_threads"),
        *("actor_faults", "engine_faults", "faults", "__weakref__"),
    )

    def __init__(
        self,
        job: Job,
        host: Host,
        *,
        storage: CheckpointStorage,
        watcher: Watcher,
        schedule: Schedule = Schedule(),
        target: FaultableTarget | None = None,
    ) -> None:
        self.job, self.host, self.watcher, self.target, self.schedule = job, host, watcher, target, schedule
        self.storage: Any = storage
        self.plan, self.names = job.plan, job.widest.names
        self.latency = job.latencies(schedule.seed)
        self.actions = BUFFERED_ACTIONS if job.buffers else ACTIONS
        self.restart = job.restart()
        # The event loop.
        self.queue: list[tuple[Any, ...]] = []
        self.now: float = 0
        self.until: float = float("inf")
        self.sequence, self.handling = 0, 0  # numbers of events: posted last, being handled
        self.actor: Key = (0, 0)
        self.finished, self.over, self.failure = False, False, ""
        # The engine's actors.
        self.coordinator: Coordinator | None = None
        self.generation, self.checkpoint_id_last = 0, schedule.ids
        self.subtasks: dict[Key, Subtask] = {}
        self.sinks: dict[Key, Sink] = {}
        self.restored: dict[Key, Restored] = {}
        self.held: Held = ()
        # Records of the run.
        self.trace: list[tuple[int, str]] = []  # every point passed: (actor id, point)
        self.terms: list[CoordinatorTerm] = []
        self.history: list[tuple[Any, ...]] = []  # what happened, for people and for comparing runs
        # Points and faults.
        self.points_off = False
        self.thread = get_ident()
        self.on_point: Callable[[Any, str], None] | None = None
        self.in_threads: set[str] = set()  # points that threads of a sink have passed, where `on_point` is not called
        self.message_fault = ""  # of the message that is being sent
        self.clock_offset = 0.0  # seconds by which the clock has jumped
        self.attempt_clock_offset = 0.0  # and by which attempts see another than the target
        view: Simulation = proxy(self)  # a cycle would leave each run to the garbage collector: 10 % of its time
        self.actor_faults = ActorFaults(view, checkpoint_id_floor=schedule.ids)
        self.engine_faults = EngineFaults(view, self.actor_faults)
        self.faults = FaultInjector(view, self.engine_faults, schedule=schedule)

    # -- points and faults -------------------------------------------------------------------------

    def reach(self, point: str) -> None:
        """The acting actor stands at a point. May not return."""
        if self.points_off:
            return
        if self.over:
            raise Killed  # a dead attempt's code that runs while its stack unwinds
        actor, faults = self.actor[0], self.faults
        self.trace.append((actor, point))
        if self.on_point is not None and get_ident() == self.thread:  # a thread of a sink must not end a reading
            self.points_off = True  # a reader's own lines and files are no points
            self.on_point(self, point)
            self.points_off = False
        elif self.on_point is not None:
            self.in_threads.add(point)
        if point == faults.armed_point and actor == faults.armed_actor:
            faults.armed_left -= 1
            if faults.armed_left == 0:
                faults.inject()

    # -- the loop ----------------------------------------------------------------------------------

    def note(self, actor: str, what: str, detail: Any) -> None:
        self.history.append((self.now, actor, self.actor[1], what, detail))

    def post(self, delay: float, key: Key, event: Event) -> None:
        self.sequence += 1
        heappush(self.queue, (self.now + delay, self.sequence, key, event))

    def play(self) -> None:
        """From nothing (or from what the storage holds) to the end."""
        self.start()
        self.run()
        self.end()

    def start(self) -> None:
        self.post(2, (0, 0), ELECT)

    def end(self) -> None:
        if self.over:
            return
        self.points_off = True
        self.watcher.ended(self)
        self.points_off, self.over = False, True

    def covered(self, record: CheckpointRecord | None) -> dict[int, int]:
        """Split -> how many of its rows the checkpoint covers."""
        return covered(record)

    def recover_quietly(self) -> None:
        """One more restart from the last checkpoint, without faults or points: for a watcher that found residue."""
        for key in list(self.subtasks):
            self.discard(key)
        self.queue.clear()
        self.faults.disarm()
        self.finished, self.coordinator = False, None
        self.start()
        self.run()

    def run(self) -> None:
        queue = self.queue
        while queue and queue[0][0] <= self.until and not self.over:
            self.now, self.handling, key, event = heappop(queue)
            if self.handling > EVENTS_MOST:
                self.failure = f"not finished after {EVENTS_MOST} events"
                queue.clear()
                break
            try:
                if key[0]:
                    self._deliver(key, event)
                else:
                    self._deliver_to_coordinator(key[1], event)
            except Killed:
                continue

    def _deliver(self, key: Key, event: Event) -> None:
        suspended = self.actor_faults.suspended
        if suspended and key in suspended:
            suspended[key].append((self.handling, event))
            return
        subtask = self.subtasks.get(key)
        if subtask is None:
            return
        self.actor = key
        kind, a, b = event
        try:
            if kind == "cancel":
                self._cancel(key, leave=self.host.retire)
            else:
                actions = self.actions
                for effect in getattr(subtask, kind)(a, b):
                    actions[effect[0]](self, key, effect)
        except (Killed, KeyboardInterrupt):
            raise
        except BaseException as error:  # any failure of a sink ends its attempt, sys.exit() included
            self.note(self.names[key[0]], "raised", described(error))
            self._attempt_failed(key, error)
        if self.actor_faults.resumed == key:
            self._zombie_resumed(key)

    def zombie_resuming(self, key: Key) -> None:
        self.watcher.resuming(self, self.names[key[0]])

    def _zombie_resumed(self, key: Key) -> None:
        self.actor_faults.resumed = None
        self.watcher.resumed(self, self.names[key[0]])

    def _attempt_failed(self, key: Key, error: BaseException) -> None:
        if self.subtasks.get(key) is None:
            return
        if self.job.processes_reused:
            with suppress(Exception):  # it has failed already
                self._cancel(key, leave=self.host.vacate)
        else:
            self.discard(key)
        self.post(self.latency.detect, (0, key[1]), ("failed", key[0], described(error)))

    def discard(self, key: Key) -> None:
        self.subtasks.pop(key, None)
        sink = self.sinks.pop(key, None)
        if sink is not None:
            self.host.kill(sink)

    def _cancel(self, key: Key, *, leave: Callable[[Sink], None]) -> None:
        self.subtasks.pop(key)
        sink = self.sinks.pop(key, None)
        if sink is None:
            return
        close = getattr(sink, "close", None)
        try:
            if close is not None:
                close()
        finally:
            leave(sink)

    # -- the coordinator ---------------------------------------------------------------------------

    def _deliver_to_coordinator(self, generation: int, event: Event) -> None:
        self.actor = (0, generation)
        if event[0] == "elect":
            if self.engine_faults.polls_left:
                self.engine_faults.poll_ending()
            if self.coordinator is None and not self.finished:
                self.restart = self.job.restart() if not self.faults.injected else self.restart
                self._next_generation()
            return
        if self.coordinator is None or generation != self.generation:
            return
        if event[0] == "regenerate":
            self._next_generation()
            return
        try:
            self._consult(event)
        finally:
            self.engine_faults.step_down()

    def _next_generation(self) -> None:
        self.reach("generation.before")
        self.generation = self.storage.claim_generation()
        record, restarted = self.engine_faults.restorable(), self._restarts() > 0
        if restarted and self.job.outage_seconds and self.target is not None:
            self.target.age(self.job.outage_seconds)
        self.plan = self.job.plan_after(record, former=self.plan, restarted=restarted)
        orders, crashes = self.schedule.orders, self.actor_faults.job_crashes
        order = orders[crashes] if crashes < len(orders) else IN_ORDER
        self.latency = self.job.latencies_after(self.schedule.seed, restarted=restarted, order=order)
        self.actor = (0, self.generation)
        self.note(COORDINATOR, "generation", None)
        self.reach("generation.after")
        self.coordinator = Coordinator(
            *(self.plan, self.job.configuration, self.restart),
            record=record,
            checkpoint_id_last=self.checkpoint_id_last,
        )
        self.terms.append(CoordinatorTerm(self.plan, record, self.checkpoint_id_last, []))
        self._consult(START)

    def _consult(self, event: Event) -> None:
        assert self.coordinator is not None
        effects = self.coordinator.on(self.now, event)
        self.terms[-1].steps.append(CoordinatorStep(self.now, event, effects))
        act_for_coordinator(self, effects)

    def deploy(self, record: CheckpointRecord | None) -> None:
        """Cancels what is left of older generations and spawns the next; of a finished job only the sinks."""
        if record is not None:
            refuse_another_graph(self.plan, record)
        for key in list(self.subtasks):
            if key[1] != self.generation:
                self.post(self.latency.cancel, key, CANCEL)
        configuration, count, upwards = self.job.configuration, len(self.plan.subtasks), holds_rows(record)
        # Every subtask is open before the first barrier comes, however many there are, and in the same order.
        hurry = configuration.interval is not None and 2 * count >= configuration.interval
        for plan in self.plan.subtasks:
            if record is not None and record.final and not plan.sink:
                continue
            key = (plan.id, self.generation)
            subtask = self.subtasks[key] = self.job.subtask(plan, self.job.buffers)
            restored = assign(plan, record, ignored=configuration.checkpoint_id_of_ignored_in_flight_data)
            restore(subtask, restored)
            if plan.sink:
                self.sinks[key] = self.host.spawn(plan.name, plan.index, self.generation)
                self.restored[key] = restored
            # Sources last: with many of them, the first would send rows to sinks that are not open yet.
            # With rows to replay in the middle, their receivers first.
            late = count if plan.source is not None else 0
            place = self.latency.turn.get(("open", plan.id), plan.id)
            place = late + (count + 1 - place if upwards else place)
            self.post(place / OPENINGS_PER_MS if hurry else place, key, OPEN)

    # -- what an attempt is given ------------------------------------------------------------------

    def _restarts(self) -> int:
        return self.generation - FIRST_GENERATION - self.schedule.ids

    def seconds(self) -> float:
        """The true time, which a target sees; attempts may see another."""
        return self.now / 1000 + self.clock_offset + max(0, self._restarts()) * self.job.outage_seconds

    def clock_for(self, key: Key) -> Callable[[], float]:
        """Seconds, as this attempt sees them."""
        wrong = self.job.clock
        if wrong is None:
            return lambda: self.seconds() + self.attempt_clock_offset
        return lambda: wrong(self.seconds(), *key) + self.attempt_clock_offset

    def random_for(self, key: Key) -> Random:
        """Seeded with an integer: a text costs three times as much to hash."""
        return Random((self.schedule.seed << 64) + (key[1] << 16) + key[0])
