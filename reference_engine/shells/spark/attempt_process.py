"""One attempt of one subtask in a process of its own: the pure subtask, driven by sockets and real time.

A loop over one poller: orders from the coordinator, batches and barriers from upstream, credits from downstream,
timers, finished uploads. It reads a channel only when it may process what comes: not while a barrier blocks the
channel, nor while a downstream has no credit left. Snapshots are stored by a thread of their own, while rows go on.
"""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.error_text import described
from sinkproof.chaos.lines import LineTracer, file_points
from sinkproof.chaos.processes.process_wide_state import stay_in_subjects_state
from sinkproof.chaos.shared.event_log import EventLog
from sinkproof.reference_engine.checkpointing.restore_and_rescale import Restored, restore
from sinkproof.reference_engine.dataflow.columns import decode, encode
from sinkproof.reference_engine.dataflow.flow_control import Buffers
from sinkproof.reference_engine.dataflow.job_graph import SubtaskPlan
from sinkproof.reference_engine.dataflow.replayable_sources import decode_offsets
from sinkproof.reference_engine.dataflow.subtask import Effect
from sinkproof.reference_engine.shells.carry_out_effects import ACTIONS, Action, Key, act
from sinkproof.reference_engine.shells.spark.channels import (
    END,
    ROWS,
    ChannelLost,
    Forged,
    InChannel,
    OutChannel,
    event_of,
    frame_of,
)
from sinkproof.reference_engine.shells.spark.control_messages import Address, connect, control_connection
from sinkproof.reference_engine.shells.spark.deployment import Deployment, SparkRun
from sinkproof.reference_engine.shells.spark.guarded_entrance import Entrance
from sinkproof.reference_engine.shells.spark.process_fault_points import Points
from sinkproof.reference_engine.shells.spark.real_shell import RealShell
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.reference_engine.shells.virtual_timing import Latencies
from sinkproof.sink_adapters.protocol import Sink

POLL_SECONDS: Final = 0.002  # between two polls of a source without rows
IDLE_POLL_MS: Final = 100  # between two checks of a source that seemed idle, and was not


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """The attempt that a supervisor is to start."""

    plan: SubtaskPlan
    names: tuple[str, ...]
    generation: int
    restored: Restored
    downstream: Mapping[int, Address]  # actor id -> its address


class SparkAttempt(RealShell):
    """The shell (carry_out_effects.SubtaskShell) of one attempt. `run` returns when it was cancelled."""

    buffers: Buffers | None = None  # rows that may not be processed yet wait in the socket

    def __init__(
        self, run: SparkRun, deployment: Deployment, order: StartOrder, *, listening: socket.socket | None
    ) -> None:
        self.deployment, self.order = deployment, order
        self.job, self.names = deployment.job, order.names
        plan = order.plan
        self.key: Key = (plan.id, order.generation)
        folder = RunFolder(run.folder)
        self.events: EventLog = folder.events()
        self.points = Points(folder, plan.name, events=self.events, generation=order.generation, files=deployment.files)
        self.reach: Callable[[str], None] = self.points.reach
        self.latency = Latencies({}, {plan.id: deployment.pace_ms}, {plan.id: 0})
        self.storage: Any = run.storage(generation=order.generation)
        self.subtask = self.job.subtask(plan, self.buffers)
        restore(self.subtask, order.restored)
        self.subtasks = {self.key: self.subtask}
        self.restored = {self.key: order.restored}
        self.sinks: dict[Key, Sink] = {self.key: deployment.make_sink()} if plan.sink else {}
        self.actions = self._actions()
        self.timers: list[tuple[float, int, Any]] = []
        self.posted, self.cancelled, self.emit_due = 0, False, False
        self.offsets: dict[int, Mapping[int, int]] = {}  # checkpoint id -> offset of each split, for progress reports
        self.coordinator = control_connection(run.coordinator, run.secret, destination=0, silence=run.silence_seconds)
        self.outputs = {actor: self._channel_to(actor, run.secret) for actor in order.downstream}
        self.inputs: dict[int, InChannel] = {}
        self.watched: dict[int, int] = {}  # descriptor -> events that it is polled for
        self.poll = select.epoll()
        self.entrance: Entrance | None = None
        if listening is not None:
            self.entrance = Entrance(listening, self.poll, secret=run.secret, destination=plan.id, events=self.events)
        self.uploads = Uploads()

    # -- what effects need of their shell ----------------------------------------------------------

    def _actions(self) -> dict[str, Action]:
        return {**ACTIONS, "send": self._send, "upload": self._upload}

    def note(self, actor: str, what: str, detail: Any) -> None:
        if what == "acknowledged":
            self.coordinator.send("covers", detail, self.offsets.pop(detail, {}))

    def post(self, delay: float, key: Key, event: tuple[str, Any, Any]) -> None:
        if key[0] == 0:
            self.coordinator.send("event", *event)
        elif event[0] == "emit" and not delay:
            self.emit_due = True
        else:
            self.posted += 1
            heappush(self.timers, (self.now + delay, self.posted, event))

    def _send(self, _: Any, key: Key, effect: Effect) -> None:
        _, to, kind, payload = effect
        self._put(to, kind, payload)

    def _put(self, to: int, kind: str, payload: Any, *, backlog: int = 0) -> None:
        """The announced backlog travels where barriers have their checkpoint."""
        channel = self.outputs[to]
        code, number, data = (ROWS, backlog, encode(payload)) if kind == "rows" else frame_of(kind, payload)
        channel.send(code, data=data, checkpoint_id=number)
        self._watch(channel.fileno(), self._wanted_of(channel))

    def _upload(self, _: Any, key: Key, effect: Effect) -> None:
        _, checkpoint_id, states = effect
        if "source" in states:
            self.offsets[checkpoint_id] = dict(decode_offsets(states["source"]))
        name = self.names[key[0]]
        self.uploads.put(checkpoint_id, lambda: self.storage.store(checkpoint_id, name, states))

    # -- the loop ----------------------------------------------------------------------------------

    def run(self) -> None:
        stay_in_subjects_state()
        tracer = LineTracer(self.deployment.files, threads=True)
        with ExitStack() as stack:
            if self.deployment.effects_below and self.order.plan.sink:
                stack.enter_context(file_points(Path(self.deployment.effects_below), self.reach))
            if self.deployment.traces_lines and self.order.plan.sink:
                stack.enter_context(tracer(self.reach))
            self._run()

    def _run(self) -> None:
        self.coordinator.send("attempt", *self.key)
        self._watch(self.coordinator.fileno(), select.EPOLLIN)
        self._watch(self.uploads.descriptor, select.EPOLLIN)
        for channel in self.outputs.values():
            self._watch(channel.fileno(), select.EPOLLIN)
        self._handle(("open", None, None))
        while not self.cancelled:
            self._read_what_may_be_processed()
            for descriptor, mask in self.poll.poll(self._patience()):
                self._ready(descriptor, mask)
            if self.entrance is not None:
                self.entrance.drop_late()
            self._timers()
            if self.emit_due and self._may_send() and self._can_read():
                self.emit_due = False
                self._handle(("emit", None, None))
        self.close()

    def _patience(self) -> float:
        """Seconds; for ever if nothing but a message can make work."""
        patience = max(0.0, (self.timers[0][0] - self.now) / 1000) if self.timers else -1.0
        if self.entrance is not None:
            patience = self.entrance.patience(patience)
        if not self.emit_due or not self._may_send():
            return patience
        if self._can_read():
            return 0.0
        return POLL_SECONDS if patience < 0 else min(patience, POLL_SECONDS)

    def _handle(self, event: tuple[str, Any, Any]) -> None:
        act(self, self.key, self.subtask.on(*event))

    def _timers(self) -> None:
        while self.timers and self.timers[0][0] <= self.now:
            event = heappop(self.timers)[2]
            if event[0] == "emit":
                self.emit_due = True  # as soon as there is a credit, and something to be read
            elif event[0] == "quiet" and self._only_seems_quiet(event[1]):
                self.post(IDLE_POLL_MS, self.key, event)
            else:
                self._handle(event)

    def _only_seems_quiet(self, batches: int) -> bool:
        """A client that is still connecting, or may not send, is not idle: rows that others overtake would be late."""
        clock = self.subtask.source_clock
        if clock is None or self.subtask.reader is None:
            return False
        return batches == clock.batches and not self.subtask.reader.caught_up()

    def _can_read(self) -> bool:
        return self.subtask.reader is None or self.subtask.reader.ready()

    def _may_send(self) -> bool:
        return all(channel.credits > 0 for channel in self.outputs.values())

    def _ready(self, descriptor: int, mask: int) -> None:
        if descriptor == self.coordinator.fileno():
            self._obey()
        elif descriptor == self.uploads.descriptor:
            for checkpoint_id, kept in self.uploads.done():
                self._handle(("persisted", checkpoint_id, kept))
        elif self.entrance is not None and self.entrance.owns(descriptor):
            self._admit(self.entrance, descriptor)
        elif descriptor in self.inputs:
            self._receive(self.inputs[descriptor])
        else:
            self._serve(next(one for one in self.outputs.values() if one.fileno() == descriptor), mask)

    def _obey(self) -> None:
        messages = self.coordinator.receive()
        if self.coordinator.refusal:
            raise Forged(self.coordinator.refusal)
        if messages is None:
            raise ChannelLost("the coordinator is gone, or has replaced us")
        for kind, a, b in messages:
            if kind == "cancel":
                self.cancelled = True
                return
            self._handle((kind, a, b))

    # -- channels ----------------------------------------------------------------------------------

    def _watch(self, descriptor: int, wanted: int) -> None:
        before = self.watched.get(descriptor)
        if before == wanted:
            return
        if before is None:
            self.poll.register(descriptor, wanted)
        else:
            self.poll.modify(descriptor, wanted)
        self.watched[descriptor] = wanted

    def _wanted_of(self, channel: OutChannel) -> int:
        return select.EPOLLIN | (select.EPOLLOUT if channel.waiting else 0)

    def _serve(self, channel: OutChannel, mask: int) -> None:
        if mask & ~select.EPOLLOUT:
            self._credited(channel, channel.take_credits())
        channel.flush()
        self._watch(channel.fileno(), self._wanted_of(channel))

    def _credited(self, channel: OutChannel, count: int) -> None:
        """The channel counts for itself."""

    def _channel_to(self, actor: int, secret: bytes) -> OutChannel:
        plan, generation = self.order.plan, self.order.generation
        address = self.order.downstream[actor]
        handshake, connected = connect(address, secret, destination=actor, introduced=(generation, plan.id))
        return OutChannel(connected, handshake)

    def _admit(self, entrance: Entrance, descriptor: int) -> None:
        admitted = entrance.ready(descriptor)
        if admitted is None:
            return
        generation, sender = admitted.introduced
        if generation != self.key[1] or sender not in self.order.plan.inputs:
            admitted.socket.close()  # an earlier generation's, which waited in the backlog
            return
        channel = InChannel.admitted(admitted)
        self.inputs[channel.fileno()] = channel

    def _read_what_may_be_processed(self) -> None:
        may_send, blocked = self._may_send(), self.subtask.alignment.blocked
        for descriptor, channel in self.inputs.items():
            reads = may_send and channel.sender not in blocked
            self._watch(descriptor, select.EPOLLIN if reads else 0)

    def _receive(self, channel: InChannel) -> None:
        try:
            frame = channel.receive()
        except ChannelLost:
            if not channel.ended:
                raise
            self.poll.unregister(channel.fileno())  # the job is over, and the sender was notified first
            del self.inputs[channel.fileno()], self.watched[channel.fileno()]
            return
        if frame is None:
            return
        code, number, data = frame
        channel.ended |= code == END
        self._take(channel, code, (number, data))

    def _take(self, channel: InChannel, code: int, frame: tuple[int, bytearray | memoryview]) -> None:
        if code == ROWS:
            self._handle(("rows", channel.sender, decode(frame[1])))
            channel.give_credits(1)
            return
        kind, payload = event_of(code, *frame)
        self._handle((kind, channel.sender, payload))

    def close(self) -> None:
        for one in (self.sinks.get(self.key), self.subtask.reader):
            close = getattr(one, "close", None)
            if close is not None:
                close()


class Uploads:
    """Stores snapshots one after another in a thread, and signals the loop when one is durable."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stored: deque[tuple[int, Future[Any]]] = deque()
        self._thread = ThreadPoolExecutor(1)  # started when it is needed: most attempts are killed young

    def put(self, checkpoint_id: int, store: Callable[[], Any]) -> None:
        stored = self._thread.submit(store)
        self._stored.append((checkpoint_id, stored))
        stored.add_done_callback(lambda _: os.eventfd_write(self.descriptor, 1))

    def done(self) -> list[tuple[int, Any]]:
        """What is durable by now; raises what a store has raised."""
        os.eventfd_read(self.descriptor)
        found = []
        while self._stored and self._stored[0][1].done():
            checkpoint_id, stored = self._stored.popleft()
            found.append((checkpoint_id, stored.result()))
        return found


def live(attempt: SparkAttempt) -> None:
    """The body of an attempt's process. A failure of the sink is reported to the coordinator, then ends the attempt."""
    try:
        attempt.run()
    except ChannelLost as error:  # the other end has died; the process that observes the death reports it
        if isinstance(error, Forged):
            attempt.events.record("refused", actor=attempt.order.plan.name, why=str(error))
        attempt.close()
        raise SystemExit(2) from None
    except Exception as error:  # the border: any failure of the sink
        why = described(error)
        attempt.events.record("raised", actor=attempt.order.plan.name, generation=attempt.order.generation, why=why)
        attempt.coordinator.send("failed", why)
        raise SystemExit(3) from error
