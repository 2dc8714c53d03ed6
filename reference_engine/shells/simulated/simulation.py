"""The simulated shell: the whole job in one process under virtual time, where anybody can die at any point.

A heap of (time, sequence, (actor id, generation), event); an actor handles one event at a time and its effects are
carried out in order (effects.py). No actor's stack ever spans another actor's, so at a point everything but the acting
actor is explicit data. A crash does not unwind before it is judged: `reach` takes the dead out, runs the rest of the
job to its end on top of the dead stack, lets the watcher judge, and only then raises Killed; so no `finally` and no
buffer flush of the dead can change what is judged. The same loop drives attempts that are processes (process_host.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from sinkproof.chaos.faults.fault_target import Killed
from sinkproof.chaos.schedule import COORDINATOR, IN_ORDER, Fault, Schedule
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord, Coordinator
from sinkproof.reference_engine.checkpointing.coordinator_log import Step, Term
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
from sinkproof.reference_engine.shells.effects import ACTIONS, BUFFERED_ACTIONS, act_for_coordinator
from sinkproof.reference_engine.shells.job import Host, Job, Watcher
from sinkproof.reference_engine.shells.simulated.engine_faults import EngineFaults
from sinkproof.reference_engine.shells.simulated.fault_injection import ELECT, Key
from sinkproof.reference_engine.shells.subtask_modes import subtask_for
from sinkproof.sink_adapters.protocol import Sink

EVENTS_MOST: Final = 20_000  # a run of the certifying job needs 150 to 500; more means that it goes round in circles
Event = tuple[str, Any, Any]  # kind, a, b
CANCEL: Final[Event] = ("cancel", None, None)
OPEN: Final[Event] = ("open", None, None)
START: Final[Event] = ("start", None, None)
HURRY: Final = 1_000  # of so many subtasks that open one after the other, none is late for a message of 1 ms


class Simulation(EngineFaults):
    """One run of one schedule."""

    __slots__ = (
        *("actions", "actor", "crashes", "armed_actor", "armed_left", "armed_point", "checkpoint_id_last"),
        *(
            "coordinator",
            "failure",
            "fate",
            "faults",
            "finished",
            "generation",
            "handling",
            "history",
            "host",
            "ids",
            "job",
            "latency",
        ),
        *(
            "muted",
            "names",
            "now",
            "orders",
            "over",
            "plan",
            "queue",
            "restart",
            "restored",
            "seed",
            "sequence",
            "sinks",
        ),
        *("sleepers", "spy", "storage", "struck", "subtasks", "terms", "trace", "until", "waking_up", "watcher"),
    )

    def __init__(
        self, job: Job, host: Host, *, storage: CheckpointStorage, watcher: Watcher, schedule: Schedule = Schedule()
    ) -> None:
        self.job, self.host, self.storage, self.watcher = job, host, storage, watcher
        self.plan, self.names = job.plan, job.widest.names
        self.latency = job.latencies(schedule.seed)
        self.seed, self.ids, self.orders, self.crashes = schedule.seed, schedule.ids, schedule.orders, 0
        self.queue: list[tuple[Any, ...]] = []
        self.now, self.sequence = 0, 0
        self.handling = 0  # number of the event
        self.coordinator: Coordinator | None = None
        self.generation, self.checkpoint_id_last = 0, schedule.ids
        self.actions = BUFFERED_ACTIONS if job.buffers else ACTIONS
        self.checkpoint_id_floor = schedule.ids
        self.restart = job.restart()
        self.subtasks: dict[Key, Subtask] = {}
        self.sinks: dict[Key, Sink] = {}
        self.restored: dict[Key, Restored] = {}
        self.sleepers: dict[Key, list[tuple[int, Event]]] = {}  # what they have not heard, with its number
        self.waking_up: Key | None = None
        self.until: float = float("inf")
        self.actor: Key = (0, 0)
        self.trace: list[tuple[int, str]] = []  # every point passed: (actor id, point)
        self.terms: list[Term] = []  # of all coordinators
        self.history: list[tuple[Any, ...]] = []  # what happened, for people and for comparing runs
        self.faults = list(schedule.faults)
        self.struck: list[Fault] = []
        self.armed_actor, self.armed_point, self.armed_left = -1, "", 0
        self.fate = ""  # of the message that is just being sent: "", "lost" or "declined"
        self.finished, self.over, self.muted, self.failure = False, False, False, ""
        self.spy: Callable[[Simulation, str], None] | None = None
        self._arm()

    # -- points and faults -------------------------------------------------------------------------

    def reach(self, point: str) -> None:
        """Somebody stands at a point. May not return."""
        if self.muted:
            return
        if self.over:
            raise Killed  # what the dead do while they unwind
        actor = self.actor[0]
        self.trace.append((actor, point))
        if self.spy is not None:
            self.muted = True  # a reader's own lines and files are no points
            self.spy(self, point)
            self.muted = False
        if point == self.armed_point and actor == self.armed_actor:
            self.armed_left -= 1
            if self.armed_left == 0:
                self.strike()

    # -- the loop ----------------------------------------------------------------------------------

    def note(self, actor: str, what: str, detail: Any) -> None:
        self.history.append((self.now, actor, self.actor[1], what, detail))

    def log(self) -> bytes:
        """The event log: byte-equal for the same schedule and seed, in any process."""
        return "\n".join(map(repr, self.history)).encode()

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
        self.muted = True
        self.watcher.ended(self)
        self.muted, self.over = False, True

    def covered(self, record: CheckpointRecord | None) -> dict[int, int]:
        """Split -> how many of its rows the checkpoint covers."""
        return covered(record)

    def recover_quietly(self) -> None:
        """One more restart from the last checkpoint, without faults or points: for a watcher that found residue."""
        for key in list(self.subtasks):
            self._bury(key)
        self.queue.clear()
        self.faults.clear()
        self._arm()
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
        if key in self.sleepers:
            self.sleepers[key].append((self.handling, event))
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
                for effect in subtask.on(kind, a, b):
                    actions[effect[0]](self, key, effect)
        except Exception as error:  # a sink's own failure ends its attempt, whatever it is
            self.note(self.names[key[0]], "raised", f"{type(error).__name__}: {error}")
            self._attempt_failed(key, error)
        if self.waking_up == key:
            self._woken(key)

    def _woken(self, key: Key) -> None:
        self.waking_up = None
        self.watcher.woken(self, self.names[key[0]])

    def _attempt_failed(self, key: Key, error: Exception) -> None:
        if self.subtasks.get(key) is None:
            return
        if self.job.processes_reused:
            with suppress(Exception):  # it has failed already
                self._cancel(key, leave=self.host.vacate)
        else:
            self._bury(key)
        self.post(self.latency.detect, (0, key[1]), ("failed", key[0], f"{type(error).__name__}: {error}"))

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
            if self.ending:
                self.go_on_if_ended()
            if self.coordinator is None and not self.finished:
                self.restart = self.job.restart() if not self.struck else self.restart
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
            self.step_down()

    def _next_generation(self) -> None:
        self.reach("generation.before")
        self.generation = self.storage.claim_generation()
        record, restarted = self.restorable(), self.generation > FIRST_GENERATION + self.ids
        if restarted and self.job.outage_seconds:
            self.outlast()
        self.plan = self.job.plan_after(record, restarted=restarted)
        order = self.orders[self.crashes] if self.crashes < len(self.orders) else IN_ORDER
        self.latency = self.job.latencies_after(self.seed, restarted=restarted, order=order)
        self.actor = (0, self.generation)
        self.note(COORDINATOR, "generation", None)
        self.reach("generation.after")
        self.coordinator = Coordinator(
            *(self.plan, self.job.configuration, self.restart),
            record=record,
            checkpoint_id_last=self.checkpoint_id_last,
        )
        self.terms.append(Term(self.plan, record, self.checkpoint_id_last, []))
        self._consult(START)

    def _consult(self, event: Event) -> None:
        assert self.coordinator is not None
        effects = self.coordinator.on(self.now, event)
        self.terms[-1].steps.append(Step(self.now, event, effects))
        act_for_coordinator(self, effects)

    def deploy(self, record: CheckpointRecord | None) -> None:
        """Cancels what is left of older generations and spawns the next; of a finished job only the sinks."""
        if record is not None:
            refuse_another_graph(self.plan, record)
        for key in list(self.subtasks):
            if key[1] != self.generation:
                self.post(self.latency.cancel, key, CANCEL)
        configuration, count, upwards = self.job.configuration, len(self.plan.subtasks), holds_rows(record)
        # Everybody is open before the first barrier comes, however many they are, and in the same order.
        hurry = configuration.interval is not None and 2 * count >= configuration.interval
        for plan in self.plan.subtasks:
            if record is not None and record.final and not plan.sink:
                continue
            key = (plan.id, self.generation)
            subtask = self.subtasks[key] = subtask_for(plan, configuration, buffers=self.job.buffers)
            restored = assign(plan, record, ignored=configuration.checkpoint_id_of_ignored_in_flight_data)
            restore(subtask, restored)
            if plan.sink:
                self.sinks[key] = self.host.spawn(plan.name, plan.index, self.generation)
                self.restored[key] = restored
            # Sources last: with many of them, the first would send rows to sinks that are not open yet.
            # With rows to replay in the middle, who they go to first.
            late = count if plan.source is not None else 0
            place = self.latency.turn.get(("open", plan.id), plan.id)
            place = late + (count + 1 - place if upwards else place)
            self.post(place / HURRY if hurry else place, key, OPEN)

    def random_for(self, key: Key) -> Random:
        """Seeded with an integer: a text costs three times as much to hash."""
        return Random((self.seed << 64) + (key[1] << 16) + key[0])
