"""A subtask between bounded buffers: which event it takes next, and what waits for credits (rules: flow_control.py).

It takes one event at a time, and only if no queue of its own is full; a source with a full queue reads nothing. Events
of a channel that alignment blocks stay in its buffers, so its sender runs out of credits. An urgent barrier waits for
none of this: it is handled on arrival, and everything in the buffers before it is recorded.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from sinkproof.reference_engine.dataflow.flow_control import ROWS, TIMED, Buffers, Gate, Item, Outlet
from sinkproof.reference_engine.dataflow.in_flight_rows import Waiting
from sinkproof.reference_engine.dataflow.job_graph import SubtaskPlan
from sinkproof.reference_engine.dataflow.subtask import Effect, States
from sinkproof.reference_engine.dataflow.unaligned_barriers import Recording, UnalignedSubtask
from sinkproof.sink_adapters.protocol import Batch


class BufferedSubtask(UnalignedSubtask):
    """More events: arrive (an Item on a channel), granted (credits from a receiver), ready (done with a batch).

    More effects: ("transmit", to, item) · ("grant", to, credits) · ("note", what, detail) for people. The shell gives
    every "send" back to `hand_over`, which says what may be transmitted by now.
    """

    __slots__ = ("buffers", "busy", "gate", "outlets", "peak", "receivers", "recovered", "stalled")

    def __init__(
        self,
        plan: SubtaskPlan,
        buffers: Buffers,
        *,
        timeout_ms: float = 0,
        aligned: bool = True,
        barrier_every: int | None = None,
    ) -> None:
        super().__init__(plan, timeout_ms=timeout_ms, aligned=aligned, barrier_every=barrier_every)
        self.buffers = buffers
        self.gate = Gate(plan.inputs, buffers)
        self.outlets = {target: Outlet(buffers.exclusive) for target in self.targets}
        self.receivers = dict(plan.receivers)
        self.recovered: deque[Waiting] = deque()  # to be processed before anything that comes
        self.busy = False
        self.stalled = False  # a source that reads nothing, because a queue is full
        self.peak = 0  # batches in its buffers, at most

    def open(self, _: Any, __: Any) -> list[Effect]:
        self.recovered, self.replay = deque(self.replay), ()
        effects = super().open(None, None)
        return [*effects, *self._go_on()]

    # -- in ----------------------------------------------------------------------------------------

    def arrive(self, channel: int, item: Item) -> list[Effect]:
        if item.kind == "urgent":
            return list(self.urgent(channel, item.payload))
        effects = [("grant", to, credits) for to, credits in self.gate.arrive(channel, item)]
        recording = self.recording
        if item.kind == ROWS and recording is not None and channel in recording.missing:
            recording.rows.append((self.names[channel], item.payload))
        if item.kind == TIMED:
            effects += self._announced(channel, *item.payload)
        return [*effects, *self._measured(), *self._go_on()]

    def _announced(self, channel: int, checkpoint_id: int, started: float) -> list[Effect]:
        """A barrier that may have to turn urgent is known from when it comes, not from when it is taken."""
        recording = self.recording
        if recording is not None and recording.checkpoint_id == checkpoint_id and channel in recording.missing:
            self.gate.before(channel, checkpoint_id)  # its rows were recorded when they came
            return self._passed(channel)
        if checkpoint_id in self.started or not self.alignment.expects(checkpoint_id):
            return []
        self.started[checkpoint_id] = started
        return [("alarm", started + self.timeout_ms, "turn_unaligned", checkpoint_id)]

    def ready(self, _: Any, __: Any) -> list[Effect]:
        self.busy = False
        return self._go_on()

    def _go_on(self) -> list[Effect]:
        """Takes the next event, if there is one that may be taken."""
        if self.busy or self._full():
            return []
        if self.recovered:
            return self._busy_with([*self._process(self.recovered.popleft()[1])], rows=True)
        channel = self.gate.next_channel(self.alignment.blocked)
        if channel is None:
            return []
        kind, payload, grants = self.gate.take(channel)
        effects = [*self.on(kind, channel, payload), *(("grant", to, credits) for to, credits in grants)]
        return self._busy_with(effects, rows=kind == ROWS)

    def _busy_with(self, effects: list[Effect], *, rows: bool) -> list[Effect]:
        self.busy = True
        work_ms = self.buffers.work_ms.get(self.plan.vertex, 0) if rows else 0
        return [*effects, ("timer", work_ms, "ready")]

    def rows(self, channel: int, batch: Batch) -> list[Effect]:
        return self._process(batch)  # recorded when it came, not when it is taken

    # -- out ---------------------------------------------------------------------------------------

    def _full(self) -> bool:
        return any(outlet.backlog >= self.buffers.queued for outlet in self.outlets.values())

    def emit(self, _: Any, __: Any) -> list[Effect] | tuple[Effect, ...]:
        if not self._full():
            return super().emit(None, None)
        if self.stalled:
            return ()
        self.stalled = True
        return (("note", "stalled", None),)

    def hand_over(self, to: int, kind: str, payload: Any) -> list[Effect]:
        """Carries a "send" out: into the queue to its receiver, and on as far as credits go."""
        if kind == "urgent":
            return [("transmit", to, Item(kind, payload))]
        sent = self.outlets[to].put(kind, payload)
        return [*(("transmit", to, item) for item in sent), *self._measured()]

    def granted(self, to: int, credits: int) -> list[Effect]:
        effects: list[Effect] = [("transmit", to, item) for item in self.outlets[to].grant(credits)]
        recording = self.recording
        if recording is not None and to in recording.unsent:
            effects += self._sent_by_now(recording)
        if self.stalled and not self._full():
            self.stalled = False
            effects += [("note", "resumed", None), ("timer", None, "emit")]
        return [*effects, *self._go_on()]

    def _measured(self) -> list[Effect]:
        """How many batches there are in its buffers, whenever there were never more."""
        now = self.gate.held + sum(outlet.backlog for outlet in self.outlets.values())
        if now <= self.peak:
            return []
        self.peak = now
        return [("note", "buffered", now)]

    # -- checkpoints -------------------------------------------------------------------------------

    def captured(self, checkpoint_id: int, states: States) -> list[Effect]:
        return [*super().captured(checkpoint_id, states), ("drain", [("sent", checkpoint_id, states)])]

    def _captured_aligned(self, checkpoint_id: int, states: States) -> list[Effect]:
        """With a timeout, what is persisted has to wait: its barrier may still have to overtake the queues."""
        started = self.started.get(checkpoint_id)
        effects = super()._captured_aligned(checkpoint_id, states)
        if started is None:
            return effects
        self.uploading.discard(checkpoint_id)
        self.recording = recording = Recording(checkpoint_id, set(), [])
        recording.states, recording.unsent = states, set(self.targets)
        alarm = ("alarm", started + self.timeout_ms, "turn_unaligned", checkpoint_id)
        return [*(effect for effect in effects if effect[0] != "upload"), alarm]

    def sent(self, checkpoint_id: int, _: Any) -> list[Effect]:
        """The barriers that were to be sent are transmitted, or in the queues; blocked channels are free again."""
        recording = self.recording
        mine = recording is not None and recording.checkpoint_id == checkpoint_id
        effects = self._sent_by_now(recording) if recording is not None and mine else []
        return [*effects, *self._go_on()]

    def _sent_by_now(self, recording: Recording) -> list[Effect]:
        recording.unsent = {to for to in recording.unsent if self.outlets[to].holds_barrier(recording.checkpoint_id)}
        return self._whole(recording)

    def turn_unaligned(self, checkpoint_id: int, _: object) -> list[Effect]:
        recording = self.recording
        if recording is not None and recording.checkpoint_id == checkpoint_id:
            return self._overtake_queues(recording)
        if not self.alignment.expects(checkpoint_id):
            return []
        held = self._give_up(self.alignment.checkpoint_id) if self.alignment.overtaken_by(checkpoint_id) else []
        assert not held, "what is blocked waits in the gate"
        return self._overtake(checkpoint_id)

    def _overtake_queues(self, recording: Recording) -> list[Effect]:
        """The snapshot was aligned; only its barriers are late."""
        late, recording.unsent = recording.unsent, set()
        for to in sorted(late):
            recording.queued += self._overtaken_in(to, recording.checkpoint_id)
        return [*(("send", to, "urgent", recording.checkpoint_id) for to in sorted(late)), *self._whole(recording)]

    def _overtaken_in(self, to: int, checkpoint_id: int) -> list[Waiting]:
        return [(self.receivers[to], batch) for batch in self.outlets[to].overtaken(checkpoint_id)]

    def _waiting_in(self, checkpoint_id: int, *, by: int) -> tuple[list[Waiting], set[int]]:
        found, arrived = list(self.recovered), set()
        for channel in self.gate.inlets:
            if channel in self.alignment.blocked:
                continue
            batches, there = self.gate.before(channel, checkpoint_id)
            found += [(self.names[channel], batch) for batch in batches]
            arrived |= {channel} if there else set()
        return found, arrived

    def _waiting_out(self, checkpoint_id: int) -> list[Waiting]:
        return [waiting for to in self.outlets for waiting in self._overtaken_in(to, checkpoint_id)]

    def aborted(self, checkpoint_id: int, _: object) -> list[Effect]:
        return [*super().aborted(checkpoint_id, None), *self._go_on()]
