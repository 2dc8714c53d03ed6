"""Watermarks: a bound on the event times of rows that may still come, for a source and for a subtask.

In each split of a source, rows are at most `out_of_order_ms` older than the newest so far. Its watermark is
the least of its splits that are not at their end; a subtask's is the least of its channels. An idle channel is left out
until it sends again; a channel that has ended holds no watermark back.

A source's watermark is part of its snapshot and is sent again after a restore: a watermark that fell back would let
rows into windows that have been fired already. Watermarks of channels are not part of it: their senders repeat them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sinkproof.sink_adapters.protocol import Batch

NEVER: Final = float("-inf")  # nothing is known
ENDED: Final = float("inf")  # no row will come at all

Moved = float | None  # the new watermark; None: it is what it was


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    """What a source assumes of the event times of its rows."""

    out_of_order_ms: int = 0  # within a split; a row that is older than that may be late
    idle_after_ms: int | None = None  # without a batch for so long, the source is idle; None: it never is


class SourceClock:
    """The watermark of one source subtask."""

    __slots__ = ("batches", "idle", "newest", "sent", "watermarks")

    def __init__(self, watermarks: Watermarks, splits: Iterable[int]) -> None:
        self.watermarks = watermarks
        self.newest: dict[int, float] = dict.fromkeys(splits, NEVER)  # split -> the newest event time
        self.sent = NEVER
        self.batches = 0  # so that a timer can detect whether anything came since
        self.idle = False

    def read(self, split: int, batch: Batch, *, live: Iterable[int]) -> Moved:
        """A batch was sent; `live`: the splits that are not at their end."""
        self.newest[split] = max(self.newest[split], *(row.event_time_ms for row in batch.rows))
        self.batches += 1
        watermark = self._watermark(live)
        was_idle, self.idle = self.idle, False
        if watermark > self.sent or (was_idle and watermark > NEVER):
            self.sent = max(watermark, self.sent)
            return self.sent
        return None

    def _watermark(self, live: Iterable[int]) -> float:
        # One less: rows of the very newest time may still come.
        return min((self.newest[split] for split in live), default=NEVER) - self.watermarks.out_of_order_ms - 1

    def capture(self) -> bytes:
        newest = [[split, time] for split, time in sorted(self.newest.items()) if time > NEVER]
        return json.dumps({"newest": newest, "said": None if self.sent == NEVER else self.sent}).encode()

    def restore(self, states: Iterable[bytes]) -> None:
        """`states`: of all old sources. Splits may have moved, so the least of their watermarks holds here."""
        held = [json.loads(state) for state in states]
        for one in held:
            self.newest.update({split: time for split, time in one["newest"] if split in self.newest})
        known = [one["said"] for one in held]
        self.sent = NEVER if None in known or not known else min(known)


class ChannelClock:
    """The watermark of a subtask with input channels."""

    __slots__ = ("idle", "idle_sent", "sent", "watermark")

    def __init__(self, channels: Iterable[int]) -> None:
        self.sent: dict[int, float] = dict.fromkeys(channels, NEVER)
        self.idle: set[int] = set()
        self.idle_sent = False  # to the subtasks downstream
        self.watermark = NEVER

    def on(self, channel: int, watermark: float) -> Moved:
        self.sent[channel] = max(watermark, self.sent[channel])
        self.idle.discard(channel)
        return self._move()

    def on_idle(self, channel: int) -> Moved:
        self.idle.add(channel)
        return self._move()

    def _move(self) -> Moved:
        watermark = min((said for channel, said in self.sent.items() if channel not in self.idle), default=NEVER)
        if watermark == ENDED and self.idle:
            watermark = NEVER  # an idle channel may go on, so the ended ones are not the only ones
        resumed, self.idle_sent = self.idle_sent and not self.all_idle, self.idle_sent and self.all_idle
        if watermark > self.watermark or (resumed and self.watermark > NEVER):
            self.watermark = max(watermark, self.watermark)
            return self.watermark
        return None

    @property
    def all_idle(self) -> bool:
        """Every channel is idle or has ended, and at least one is idle."""
        silent = self.idle.union(channel for channel, said in self.sent.items() if said == ENDED)
        return bool(self.idle) and len(silent) == len(self.sent)
