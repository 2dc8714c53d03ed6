"""Measures four ways to connect a sender to a fast and a slow receiver, on the same traffic, tick by tick.

    unbounded    the sender is never stopped: batches for the slow receiver pile up
    static rate  the sender is held to a guessed rate: too high and batches pile up, too low and the fast receiver is
                 idle
    shared       all channels over one connection with one bounded buffer: a batch that its receiver has no room for
                 blocks the batches and barriers behind it, for both receivers
    credits      flow_control.py: the slow channel stops, and the other one is not affected

In each tick the sender produces one batch for each receiver, if it may. The slow one takes one in TIMES_SLOWER ticks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from sinkproof.reference_engine.dataflow.flow_control import ROWS, Buffers, Gate, Item, Outlet

FAST, SLOW = 0, 1
CHANNELS: Final = (FAST, SLOW)
BARRIER: Final = "barrier"
TICKS: Final = 2_000
TIMES_SLOWER: Final = 100
BARRIER_AT: Final = 1_000  # the tick in which the sender sends a barrier to each receiver

TrafficItem = tuple[str, int]  # kind, number


class Unbounded:
    """And what the others have in common: a pile of items for each receiver."""

    def __init__(self) -> None:
        self.piles: tuple[deque[TrafficItem], ...] = tuple(deque() for _ in CHANNELS)

    def may_send(self, channel: int) -> bool:
        """Whether the sender produces a batch for this receiver now."""
        return True

    def send(self, channel: int, item: TrafficItem) -> None:
        self.piles[channel].append(item)

    def take(self, channel: int) -> TrafficItem | None:
        """The next item for the receiver; None: none has arrived."""
        return self.piles[channel].popleft() if self.piles[channel] else None

    @property
    def buffered(self) -> int:
        """Batches between the two ends."""
        return sum(map(len, self.piles))


class StaticRate(Unbounded):
    """One batch for each receiver in `every` ticks."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self.requests = dict.fromkeys(CHANNELS, 0)

    def may_send(self, channel: int) -> bool:
        self.requests[channel] += 1
        return self.requests[channel] % self.every == 0


class SharedConnection(Unbounded):
    """`room`: batches in the connection, and in each receiver's pile."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.wire: deque[tuple[int, TrafficItem]] = deque()

    def may_send(self, channel: int) -> bool:
        return len(self.wire) < self.room

    def send(self, channel: int, item: TrafficItem) -> None:
        self.wire.append((channel, item))

    def take(self, channel: int) -> TrafficItem | None:
        while self.wire and len(self.piles[self.wire[0][0]]) < self.room:
            super().send(*self.wire.popleft())
        return super().take(channel)

    @property
    def buffered(self) -> int:
        return len(self.wire) + super().buffered


class Credits:
    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self.gates = [Gate([channel], buffers) for channel in CHANNELS]
        self.outlets = [Outlet(buffers.exclusive) for _ in CHANNELS]

    def may_send(self, channel: int) -> bool:
        return self.outlets[channel].backlog < self.buffers.queued

    def send(self, channel: int, item: TrafficItem) -> None:
        self._deliver(channel, self.outlets[channel].put(*item))

    def _deliver(self, channel: int, items: list[Item]) -> None:
        for item in items:
            self._grant(channel, self.gates[channel].arrive(channel, item))

    def _grant(self, channel: int, grants: list[tuple[int, int]]) -> None:
        for _, credits_ in grants:
            self._deliver(channel, self.outlets[channel].grant(credits_))

    def take(self, channel: int) -> TrafficItem | None:
        if self.gates[channel].next_channel(()) is None:
            return None
        kind, payload, grants = self.gates[channel].take(channel)
        self._grant(channel, grants)
        return kind, payload

    @property
    def buffered(self) -> int:
        return sum(gate.held for gate in self.gates) + sum(outlet.backlog for outlet in self.outlets)


Connection = Unbounded | Credits


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    buffered_most: int  # batches between the ends
    buffered_last: int
    taken_fast: int
    taken_slow: int
    barrier_ticks_fast: int | None  # from the sender to the fast receiver; None: it had not arrived by the end
    barrier_ticks_slow: int | None


def measure(connection: Connection) -> Measured:
    """The same traffic over this connection."""
    taken, most = [0, 0], 0
    came: dict[int, int] = {}
    for tick in range(TICKS):
        for channel in CHANNELS:
            if tick == BARRIER_AT:
                connection.send(channel, (BARRIER, tick))
            elif connection.may_send(channel):
                connection.send(channel, (ROWS, tick))
        for channel in CHANNELS:
            if channel == FAST or tick % TIMES_SLOWER == 0:
                taken[channel] += _take_row(connection, channel, came=came, tick=tick)
        most = max(most, connection.buffered)
    delays = [came[channel] - BARRIER_AT if channel in came else None for channel in CHANNELS]
    return Measured(
        buffered_most=most,
        buffered_last=connection.buffered,
        taken_fast=taken[FAST],
        taken_slow=taken[SLOW],
        barrier_ticks_fast=delays[FAST],
        barrier_ticks_slow=delays[SLOW],
    )


def _take_row(connection: Connection, channel: int, *, came: dict[int, int], tick: int) -> bool:
    """One batch, and the barrier if it comes before it."""
    event = connection.take(channel)
    if event is not None and event[0] == BARRIER:
        came[channel] = tick
        event = connection.take(channel)
    return event is not None


def connections() -> dict[str, Connection]:
    """The four, with about the same memory where they bound it."""
    return {
        "unbounded": Unbounded(),
        "static rate, guessed too high": StaticRate(every=10),
        "static rate, guessed too low": StaticRate(every=200),
        "shared connection": SharedConnection(room=4),
        "credits": Credits(Buffers(exclusive=2, floating=2, queued=2)),
    }
