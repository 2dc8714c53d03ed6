"""A subtask with unaligned checkpoints: a barrier overtakes rows, and the rows become part of the snapshot.

Rules:
 1. at the first urgent barrier n, on any channel, the subtask snapshots and sends urgent barriers at once;
 2. rows of any other channel that come before its barrier n are processed *and* recorded: they are not in the state
    that was just captured, and their senders' offsets cover them;
 3. the snapshot is whole when barrier n has come on every channel; only then is it persisted and voted for;
 4. with a timeout, barriers start aligned and carry when their checkpoint was triggered; where the alignment is not
    over by then plus the timeout, the subtask goes on as in rule 1, and so do all subtasks downstream;
 5. plain barriers always stay aligned. The final checkpoint uses them, because a row that is only recorded in it would
    never be written.

A newer barrier cancels an older recording, as it cancels an older alignment.
"""

from __future__ import annotations

from sinkproof.reference_engine.dataflow.in_flight_rows import IN_FLIGHT, QUEUED, Waiting, encode_waiting
from sinkproof.reference_engine.dataflow.job_graph import SubtaskPlan
from sinkproof.reference_engine.dataflow.subtask import Effect, States, Subtask
from sinkproof.sink_adapters.protocol import Batch


class Recording:
    """One unaligned snapshot that is being taken."""

    __slots__ = ("checkpoint_id", "missing", "queued", "rows", "states", "unsent")

    def __init__(self, checkpoint_id: int, missing: set[int], rows: list[Waiting]) -> None:
        self.checkpoint_id = checkpoint_id
        self.missing = missing  # channels that still lack the barrier
        self.rows = rows
        self.queued: list[Waiting] = []
        self.states: States | None = None  # captured
        self.unsent: set[int] = set()  # receivers for which its aligned barrier still waits behind rows

    @property
    def over(self) -> bool:
        return self.states is not None and not self.missing and not self.unsent

    def whole(self) -> States:
        """What is to be persisted."""
        assert self.states is not None
        parts = {IN_FLIGHT: self.rows, QUEUED: self.queued}
        return {**self.states, **{name: encode_waiting(rows) for name, rows in parts.items() if rows}}


class UnalignedSubtask(Subtask):
    """`timeout_ms`: how long a checkpoint may stay aligned, from its trigger; 0: not at all."""

    __slots__ = ("names", "recording", "started", "timeout_ms")

    def __init__(
        self, plan: SubtaskPlan, *, timeout_ms: float = 0, aligned: bool = True, barrier_every: int | None = None
    ) -> None:
        super().__init__(plan, aligned=aligned, barrier_every=barrier_every)
        self.timeout_ms = timeout_ms
        self.recording: Recording | None = None
        self.names = {channel: feed.name for channel, feed in zip(plan.inputs, plan.feeds, strict=True)}
        self.started: dict[int, float] = {}  # aligned checkpoint that may turn unaligned -> when it was triggered

    # -- barriers ----------------------------------------------------------------------------------

    def trigger(self, checkpoint_id: int, started: float | None) -> list[Effect]:
        """`started`: when the coordinator has triggered it; None: it must stay aligned."""
        self.alignment.overtake(checkpoint_id)  # no channel brings a barrier: it is over when it begins
        if started is not None:
            if self.timeout_ms:
                self.started[checkpoint_id] = started
            else:
                self.recording = Recording(checkpoint_id, set(), [])
        return super().trigger(checkpoint_id, None)

    def timed_barrier(self, channel: int, payload: tuple[int, float]) -> list[Effect] | tuple[Effect, ...]:
        """Aligned, unless that takes too long."""
        if channel in self.alignment.blocked:
            self.alignment.hold(("timed_barrier", channel, payload))
            return ()
        checkpoint_id, started = payload
        if self.alignment.overtaken_by(checkpoint_id):
            held = self._give_up(self.alignment.checkpoint_id)
            return (("drain", [*held, ("timed_barrier", channel, payload)]),)
        known = checkpoint_id in self.started
        self.started[checkpoint_id] = started
        effects = self.barrier(channel, checkpoint_id)
        if known or self.alignment.checkpoint_id != checkpoint_id:
            return effects
        return (*effects, ("alarm", started + self.timeout_ms, "turn_unaligned", checkpoint_id))

    def turn_unaligned(self, checkpoint_id: int, _: object) -> list[Effect] | tuple[Effect, ...]:
        """The alignment has taken too long."""
        return self._overtake(checkpoint_id) if self.alignment.checkpoint_id == checkpoint_id else ()

    def urgent(self, channel: int, checkpoint_id: int) -> list[Effect] | tuple[Effect, ...]:
        """A barrier that has overtaken rows, and does so here."""
        if self.recording is not None and self.recording.checkpoint_id == checkpoint_id:
            return self._passed(channel)
        if self.alignment.overtaken_by(checkpoint_id):
            held = self._give_up(self.alignment.checkpoint_id)
            return (("drain", [*held, ("urgent", channel, checkpoint_id)]),)
        return self._overtake(checkpoint_id, by=channel) if self.alignment.expects(checkpoint_id) else ()

    def barrier(self, channel: int, checkpoint_id: int) -> list[Effect] | tuple[Effect, ...]:
        recording = self.recording
        if recording is not None and channel not in self.alignment.blocked:
            if recording.checkpoint_id == checkpoint_id:  # sent before its sender has turned unaligned
                return self._passed(channel)
            if recording.checkpoint_id < checkpoint_id:
                self.recording = None
        return super().barrier(channel, checkpoint_id)

    # -- recording ---------------------------------------------------------------------------------

    def _overtake(self, checkpoint_id: int, *, by: int = 0) -> list[Effect]:
        """`by`: the channel of the urgent barrier; 0: none, the timeout has passed."""
        rows, arrived = self._waiting_in(checkpoint_id, by=by)
        missing = set(self.plan.inputs) - self.alignment.blocked - arrived
        self.alignment.overtake(checkpoint_id)
        self.recording = Recording(checkpoint_id, missing - {by}, rows)
        return self._snapshot(checkpoint_id)

    def captured(self, checkpoint_id: int, states: States) -> list[Effect]:
        recording = self.recording
        if recording is None or recording.checkpoint_id != checkpoint_id:
            return self._captured_aligned(checkpoint_id, states)
        self._forget_started(checkpoint_id)
        recording.states = states
        recording.queued = self._waiting_out(checkpoint_id)
        effects: list[Effect] = [("send", target, "urgent", checkpoint_id) for target in self.targets]
        effects += self._whole(recording)
        if held := self.alignment.release():
            effects.append(("drain", held))
        return effects

    def _captured_aligned(self, checkpoint_id: int, states: States) -> list[Effect]:
        effects = super().captured(checkpoint_id, states)
        started = self.started.get(checkpoint_id)
        self._forget_started(checkpoint_id)
        if started is None:
            return effects
        timed = [("send", target, "timed_barrier", (checkpoint_id, started)) for target in self.targets]
        return [*timed, *effects[len(timed) :]]

    def _forget_started(self, checkpoint_id: int) -> None:
        self.started = {newer: since for newer, since in self.started.items() if newer > checkpoint_id}

    def _passed(self, channel: int) -> list[Effect]:
        recording = self.recording
        assert recording is not None
        recording.missing.discard(channel)
        return self._whole(recording)

    def _whole(self, recording: Recording) -> list[Effect]:
        if not recording.over:
            return []
        self.recording = None
        self.uploading.add(recording.checkpoint_id)
        return [("upload", recording.checkpoint_id, recording.whole())]

    def rows(self, channel: int, batch: Batch) -> list[Effect] | tuple[Effect, ...]:
        if self.recording is not None and channel in self.recording.missing:
            self.recording.rows.append((self.names[channel], batch))
        return super().rows(channel, batch)

    def aborted(self, checkpoint_id: int, _: object) -> list[Effect]:
        if self.recording is not None and self.recording.checkpoint_id == checkpoint_id:
            self.recording = None
        self.started.pop(checkpoint_id, None)
        return super().aborted(checkpoint_id, None)

    # -- what buffers add --------------------------------------------------------------------------

    def _waiting_in(self, checkpoint_id: int, *, by: int) -> tuple[list[Waiting], set[int]]:
        """Rows before the barrier that have come and are not processed, and channels on which the barrier has come
        behind such rows. Here every row is processed when it comes.
        """
        return [], set()

    def _waiting_out(self, checkpoint_id: int) -> list[Waiting]:
        """Rows that its barrier overtakes in the queues to others. Here a row that is sent is on its way."""
        return []
