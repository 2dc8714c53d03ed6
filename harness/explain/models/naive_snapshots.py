"""Snapshots three operators in a row without barriers and with them, on the same input, and compares the results.

A source reads numbers and keeps its offset. The first operator keeps their running sum and sends it on with each row;
the second adds up the sums that it receives, and its total is the row's result. Three ways to snapshot them:

    on their own    each operator after some number of rows of its own
    at a tick       each when a master's broadcast reaches it: all at once, if no message is late and no operator paused
    with barriers   each when the barrier that the source has sent behind its offset reaches it

Then all operators crash, are restored from the snapshot, and read on. A run is a fixed sequence of steps, so that the
same input always gives the same results; the engine is not used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

NAMES: Final = ("source", "first", "second")
NUMBERS: Final = (10, 20, 30, 40, 50)
BARRIER: Final = "barrier"


@dataclass(slots=True)
class Operators:
    """The three operators, and the two channels between them."""

    numbers: Sequence[int]
    offset: int = 0
    sums: list[int] = field(default_factory=lambda: [0, 0])
    seen: list[int] = field(default_factory=lambda: [0, 0])  # rows that each of the sums has processed
    results: dict[int, int] = field(default_factory=dict)  # row, from 1 -> its result
    channels: tuple[deque[Any], deque[Any]] = field(default_factory=lambda: (deque(), deque()))

    def step(self, name: str) -> str | None:
        """One operator processes one item. Returns its name if that was a barrier: its snapshot is due."""
        if name == "source":
            if self.offset < len(self.numbers):
                self.offset += 1
                self.channels[0].append((self.offset, self.numbers[self.offset - 1]))
            return None
        place = NAMES.index(name) - 1
        if not self.channels[place]:
            return None
        taken = self.channels[place].popleft()
        if taken == BARRIER:
            self._pass_on(place, BARRIER)
            return name
        row, number = taken
        self.sums[place] += number
        self.seen[place] += 1
        self._pass_on(place, (row, self.sums[place]))
        return None

    def _pass_on(self, place: int, item: Any) -> None:
        if place == 0:
            self.channels[1].append(item)
        elif item != BARRIER:
            row, total = item
            self.results[row] = total

    @property
    def idle(self) -> bool:
        return self.offset == len(self.numbers) and not any(self.channels)


class Snapshot:
    """The states taken so far, and how many rows each operator had processed by then."""

    def __init__(self, operators: Operators) -> None:
        self.operators = operators
        self.states: dict[str, Any] = {}
        self.taken_after: dict[str, int] = {}

    def take(self, name: str) -> None:
        """The results so far belong to the second sum, as committed rows belong to a sink's snapshot."""
        had = self.operators
        first, second = had.sums
        self.states[name] = {"source": had.offset, "first": first, "second": (second, dict(had.results))}[name]
        self.taken_after[name] = self.rows_processed(name)

    def rows_processed(self, name: str) -> int:
        return dict(zip(NAMES, (self.operators.offset, *self.operators.seen), strict=True))[name]

    @property
    def complete(self) -> bool:
        return len(self.states) == len(NAMES)

    def restored(self) -> SnapshotTrial:
        """Each operator restarts from its own state; the items in the channels are gone."""
        numbers, (total, results) = self.operators.numbers, self.states["second"]
        again = Operators(numbers, self.states["source"], [self.states["first"], total], results=dict(results))
        return SnapshotTrial(
            snapshot={name: self.states[name] for name in NAMES},
            taken_after={name: self.taken_after[name] for name in NAMES},
            expected=undisturbed(numbers=numbers),
            results=_to_the_end(again),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTrial:
    """The results after a restore from one snapshot, beside the right ones."""

    snapshot: Mapping[str, Any]
    taken_after: Mapping[str, int]  # operator -> rows that it had processed
    expected: Mapping[int, int]  # row -> result, of an undisturbed run
    results: Mapping[int, int]  # after the restore

    @property
    def lost(self) -> list[int]:
        """Rows without a result."""
        return sorted(self.expected.keys() - self.results.keys())

    @property
    def wrong(self) -> list[int]:
        """Rows with a wrong result."""
        return [row for row, result in self.results.items() if result != self.expected[row]]

    @property
    def right(self) -> bool:
        return not self.lost and not self.wrong


def undisturbed(*, numbers: Sequence[int] = NUMBERS) -> Mapping[int, int]:
    return _to_the_end(Operators(numbers))


def _to_the_end(operators: Operators) -> Mapping[int, int]:
    while not operators.idle:
        for name in NAMES:
            operators.step(name)
    return operators.results


def on_their_own(
    *, numbers: Sequence[int] = NUMBERS, after: Mapping[str, int] = {"source": 2, "first": 1, "second": 1}
) -> SnapshotTrial:
    """`after`: how many rows each operator has processed when it is snapshotted."""
    operators = Operators(numbers)
    snapshot = Snapshot(operators)
    while not snapshot.complete:
        for name in NAMES:
            if name not in snapshot.states and snapshot.rows_processed(name) == after[name]:
                snapshot.take(name)
            operators.step(name)
    return snapshot.restored()


def at_a_tick(
    *, numbers: Sequence[int] = NUMBERS, tick: int = 3, delayed: Mapping[str, int] = {}, paused: Mapping[str, int] = {}
) -> SnapshotTrial:
    """In every tick of the clock a row passes all three, so the channels are empty when the master broadcasts.

    `delayed`: operator -> ticks that the broadcast to it is late. `paused`: operator -> ticks before the broadcast
    during which it does not run, while the others do.
    """
    operators = Operators(numbers)
    snapshot = Snapshot(operators)
    for now in range(tick + max([0, *delayed.values()]) + 1):
        for name in NAMES:
            if now == tick + delayed.get(name, 0):
                snapshot.take(name)
        for name in NAMES:
            if not tick - paused.get(name, 0) <= now < tick:
                operators.step(name)
    return snapshot.restored()


def with_barriers(*, numbers: Sequence[int] = NUMBERS, after: int = 2, paused: Mapping[str, int] = {}) -> SnapshotTrial:
    """The source is snapshotted after `after` rows and sends the barrier behind them. `paused`: steps from then on."""
    operators = Operators(numbers)
    snapshot = Snapshot(operators)
    left = dict(paused)
    while not snapshot.complete:
        for name in NAMES:
            if snapshot.states and left.get(name, 0):
                left[name] -= 1
                continue
            if operators.step(name) == name:
                snapshot.take(name)
            if name == "source" and not snapshot.states and operators.offset == after:
                snapshot.take(name)
                operators.channels[0].append(BARRIER)
    return snapshot.restored()
