"""The coordinator as a process: the pure coordinator, driven by sockets and real time in one single-threaded loop.

Its listening socket belongs to its parent (coordinator_parent.py), so that its death is an ordinary event: supervisors
connect anew to its successor, which claims the next generation and restores the last complete checkpoint. A generation
is deployed when every supervisor that it needs is connected. Messages of other generations are dropped.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any, Final

from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.schedule import COORDINATOR
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord, Coordinator
from sinkproof.reference_engine.checkpointing.restore_and_rescale import Restored, assign, refuse_another_graph
from sinkproof.reference_engine.checkpointing.visible_rows import beyond
from sinkproof.reference_engine.dataflow.subtask import Subtask
from sinkproof.reference_engine.shells.carry_out_effects import ACTIONS, Key, act_for_coordinator
from sinkproof.reference_engine.shells.spark.attempt_process import StartOrder
from sinkproof.reference_engine.shells.spark.control_messages import Address, ControlConnection
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.guarded_entrance import Entrance, name_of
from sinkproof.reference_engine.shells.spark.process_fault_points import Points
from sinkproof.reference_engine.shells.spark.real_shell import RealShell
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.reference_engine.shells.spark.zombie_effects import ROWS_REPORTED_MOST
from sinkproof.reference_engine.shells.virtual_timing import Latencies
from sinkproof.sink_adapters.protocol import Sink

GOODBYE_SECONDS: Final = 5.0


class EarlyRowsWatcher:
    """Reads the committed view at the last moment at which a checkpoint's rows must be invisible."""

    def deploying(self, shell: Any) -> None:
        """Nothing is read."""

    def deciding(self, shell: Any, record: CheckpointRecord) -> None:
        read = shell.deployment.read_committed
        rows = read() if read is not None else None
        if not rows:
            return
        if early := beyond(shell.storage.latest(), rows):
            shell.events.record("early", checkpoint=record.checkpoint_id, rows=early[:ROWS_REPORTED_MOST])


class CoordinatorProcess(RealShell):
    """The shell (carry_out_effects.CoordinatorShell) of actor 0. `run` returns when the job is over."""

    def __init__(self, run: SparkRun, listening: socket.socket) -> None:
        self.deployment = run.deployment()
        self.checkpoint_id_stopped, self.silence = run.checkpoint_id_stopped, run.silence_seconds
        self.job, self.names = self.deployment.job, self.deployment.job.widest.names
        self.folder = folder = RunFolder(run.folder)
        self.events = folder.events()
        self.points = Points(folder, COORDINATOR, events=self.events)
        self.reach = self.points.reach
        self.storage: Any = run.storage(retained=self.job.configuration.checkpoints_retained)
        self.plan = self.job.plan
        self.latency = Latencies({}, {}, {}, decide=0)
        self.watcher, self.actions = EarlyRowsWatcher(), ACTIONS
        self.restart = self.job.restart()
        self.coordinator: Coordinator | None = None
        self.generation, self.checkpoint_id_last, self.stopping = 0, 0, 0
        self.finished, self.points_off, self.failure, self.over = False, False, "", False
        self.queue: list[tuple[Any, ...]] = []
        self.sequence = 0
        self.poll = select.epoll()
        self.entrance = Entrance(listening, self.poll, secret=run.secret, destination=0, events=self.events)
        self.connections: dict[int, ControlConnection] = {}
        self.supervisors: dict[int, ControlConnection] = {}
        self.addresses: dict[int, Address] = {}
        self.standby: dict[int, list[tuple[ControlConnection, Address]]] = {}  # second supervisors of one actor
        self.attempts: dict[int, ControlConnection] = {}
        self.outbox: dict[int, list[tuple[Any, ...]]] = {}  # for attempts that have not connected yet
        self.subtasks: dict[Key, Subtask] = {}  # those of this generation; they run in other processes
        self.sinks: dict[Key, Sink] = {}
        self.restored: dict[Key, Restored] = {}
        self.covers: dict[int, dict[int, int]] = {}  # checkpoint id -> offset of each split
        self.triggered: dict[int, float] = {}  # checkpoint id -> time, for measurements
        self.opened: set[int] = set()
        self.due = True  # a generation is to be deployed as soon as all supervisors are there

    # -- what effects need of their shell ----------------------------------------------------------

    def note(self, actor: str, what: str, detail: Any) -> None:
        if what == "complete":
            began = round(self.triggered.pop(detail, now()), 6)
            offsets = self.covers.pop(detail, {})
            rows = sum(offsets.values())
            self.events.record("complete", checkpoint=detail, generation=self.generation, rows=rows, trigger=began)
            if self.deployment.on_complete is not None:
                self.deployment.on_complete(offsets)
            if self.deployment.zombies_resume_late:
                self._resume_zombies()
            if self.stopping != self.generation and self.folder.stop_wish.exists():
                self.stopping = self.generation  # while this process waited for its store, none could tell it
                self.post(0.0, (0, self.generation), ("stop_with_checkpoint", None, None))
        elif what == "generation":
            self.events.record("generation", generation=self.generation, plan=[one.name for one in self.plan.subtasks])

    def post(self, delay: float, key: Key, event: tuple[str, Any, Any]) -> None:
        if key[0] == 0:
            self.sequence += 1
            heappush(self.queue, (self.now + delay, self.sequence, key[1], event))
            return
        if event[0] == "trigger":
            self.triggered.setdefault(event[1], now())
        if key[0] in self.attempts:
            self.attempts[key[0]].send(*event)
        else:
            self.outbox.setdefault(key[0], []).append(event)

    def deploy(self, record: CheckpointRecord | None) -> None:
        if record is not None:
            refuse_another_graph(self.plan, record)
        self.subtasks.clear()
        starting = [plan for plan in self.plan.subtasks if plan.sink or not (record is not None and record.final)]
        for plan in starting:
            self.subtasks[plan.id, self.generation] = Subtask(plan)
            order = StartOrder(
                plan=plan,
                names=self.names,
                generation=self.generation,
                restored=assign(plan, record, ignored=self.job.configuration.checkpoint_id_of_ignored_in_flight_data),
                downstream={target: self.addresses[target] for target, _ in sorted(plan.receivers)},
            )
            self.supervisors[plan.id].send("start", order)
        for actor, supervisor in self.supervisors.items():
            if actor not in {plan.id for plan in starting}:
                supervisor.send("stop", self.generation)

    # -- the loop ----------------------------------------------------------------------------------

    def run(self) -> None:
        self.events.record("coordinator")
        while not self.over:
            wait = max(0.0, (self.queue[0][0] - self.now) / 1000) if self.queue else -1.0
            for descriptor, _ in self.poll.poll(self.entrance.patience(wait)):
                if self.entrance.owns(descriptor):
                    self._admit(descriptor)
                elif descriptor in self.connections:
                    self._receive(self.connections[descriptor])
            while self.queue and self.queue[0][0] <= self.now:
                _, _, generation, event = heappop(self.queue)
                self._deliver(generation, event)
            self.entrance.drop_late()
            if self.finished or self.failure:
                self._end()
        if (close := getattr(self.deployment.on_complete, "close", None)) is not None:
            close()
        self._wait_for_goodbyes()

    def _admit(self, descriptor: int) -> None:
        admitted = self.entrance.ready(descriptor)
        if admitted is None:
            return
        connection = ControlConnection.admitted(admitted, silence=self.silence)
        self.connections[connection.fileno()] = connection
        self.poll.register(connection, select.EPOLLIN)

    def _receive(self, connection: ControlConnection) -> None:
        messages = connection.receive()
        if messages is None:
            self._lost(connection)
            return
        for message in messages:
            getattr(self, "on_" + message[0])(connection, *message[1:])

    def _lost(self, connection: ControlConnection) -> None:
        self.poll.unregister(connection)
        del self.connections[connection.fileno()]
        if connection.refusal:
            self.events.record("refused", peer=name_of(connection.socket), destination=0, why=connection.refusal)
        connection.close()
        actor = connection.actor
        self.standby[actor] = [one for one in self.standby.get(actor, ()) if one[0] is not connection]
        if self.supervisors.get(actor) is connection:
            del self.supervisors[actor], self.addresses[actor]
            self._promote(actor)
            self._failed(actor, "its worker is gone")
        elif self.attempts.get(actor) is connection and connection.generation == self.generation:
            self._failed(actor, "its connection is gone")

    def _deliver(self, generation: int, event: tuple[str, Any, Any]) -> None:
        if generation != self.generation or self.over:
            return
        if event[0] == "regenerate":
            self.due = True
            self._next_generation()
        elif self.coordinator is not None:
            act_for_coordinator(self, self.coordinator.on(self.now, event))

    # -- messages ----------------------------------------------------------------------------------

    def on_supervisor(self, connection: ControlConnection, actor: int, address: Address) -> None:
        """A second one comes when Spark has given up a host that is only cut off; it waits until the first is lost."""
        connection.actor = actor
        self.standby.setdefault(actor, []).append((connection, address))
        self._promote(actor)
        self._next_generation()

    def _promote(self, actor: int) -> None:
        if actor not in self.supervisors and self.standby.get(actor):
            self.supervisors[actor], self.addresses[actor] = self.standby[actor].pop(0)

    def on_ended(self, connection: ControlConnection, generation: int, why: str) -> None:
        if generation == self.generation:
            self._failed(connection.actor, why)

    def on_attempt(self, connection: ControlConnection, actor: int, generation: int) -> None:
        connection.actor, connection.generation = actor, generation
        if generation != self.generation:
            connection.hang_up()
            return
        self.attempts[actor] = connection
        for event in self.outbox.pop(actor, ()):
            connection.send(*event)

    def on_covers(self, connection: ControlConnection, checkpoint_id: int, offsets: Mapping[int, int]) -> None:
        if connection.generation == self.generation:
            self.covers.setdefault(checkpoint_id, {}).update(offsets)

    def on_failed(self, connection: ControlConnection, why: str) -> None:
        if connection.generation == self.generation:
            self._failed(connection.actor, why)

    def on_event(self, connection: ControlConnection, *event: Any) -> None:
        """(kind, a, b), as `Coordinator.on` takes them."""
        if connection.generation != self.generation:
            return
        kind, a, b = event
        self._deliver(self.generation, (kind, a, b))
        if kind == "opened":
            self._note_opened(a)

    def on_stop(self, connection: ControlConnection) -> None:
        """The user may have requested that the job ends with a checkpoint."""
        self._stop_if_wished()

    def _stop_if_wished(self) -> None:
        if self.folder.stop_wish.exists():
            self.stopping = self.generation
            self._deliver(self.generation, ("stop_with_checkpoint", None, None))

    def _note_opened(self, actor: int) -> None:
        self.opened.add(actor)
        if len(self.opened) < len(self.subtasks):
            return
        self.events.record("running", generation=self.generation)
        if not self.deployment.zombies_resume_late:
            self._resume_zombies()
        self._stop_if_wished()
        if self.job.configuration.checkpoint_interval is not None:
            self._deliver(self.generation, ("retrigger", None, None))

    def _resume_zombies(self) -> None:
        for supervisor in self.supervisors.values():
            supervisor.send("resume_zombies")

    # -- generations -------------------------------------------------------------------------------

    def _failed(self, actor: int, why: str) -> None:
        if self.coordinator is None or self.coordinator.over or self.over:
            return
        self.events.record("failed", actor=self.names[actor], generation=self.generation, why=why)
        self._deliver(self.generation, ("failed", actor, why))

    def _next_generation(self) -> None:
        if not self.due or self.over or len(self.supervisors) < len(self.job.widest.subtasks):
            return
        self.due = False
        self.reach("generation.before")
        self.generation = self.points.generation = self.storage.claim_generation()
        for replaced in self.attempts.values():
            replaced.send("cancel", None, None)
            replaced.hang_up()  # a zombie must find its connection closed
        self.attempts.clear()
        self.outbox.clear()
        self.covers.clear()
        self.triggered.clear()
        self.opened.clear()
        record = self.storage.latest()
        if record is not None and record.checkpoint_id == self.checkpoint_id_stopped:
            record = record._replace(final=False)
        self.plan = self.job.plan_after(record, former=self.plan)
        self.note(COORDINATOR, "generation", None)
        self.reach("generation.after")
        self.coordinator = Coordinator(
            *(self.plan, self.job.configuration, self.restart),
            record=record,
            checkpoint_id_last=self.checkpoint_id_last,
        )
        act_for_coordinator(self, self.coordinator.on(self.now, ("start", None, None)))

    def _end(self) -> None:
        self.over = True
        self.events.record("finished" if self.finished else "given up", why=self.failure)
        for attempt in self.attempts.values() if self.failure else ():
            attempt.send("cancel", None, None)
        second = [connection for waiting in self.standby.values() for connection, _ in waiting]
        for supervisor in (*self.supervisors.values(), *second):
            supervisor.send("finish")

    def _wait_for_goodbyes(self) -> None:
        """A socket that is closed while something in it is unread may take back what it has sent."""
        deadline = Deadline(GOODBYE_SECONDS)
        while self.supervisors and not deadline.over:
            for descriptor, _ in self.poll.poll(deadline.left):
                connection = self.connections.get(descriptor)
                if connection is not None and connection.receive() is None:
                    self._lost(connection)
