"""Decides when barriers on several input channels make a subtask take its snapshot: aligned, or only tracked.

Rules of alignment:
 1. after barrier n on a channel, that channel's later events are buffered, not processed;
 2. at the last barrier n the subtask snapshots; then the buffered events are processed, in order, before any new ones;
 3. a barrier of a newer checkpoint on a channel that is not blocked cancels the older alignment: its barrier on that
    channel will never come, because channels are first in, first out;
 4. a barrier of an older checkpoint, or of one that was given up, is ignored;
 5. an aborted checkpoint releases its blocked channels at once.

Tracking (at-least-once) blocks nothing: rows behind an early barrier are processed before the snapshot, which holds
them although the source's offsets do not cover them, so a restore repeats exactly those rows.
"""

from __future__ import annotations

from typing import Any

Event = tuple[str, int, Any]  # kind, channel, payload


class Aligned:
    __slots__ = ("blocked", "channels", "checkpoint_id", "done", "given_up", "held")

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.blocked: set[int] = set()  # channels of which the events are held
        self.held: list[Event] = []
        self.checkpoint_id = 0  # being aligned; 0: none
        self.done = 0  # the greatest id that was snapshotted
        self.given_up: set[int] = set()  # greater ids that were aborted; older ones may still be pending

    def hold(self, event: Event) -> None:
        """Keeps an event of a blocked channel."""
        assert event[1] in self.blocked
        self.held.append(event)

    def overtaken_by(self, checkpoint_id: int) -> bool:
        """Whether a barrier of this id on a channel that is not blocked gives up an older alignment (rule 3)."""
        return 0 < self.checkpoint_id < checkpoint_id

    def expects(self, checkpoint_id: int) -> bool:
        """Whether a barrier of this id is not ignored (rule 4)."""
        return checkpoint_id > self.done and checkpoint_id >= self.checkpoint_id and checkpoint_id not in self.given_up

    def overtake(self, checkpoint_id: int) -> None:
        """Its snapshot is taken now; barriers of it that are still missing are ignored from here on."""
        self.done, self.checkpoint_id = checkpoint_id, 0
        self.given_up = {newer for newer in self.given_up if newer > checkpoint_id}

    def barrier(self, channel: int, checkpoint_id: int) -> int | None:
        """The id of the checkpoint to snapshot now, or None."""
        if not self.expects(checkpoint_id):
            return None
        assert not self.overtaken_by(checkpoint_id), "cancel and release the older checkpoint first"
        self.checkpoint_id = checkpoint_id
        self.blocked.add(channel)
        if len(self.blocked) < self.channels:
            return None
        self.overtake(checkpoint_id)
        return checkpoint_id

    def cancel(self, checkpoint_id: int) -> bool:
        """Gives a checkpoint up; True if channels were released by it."""
        if checkpoint_id > self.done:
            self.given_up.add(checkpoint_id)
        if self.checkpoint_id != checkpoint_id:
            return False
        self.checkpoint_id = 0
        return True

    def release(self) -> list[Event]:
        """Returns the held events in order of arrival; no channel is blocked afterwards."""
        released, self.held = self.held, []
        self.blocked.clear()
        return released


class Tracked(Aligned):
    """Only counts barriers: no checkpoint is ever being aligned, so no channel is blocked and no event is held."""

    __slots__ = ("arrived",)

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.arrived: dict[int, int] = {}  # checkpoint id -> barriers seen

    def overtake(self, checkpoint_id: int) -> None:
        super().overtake(checkpoint_id)
        self.arrived = {pending: count for pending, count in self.arrived.items() if pending > checkpoint_id}

    def barrier(self, channel: int, checkpoint_id: int) -> int | None:
        if not self.expects(checkpoint_id):
            return None
        self.arrived[checkpoint_id] = seen = self.arrived.get(checkpoint_id, 0) + 1
        if seen < self.channels:
            return None
        self.overtake(checkpoint_id)
        return checkpoint_id

    def cancel(self, checkpoint_id: int) -> bool:
        self.arrived.pop(checkpoint_id, None)
        return super().cancel(checkpoint_id)
