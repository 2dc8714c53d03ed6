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
TICK: Final = 3  # of the master's broadcast


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

    def rows_processed(self, name: str) -> int:
        return dict(zip(NAMES, (self.offset, *self.seen), strict=True))[name]

    @property
    def idle(self) -> bool:
        return self.offset == len(self.numbers) and not any(self.channels)


class SnapshotTrial:
    """One snapshot of the operators; after a restore from it, the results beside the right ones."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.operators, self.expected = Operators(numbers), undisturbed(numbers=numbers)
        self.snapshot: dict[str, Any] = {}
        self.taken_after: dict[str, int] = {}  # operator -> rows that it had processed
        self.results: Mapping[int, int] = {}  # row -> result, after the restore

    def take(self, name: str) -> None:
        """The results so far belong to the second sum, as committed rows belong to a sink's snapshot."""
        had = self.operators
        first, second = had.sums
        self.snapshot[name] = {"source": had.offset, "first": first, "second": (second, dict(had.results))}[name]
        self.taken_after[name] = had.rows_processed(name)

    @property
    def complete(self) -> bool:
        return len(self.snapshot) == len(NAMES)

    def restored(self) -> SnapshotTrial:
        """Each operator restarts from its own state; the items in the channels are gone."""
        self.snapshot = {name: self.snapshot[name] for name in NAMES}
        self.taken_after = {name: self.taken_after[name] for name in NAMES}
        offset, first, (second, results) = self.snapshot.values()
        again = Operators(self.operators.numbers, offset, [first, second], results=dict(results))
        self.results = _to_the_end(again)
        return self

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


def on_their_own() -> SnapshotTrial:
    """The source is snapshotted when it has processed two rows, each of the others after one."""
    trial, after = SnapshotTrial(NUMBERS), {"source": 2, "first": 1, "second": 1}
    while not trial.complete:
        for name in NAMES:
            if name not in trial.snapshot and trial.operators.rows_processed(name) == after[name]:
                trial.take(name)
            trial.operators.step(name)
    return trial.restored()


def at_a_tick(*, delayed: Mapping[str, int] = {}, paused: Mapping[str, int] = {}) -> SnapshotTrial:
    """In every tick of the clock a row passes all three, so the channels are empty when the master broadcasts.

    `delayed`: operator -> ticks that the broadcast to it is late. `paused`: operator -> ticks before the broadcast
    during which it does not run, while the others do.
    """
    trial = SnapshotTrial(NUMBERS)
    for now in range(TICK + max([0, *delayed.values()]) + 1):
        for name in NAMES:
            if now == TICK + delayed.get(name, 0):
                trial.take(name)
        for name in NAMES:
            if not TICK - paused.get(name, 0) <= now < TICK:
                trial.operators.step(name)
    return trial.restored()


def with_barriers(*, numbers: Sequence[int] = NUMBERS, after: int = 2, paused: Mapping[str, int] = {}) -> SnapshotTrial:
    """The source is snapshotted after `after` rows and sends the barrier behind them. `paused`: steps from then on."""
    trial = SnapshotTrial(numbers)
    left = dict(paused)
    while not trial.complete:
        for name in NAMES:
            if trial.snapshot and left.get(name, 0):
                left[name] -= 1
                continue
            if trial.operators.step(name) == name:
                trial.take(name)
            if name == "source" and not trial.snapshot and trial.operators.offset == after:
                trial.take(name)
                trial.operators.channels[0].append(BARRIER)
    return trial.restored()
