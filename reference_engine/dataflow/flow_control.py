"""Credit-based flow control: buffers are bounded, and a full receiver stops its own sender only.

A buffer holds one batch. Every input channel owns `exclusive` buffers of the receiver, and all its channels share
`floating` ones. A credit is the promise of a free buffer: a batch is sent only for a credit, so every batch has room.
With each batch the sender announces its backlog, and the receiver promises floating buffers to channels that have
one. A sender without credit keeps its batches; when its own queue is full it takes nothing more in, and so on up to
the source.

Barriers, watermarks and ends cost no credit, or a full receiver could never be snapshotted; but they keep their place
in the queue, unless they are urgent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sinkproof.sink_adapters.protocol import Batch

ROWS: Final = "rows"
TIMED: Final = "timed_barrier"  # may be replaced by an urgent one (unaligned_barriers.py)
EXCLUSIVE: Final = 2  # as in Flink: one batch on its way while one is processed
FLOATING: Final = 8  # as in Flink, for each subtask that receives


class Item(NamedTuple):
    """A message on a channel: an event for the receiver, and how many batches its sender has behind it."""

    kind: str
    payload: Any
    backlog: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """A job's buffers. `work_ms`: vertex -> how long it takes over a batch, in the simulated shell."""

    exclusive: int = EXCLUSIVE
    floating: int = FLOATING
    queued: int = EXCLUSIVE  # batches in the queue to one receiver at which the sender takes nothing more in
    work_ms: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least in (("exclusive", 1), ("floating", 0), ("queued", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} is impossible: with less than {least} nothing moves")


class Outlet:
    """The sender's end of one channel."""

    __slots__ = ("backlog", "credits", "queue")

    def __init__(self, credits_: int) -> None:
        self.credits = credits_
        self.queue: deque[tuple[str, Any]] = deque()
        self.backlog = 0  # batches among them

    def put(self, kind: str, payload: Any) -> list[Item]:
        """Returns the items that may be sent now."""
        self.queue.append((kind, payload))
        self.backlog += kind == ROWS
        return self._flush()

    def grant(self, credits_: int) -> list[Item]:
        self.credits += credits_
        return self._flush()

    def _flush(self) -> list[Item]:
        sent = []
        while self.queue and (self.credits or self.queue[0][0] != ROWS):
            kind, payload = self.queue.popleft()
            if kind == ROWS:
                self.credits -= 1
                self.backlog -= 1
            sent.append(Item(kind, payload, self.backlog))
        return sent

    def overtaken(self, checkpoint_id: int) -> list[Batch]:
        """The batches that an urgent barrier passes: all, or those before the timed one that it replaces."""
        return _before(self.queue, checkpoint_id)[0]

    def holds_barrier(self, checkpoint_id: int) -> bool:
        """Whether its timed barrier waits here behind batches."""
        return any(kind == TIMED and payload[0] == checkpoint_id for kind, payload in self.queue)


class Gate:
    """The receiver's end of all its channels."""

    __slots__ = ("_arrivals", "backlog", "buffers", "floating_free", "inlets", "owned", "promised")

    def __init__(self, channels: Iterable[int], buffers: Buffers) -> None:
        self.buffers = buffers
        self.inlets: dict[int, deque[tuple[int, str, Any]]] = {channel: deque() for channel in channels}
        self.promised = dict.fromkeys(self.inlets, buffers.exclusive)  # credits that are not used yet
        self.owned = dict.fromkeys(self.inlets, buffers.exclusive)  # buffers, promised or full
        self.backlog = dict.fromkeys(self.inlets, 0)
        self.floating_free = buffers.floating
        self._arrivals = 0

    @property
    def held(self) -> int:
        """Full buffers."""
        return sum(self.owned[channel] - self.promised[channel] for channel in self.inlets)

    def arrive(self, channel: int, item: Item) -> list[tuple[int, int]]:
        """Puts it behind the others of its channel. Returns credits to grant: (channel, how many)."""
        self._arrivals += 1
        self.inlets[channel].append((self._arrivals, item.kind, item.payload))
        if item.kind == ROWS:
            assert self.promised[channel] > 0, "a batch was sent without a credit"
            self.promised[channel] -= 1
            self.backlog[channel] = item.backlog
        return self._lend()

    def next_channel(self, blocked: Iterable[int]) -> int | None:
        """The channel to read next: of those that are not blocked, the one with the oldest arrival."""
        ready = [(inlet[0][0], channel) for channel, inlet in self.inlets.items() if inlet and channel not in blocked]
        return min(ready)[1] if ready else None

    def take(self, channel: int) -> tuple[str, Any, list[tuple[int, int]]]:
        """(kind, payload, credits to grant): a batch that is taken leaves its buffer free."""
        _, kind, payload = self.inlets[channel].popleft()
        return kind, payload, self._free(channel) if kind == ROWS else []

    def _free(self, channel: int) -> list[tuple[int, int]]:
        """A channel without backlog gives a floating buffer back; its own ones it always promises again."""
        if self.owned[channel] > self.buffers.exclusive and self.promised[channel] >= self.backlog[channel]:
            self.owned[channel] -= 1
            self.floating_free += 1
            return self._lend()
        self.promised[channel] += 1
        return [(channel, 1)]

    def _lend(self) -> list[tuple[int, int]]:
        """Gives floating buffers, one each in turn, to channels with a longer backlog than they have credits."""
        lent: dict[int, int] = {}
        waiting = True
        while self.floating_free and waiting:
            waiting = False
            for channel in self.inlets:
                if self.floating_free and self.promised[channel] < self.backlog[channel]:
                    self.floating_free -= 1
                    self.owned[channel] += 1
                    self.promised[channel] += 1
                    lent[channel] = lent.get(channel, 0) + 1
                    waiting = True
        return list(lent.items())

    def before(self, channel: int, checkpoint_id: int) -> tuple[list[Batch], bool]:
        """Batches that were not taken, up to the checkpoint's timed barrier, which goes; whether there is one."""
        return _before(self.inlets[channel], checkpoint_id)


def _before(queue: deque[Any], checkpoint_id: int) -> tuple[list[Batch], bool]:
    """The batches before the checkpoint's timed barrier, which goes; all, if there is none. Whether there is one."""
    found: list[Batch] = []
    for at, (*_, kind, payload) in enumerate(queue):
        if kind == TIMED and payload[0] == checkpoint_id:
            del queue[at]
            return found, True
        found += [payload] if kind == ROWS else []
    return found, False
