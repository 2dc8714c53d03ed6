"""The simulated shell: the whole job in one process under virtual time, where anybody can die at any point.

A heap of events (time, sequence, actor, generation, kind, a, b); an actor handles one at a time and its effects are
carried out in order (acting.py). No actor's stack ever spans another actor's, so at a point everything but the acting
actor is explicit data. A crash does not unwind before it is judged: `reach` takes the dead out, runs the rest of the
job to its end on top of the dead stack, lets the watcher judge, and only then raises Killed; so no `finally` and no
buffer flush of the dead can change what is judged. The same loop drives attempts that are processes (process.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, NoReturn

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.shell import Killed
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.reference_engine.checkpoint_storage import CheckpointStorage
from sinkproof.reference_engine.configuration import CheckpointingMode
from sinkproof.reference_engine.coordinator import CheckpointRecord, Coordinator
from sinkproof.reference_engine.restore import Restored, assign, covered, refuse_another_graph, restore
from sinkproof.reference_engine.shells.acting import ACTIONS, act, act_for_coordinator
from sinkproof.reference_engine.shells.job import Host, Job, Watcher
from sinkproof.reference_engine.subtask import Subtask
from sinkproof.sink_adapters.protocol import Sink

EVENTS_MOST: Final = 20_000  # a run of the certifying job needs 150 to 500; more means that it goes round in circles
Key = tuple[int, int]  # (actor id, generation)
Event = tuple[str, Any, Any]  # kind, a, b
ELECT: Final[Event] = ("elect", None, None)
CANCEL: Final[Event] = ("cancel", None, None)


class Simulation:
    """One run of one schedule."""

    def __init__(
        self, job: Job, host: Host, *, storage: CheckpointStorage, watcher: Watcher, schedule: Schedule = Schedule()
    ) -> None:
        self.job, self.host, self.storage, self.watcher = job, host, storage, watcher
        self.plan, self.names = job.plan, job.widest.names
        self.latency = job.latencies(schedule.seed)
        self.seed = schedule.seed
        self.aligned = job.configuration.checkpointing_mode is CheckpointingMode.EXACTLY_ONCE
        self.queue: list[tuple[Any, ...]] = []
        self.now, self.sequence, self.events = 0, 0, 0
        self.coordinator: Coordinator | None = None
        self.generation, self.checkpoint_id_last, self.actions = 0, 0, ACTIONS
        self.restart = job.restart()
        self.subtasks: dict[Key, Subtask] = {}
        self.sinks: dict[Key, Sink] = {}
        self.restored: dict[Key, Restored] = {}
        self.sleepers: dict[Key, int] = {}  # asleep until
        self.waking_up: Key | None = None
        self.until: float = float("inf")
        self.actor: Key = (0, 0)
        self.trace: list[tuple[int, str]] = []  # every point passed: (actor id, point)
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
        self.trace.append((self.actor[0], point))
        if self.spy is not None:
            self.muted = True  # a reader's own lines and files are no points
            self.spy(self, point)
            self.muted = False
        if point == self.armed_point and self.actor[0] == self.armed_actor:
            self.armed_left -= 1
            if self.armed_left == 0:
                self.strike()

    def strike(self) -> None:
        KINDS[self._take_fault().kind].strike(self)

    def _take_fault(self) -> Fault:
        fault = self.faults.pop(0)
        self.struck.append(fault)
        self._arm()
        self.note(self.names[self.actor[0]], fault.point, fault.kind)
        self.watcher.striking(self, fault)
        return fault

    def _arm(self) -> None:
        """Makes the next fault ready; its occurrence counts from the start of the run."""
        if not self.faults:
            self.armed_actor, self.armed_point = -1, ""
            return
        fault = self.faults[0]
        self.armed_actor = self.names.index(fault.actor) if fault.actor in self.names else -1
        self.armed_point = fault.point
        self.armed_left = fault.occurrence - self.trace.count((self.armed_actor, fault.point))

    def kill_actor(self) -> NoReturn:
        key = self.actor
        if key[0] == 0:
            self.coordinator = None
            self.post(self.latency.detect, (0, 0), ELECT)
        else:
            self._bury(key)
            self.post(self.latency.detect, (0, key[1]), ("failed", key[0], "it died"))
            self._let_sleepers_lie()
        self._judge_first()

    kill_worker = kill_executor = kill_actor

    def _let_sleepers_lie(self) -> None:
        """Their stacks are under the one of the dead, which would have to unwind, unjudged, for them to wake."""
        if self.host.dead_unwind:
            for key in self.sleepers:
                self._bury(key)
            self.sleepers.clear()
            self.until = float("inf")

    def kill_job(self) -> NoReturn:
        for key in list(self.subtasks):
            self._bury(key)
        self.coordinator, self.checkpoint_id_last = None, 0
        self.queue.clear()
        self.sleepers.clear()
        self.waking_up, self.until = None, float("inf")  # no sleeper is left to wait for
        self.start()
        self._judge_first()

    def _bury(self, key: Key) -> None:
        self.subtasks.pop(key, None)
        sink = self.sinks.pop(key, None)
        if sink is not None:
            self.host.kill(sink)

    def _judge_first(self) -> NoReturn:
        sys.call_tracing(self.run, ())  # lines are points in what follows, too
        if not self.sleepers:
            self.end()
        raise Killed

    def stop_actor(self) -> None:
        key, wake = self.actor, self.now + self.latency.asleep
        self.sleepers[key] = wake
        self.post(self.latency.detect, (0, key[1]), ("failed", key[0], "it does not answer"))
        outer, self.until = self.until, wake
        sys.call_tracing(self.run, ())  # everybody else goes on, on top of the sleeper's stack
        self.until, self.now = outer, max(self.now, wake)
        if self.sleepers.pop(key, None) is None or self.over:
            raise Killed  # the whole job died meanwhile
        self.actor = self.waking_up = key
        self.watcher.waking(self, self.names[key[0]])

    def lose_message(self) -> None:
        self.fate = "lost"

    def decline_vote(self) -> None:
        self.fate = "declined"

    # -- for hosts whose attempts see their points elsewhere (process.py) --------------------------

    def armed(self, actor: str) -> tuple[str, int, str] | None:
        if self.armed_actor < 1 or self.names[self.armed_actor] != actor:
            return None
        return self.armed_point, self.armed_left, self.faults[0].kind

    def passed(self, actor: str, points: list[str]) -> None:
        index = self.names.index(actor)
        self.trace += [(index, point) for point in points]
        if index == self.armed_actor:
            self.armed_left -= points.count(self.armed_point)
            if self.armed_left <= 0 and self.faults[0].kind == "error":
                self._take_fault()  # it has struck already, where the point is

    def died(self, actor: str, status: int) -> NoReturn:
        if self.armed_actor >= 0 and self.names[self.armed_actor] == actor and self.armed_left <= 0:
            self.strike()
        self.note(actor, "died", status)
        self.kill_actor()

    def stopped(self, actor: str) -> None:
        self.strike()

    # -- the loop ----------------------------------------------------------------------------------

    def note(self, actor: str, what: str, detail: Any) -> None:
        self.history.append((self.now, actor, self.actor[1], what, detail))

    def log(self) -> bytes:
        """The event log: byte-equal for the same schedule and seed, in any process."""
        return "\n".join(map(repr, self.history)).encode()

    def post(self, delay: float, key: Key, event: Event) -> None:
        self.sequence += 1
        heappush(self.queue, (self.now + delay, self.sequence, *key, *event))

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
        self.finished, self.coordinator = False, None
        self.start()
        self.run()

    def run(self) -> None:
        queue = self.queue
        while queue and queue[0][0] <= self.until and not self.over:
            event = heappop(queue)
            self.now, _, to, generation, kind, a, b = event
            self.events += 1
            if self.events > EVENTS_MOST:
                self.failure = f"not finished after {EVENTS_MOST} events"
                queue.clear()
                break
            try:
                if to == 0:
                    self._deliver_to_coordinator(generation, (kind, a, b))
                else:
                    self._deliver((to, generation), (kind, a, b))
            except Killed:
                continue

    def _deliver(self, key: Key, event: Event) -> None:
        kind, a, b = event
        if key in self.sleepers:  # deaf; hears it a while after waking up
            later = self.sleepers[key] - self.now + (6 if kind == "cancel" else 1)
            self.post(max(later, 1), key, event)
            return
        subtask = self.subtasks.get(key)
        if subtask is None:
            return
        self.actor = key
        try:
            if kind == "cancel":
                self._cancel(key)
            else:
                act(self, key, subtask.on(kind, a, b))
        except Exception as error:  # a sink's own failure ends its attempt, whatever it is
            self.note(self.names[key[0]], "raised", f"{type(error).__name__}: {error}")
            self._attempt_failed(key, error)
        if self.waking_up == key:
            self.waking_up = None
            self.watcher.woken(self, self.names[key[0]])

    def _attempt_failed(self, key: Key, error: Exception) -> None:
        if self.subtasks.get(key) is None:
            return
        self._bury(key)
        self.post(self.latency.detect, (0, key[1]), ("failed", key[0], f"{type(error).__name__}: {error}"))

    def _cancel(self, key: Key) -> None:
        self.subtasks.pop(key)
        sink = self.sinks.pop(key, None)
        if sink is None:
            return
        close = getattr(sink, "close", None)
        try:
            if close is not None:
                close()
        finally:
            self.host.retire(sink)

    # -- the coordinator ---------------------------------------------------------------------------

    def _deliver_to_coordinator(self, generation: int, event: Event) -> None:
        self.actor = (0, generation)
        if event[0] == "elect":
            if self.coordinator is None and not self.finished:
                self.restart = self.job.restart() if not self.struck else self.restart
                self._next_generation()
            return
        if self.coordinator is None or generation != self.generation:
            return
        if event[0] == "regenerate":
            self._next_generation()
            return
        act_for_coordinator(self, self.coordinator.on(self.now, event))

    def _next_generation(self) -> None:
        self.reach("generation.before")
        self.generation = self.storage.claim_generation()
        self.plan = self.job.plan_after(self.storage.latest())
        self.actor = (0, self.generation)
        self.note(COORDINATOR, "generation", None)
        self.reach("generation.after")
        self.coordinator = Coordinator(
            *(self.plan, self.job.configuration, self.restart),
            record=self.storage.latest(),
            checkpoint_id_last=self.checkpoint_id_last,
        )
        act_for_coordinator(self, self.coordinator.on(self.now, ("start", None, None)))

    def deploy(self, record: CheckpointRecord | None) -> None:
        """Cancels what is left of older generations and spawns the next; of a finished job only the sinks."""
        if record is not None:
            refuse_another_graph(self.plan, record)
        for key in list(self.subtasks):
            if key[1] != self.generation:
                self.post(self.latency.cancel, key, CANCEL)
        for plan in self.plan.subtasks:
            if record is not None and record.final and not plan.sink:
                continue
            key = (plan.id, self.generation)
            every = self.job.configuration.checkpoint_every_batches
            subtask = self.subtasks[key] = Subtask(plan, aligned=self.aligned, barrier_every=every)
            restored = assign(plan, record)
            restore(subtask, restored)
            if plan.sink:
                self.sinks[key] = self.host.spawn(plan.name, plan.index, self.generation)
                self.restored[key] = restored
            # Sources last: with many of them, the first would send rows to sinks that are not open yet.
            late = len(self.plan.subtasks) if plan.source is not None else 0
            self.post(late + plan.id, key, ("open", None, None))

    def random_for(self, key: Key) -> Random:
        """Seeded with an integer: a text costs three times as much to hash."""
        return Random((self.seed << 64) + (key[1] << 16) + key[0])
