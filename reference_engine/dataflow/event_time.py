"""Watermarks: how a subtask knows that no row older than some event time will come.

A source says of each of its splits: rows are at most `out_of_order_ms` older than the newest so far. Its watermark is
the least of its splits' that are not at their end; a subtask's is the least of its channels'. A channel that says it is
idle is left out until it says something again; one that has ended holds nobody back.

What a source knows is part of its snapshot, and it says it again after a restore: a watermark that fell back would let
rows into windows that have been fired already. What channels said is not: they say it again.
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
    """What a source says of its rows' event times."""

    out_of_order_ms: int = 0  # within a split; a row that is older than that may be late
    idle_after_ms: int | None = None  # without a batch for so long, the source holds nobody back; None: it always does


class SourceClock:
    """The watermark of one source subtask."""

    __slots__ = ("batches", "idle", "newest", "said", "watermarks")

    def __init__(self, watermarks: Watermarks, splits: Iterable[int]) -> None:
        self.watermarks = watermarks
        self.newest: dict[int, float] = dict.fromkeys(splits, NEVER)  # split -> the newest event time
        self.said = NEVER
        self.batches = 0  # so that a timer can tell whether anything came since
        self.idle = False

    def read(self, split: int, batch: Batch, *, live: Iterable[int]) -> Moved:
        """A batch was sent; `live`: the splits that are not at their end."""
        self.newest[split] = max(self.newest[split], *(row.event_time_ms for row in batch.rows))
        self.batches += 1
        watermark = self._watermark(live)
        was_idle, self.idle = self.idle, False
        if watermark > self.said or (was_idle and watermark > NEVER):
            self.said = max(watermark, self.said)
            return self.said
        return None

    def _watermark(self, live: Iterable[int]) -> float:
        # One less: rows of the very newest time may still come.
        return min((self.newest[split] for split in live), default=NEVER) - self.watermarks.out_of_order_ms - 1

    def capture(self) -> bytes:
        newest = [[split, time] for split, time in sorted(self.newest.items()) if time > NEVER]
        return json.dumps({"newest": newest, "said": None if self.said == NEVER else self.said}).encode()

    def restore(self, states: Iterable[bytes]) -> None:
        """Of all old sources: splits may have moved, and the least of what was said holds for whoever has them now."""
        held = [json.loads(state) for state in states]
        for one in held:
            self.newest.update({split: time for split, time in one["newest"] if split in self.newest})
        known = [one["said"] for one in held]
        self.said = NEVER if None in known or not known else min(known)


class ChannelClock:
    """The watermark of a subtask with input channels."""

    __slots__ = ("idle", "said", "said_idle", "watermark")

    def __init__(self, channels: Iterable[int]) -> None:
        self.said: dict[int, float] = dict.fromkeys(channels, NEVER)
        self.idle: set[int] = set()
        self.said_idle = False  # to those below
        self.watermark = NEVER

    def on(self, channel: int, watermark: float) -> Moved:
        self.said[channel] = max(watermark, self.said[channel])
        self.idle.discard(channel)
        return self._move()

    def on_idle(self, channel: int) -> Moved:
        self.idle.add(channel)
        return self._move()

    def _move(self) -> Moved:
        watermark = min((said for channel, said in self.said.items() if channel not in self.idle), default=NEVER)
        if watermark == ENDED and self.idle:
            watermark = NEVER  # who is idle may go on, and then those that have ended are not all there is
        resumed, self.said_idle = self.said_idle and not self.all_idle, self.said_idle and self.all_idle
        if watermark > self.watermark or (resumed and self.watermark > NEVER):
            self.watermark = max(watermark, self.watermark)
            return self.watermark
        return None

    @property
    def all_idle(self) -> bool:
        """Nobody says anything, and not everybody has ended."""
        silent = self.idle.union(channel for channel, said in self.said.items() if said == ENDED)
        return bool(self.idle) and len(silent) == len(self.said)
