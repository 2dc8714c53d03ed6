"""Why a snapshot needs barriers: three operators in a row, snapshotted without them and with them, on the same input.

A source reads numbers and keeps its offset. The first operator keeps their running sum and sends it on with each row;
the second adds up what it is sent, and its total is the row's result. Three ways to snapshot them:

    on their own    each operator after some number of rows of its own choice
    at a tick       all when a master's broadcast reaches them: at once, if no message is late and nobody is paused
    with barriers   each when the barrier that the source has sent behind its offset reaches it

Then everybody dies, is restored from the snapshot, and reads on. Every run is a list of steps, so that the same input
gives the same story; nothing here knows the engine.
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
    """The three, and the two channels between them."""

    numbers: Sequence[int]
    offset: int = 0
    sums: list[int] = field(default_factory=lambda: [0, 0])
    seen: list[int] = field(default_factory=lambda: [0, 0])  # rows that each of the sums has had
    results: dict[int, int] = field(default_factory=dict)  # row, from 1 -> its result
    channels: tuple[deque[Any], deque[Any]] = field(default_factory=lambda: (deque(), deque()))

    def step(self, name: str) -> str | None:
        """One operator handles one thing. Returns its name if that was a barrier: it is to be snapshotted now."""
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

    def _pass_on(self, place: int, what: Any) -> None:
        if place == 0:
            self.channels[1].append(what)
        elif what != BARRIER:
            row, total = what
            self.results[row] = total

    def state_of(self, name: str) -> Any:
        """The results so far belong to the second sum, as what a sink has committed belongs to its snapshot."""
        if name == "source":
            return self.offset
        return self.sums[0] if name == "first" else (self.sums[1], dict(self.results))

    @property
    def idle(self) -> bool:
        return self.offset == len(self.numbers) and not any(self.channels)


def restored(numbers: Sequence[int], snapshot: Mapping[str, Any]) -> Operators:
    """Everybody from its own state; what was in the channels is gone."""
    total, results = snapshot["second"]
    return Operators(numbers, snapshot["source"], [snapshot["first"], total], results=dict(results))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTrial:
    """What one way to snapshot led to."""

    way: str
    snapshot: Mapping[str, Any]
    taken_after: Mapping[str, int]  # operator -> rows that it had had
    expected: Mapping[int, int]  # row -> result, of a run that nothing interrupts
    results: Mapping[int, int]  # after the restore

    @property
    def lost(self) -> list[int]:
        """Rows without a result."""
        return sorted(self.expected.keys() - self.results.keys())

    @property
    def wrong(self) -> list[int]:
        """Rows with another result than they should have."""
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
    """`after`: how many rows each operator has had when it is snapshotted."""
    operators = Operators(numbers)
    snapshot: dict[str, Any] = {}
    while len(snapshot) < len(NAMES):
        for name in NAMES:
            had = rows_had(operators)
            if name not in snapshot and had[name] == after[name]:
                snapshot[name] = operators.state_of(name)
            operators.step(name)
    return _story("on their own", numbers, snapshot=snapshot, after=after)


def rows_had(operators: Operators) -> dict[str, int]:
    return dict(zip(NAMES, (operators.offset, *operators.seen), strict=True))


def at_a_tick(
    *,
    numbers: Sequence[int] = NUMBERS,
    tick: int = 3,
    delayed: Mapping[str, int] = {},
    paused: Mapping[str, int] = {},
) -> SnapshotTrial:
    """In every tick of the clock a row passes all three, so that nothing is between them when the master broadcasts.

    `delayed`: operator -> ticks that the message to it takes longer. `paused`: operator -> ticks that it stands still
    before the broadcast comes, while the others go on.
    """
    operators = Operators(numbers)
    snapshot: dict[str, Any] = {}
    taken_after: dict[str, int] = {}
    for now in range(tick + max([0, *delayed.values()]) + 1):
        for name in NAMES:
            if now == tick + delayed.get(name, 0):
                snapshot[name] = operators.state_of(name)
                taken_after[name] = rows_had(operators)[name]
        for name in NAMES:
            if not tick - paused.get(name, 0) <= now < tick:
                operators.step(name)
    return _story("at a tick", numbers, snapshot=snapshot, after=taken_after)


def with_barriers(*, numbers: Sequence[int] = NUMBERS, after: int = 2, paused: Mapping[str, int] = {}) -> SnapshotTrial:
    """The source is snapshotted after so many rows, and sends the barrier behind them. `paused`: as above, from then
    on; it makes no difference.
    """
    operators = Operators(numbers)
    snapshot: dict[str, Any] = {}
    taken_after: dict[str, int] = {}
    left = dict(paused)
    while len(snapshot) < len(NAMES):
        for name in NAMES:
            if snapshot and left.get(name, 0):
                left[name] -= 1
                continue
            if operators.step(name) == name:
                snapshot[name], taken_after[name] = operators.state_of(name), rows_had(operators)[name]
            if name == "source" and not snapshot and operators.offset == after:
                snapshot[name], taken_after[name] = operators.offset, after
                operators.channels[0].append(BARRIER)
    return _story("with barriers", numbers, snapshot=snapshot, after=taken_after)


def _story(way: str, numbers: Sequence[int], *, snapshot: Mapping[str, Any], after: Mapping[str, int]) -> SnapshotTrial:
    return SnapshotTrial(
        way=way,
        snapshot=snapshot,
        taken_after=dict(after),
        expected=undisturbed(numbers=numbers),
        results=_to_the_end(restored(numbers, snapshot)),
    )
