"""Small sinks in memory that only a rarer fault convicts, one bug each, and the right one that they differ from."""

from __future__ import annotations

import copy
import json
from typing import Any

from sinkproof import Batch, Claim, Context, Scratch

Rows = list[list[int]]


class Store:
    """The target. Readers see `shown`, and not `staged`; `changes` counts effects."""

    def __init__(self) -> None:
        self.shown: dict[str, Rows] = {}
        self.staged: dict[str, Rows] = {}
        self.marks: dict[str, int] = {}
        self.changes = 0

    def show(self, name: str, rows: Rows) -> None:
        self.shown[name] = rows
        self.changes += 1

    def stage(self, name: str, rows: Rows) -> None:
        self.staged[name] = rows
        self.changes += 1

    def drop(self, name: str) -> None:
        self.staged.pop(name, None)
        self.changes += 1

    def mark(self, name: str, value: int) -> None:
        self.marks[name] = value
        self.changes += 1


class PublishesFromState:
    """Right: rows are kept in the state until they are published, in one step, under a deterministic name."""

    def __init__(self, store: Store, clock: Any) -> None:
        self.store, self.clock = store, clock
        self.rows: Rows = []
        self.pending: dict[int, Rows] = {}

    def open(self, context: Context) -> None:
        self.context = context
        for old, state in context.restored:
            for checkpoint_id, rows in json.loads(state):
                self.publish(old, checkpoint_id, rows)

    def write(self, batch: Batch) -> None:
        self.rows += [[row.split, row.offset] for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in sorted(older for older in self.pending if older <= checkpoint_id):
            self.publish(self.context.subtask, older, self.pending.pop(older))

    def publish(self, subtask: int, checkpoint_id: int, rows: Rows) -> None:
        name = self.name(subtask, checkpoint_id)
        if name not in self.store.shown:
            self.show(name, rows)

    def name(self, subtask: int, checkpoint_id: int) -> str:
        return f"{self.context.sink_id}-{subtask}-{checkpoint_id}"

    def show(self, name: str, rows: Rows) -> None:
        self.context.reach("publish.before")
        self.store.show(name, rows)
        self.context.reach("publish.after")


class InMemory:
    """The contract of all these sinks. A sink keeps nothing of the store between calls."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = PublishesFromState
    marks_points = True

    def __init__(self) -> None:
        self.store = Store()

    def sink(self, scratch: Scratch) -> Any:
        return self.make(self.store, scratch.clock)

    def committed(self, scratch: Scratch) -> Any:
        return [row for name in sorted(self.store.shown) for row in self.store.shown[name]]

    def version(self, scratch: Scratch) -> int:
        return self.store.changes

    def freeze(self, scratch: Scratch) -> Any:
        return copy.deepcopy(vars(self.store))

    def thaw(self, scratch: Scratch, frozen: Any) -> None:
        changes = self.store.changes + 1
        vars(self.store).update(copy.deepcopy(frozen))
        self.store.changes = changes


class Right(InMemory):
    def second_sink(self, scratch: Scratch) -> Any:
        return self.sink(scratch)

    def maintain(self, scratch: Scratch) -> None:
        """Nothing is stale here."""


# -- messages -------------------------------------------------------------------------------------


class OlderIsObsolete(InMemory):
    """F4: an older notification that comes after a newer one makes it drop all that is pending."""

    class make(PublishesFromState):  # noqa: N801
        last = 0

        def notify_complete(self, checkpoint_id: int) -> None:
            if checkpoint_id >= self.last:
                super().notify_complete(checkpoint_id)
            else:
                self.pending.clear()
            self.last = checkpoint_id


class NotifiedTwice(InMemory):
    """F4: publishes the rows of a checkpoint again at each further notification."""

    class make(PublishesFromState):  # noqa: N801
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.done: dict[int, Rows] = {}
            self.times = 0

        def notify_complete(self, checkpoint_id: int) -> None:
            self.times += 1
            for again in self.done.get(checkpoint_id, ()):
                self.show(f"again-{self.times}-{again}", [again])
            self.done |= {older: rows for older, rows in self.pending.items() if older <= checkpoint_id}
            super().notify_complete(checkpoint_id)


# -- requests -------------------------------------------------------------------------------------


class ChecksThenActs(InMemory):
    """F10: check-then-act: reads whether the rows are published, then publishes them under a name of its generation."""

    class make(PublishesFromState):  # noqa: N801
        def publish(self, subtask: int, checkpoint_id: int, rows: Rows) -> None:
            name = self.name(subtask, checkpoint_id)
            if not any(shown.startswith(f"{name}-by-") for shown in self.store.shown):
                self.show(f"{name}-by-{self.context.generation}", rows)


class GivesUpAfterThreeTries(InMemory):
    """F19: tries three times, and then takes the rows for published."""

    class make(PublishesFromState):  # noqa: N801
        def show(self, name: str, rows: Rows) -> None:
            for _ in range(3):
                try:
                    super().show(name, rows)
                except OSError:
                    continue
                return


# -- the engine -----------------------------------------------------------------------------------


class LastClosedSinkCleansUp(InMemory):
    """S07: rows are staged with each checkpoint; the sink that is closed last removes all that is still staged."""

    class make(PublishesFromState):  # noqa: N801
        def open(self, context: Context) -> None:
            context.reach("count.before")
            self.store.mark("open", self.store.marks.get("open", 0) + 1)
            super().open(context)

        def snapshot(self, checkpoint_id: int) -> bytes:
            self.store.stage(self.name(self.context.subtask, checkpoint_id), self.rows)
            return super().snapshot(checkpoint_id)

        def publish(self, subtask: int, checkpoint_id: int, rows: Rows) -> None:
            name = self.name(subtask, checkpoint_id)
            if name in self.store.staged:
                super().publish(subtask, checkpoint_id, rows)
                self.store.drop(name)

        def close(self) -> None:
            self.store.mark("open", self.store.marks["open"] - 1)
            if self.store.marks["open"] == 0:
                self.store.staged.clear()


class EndsWithTheLargestId(InMemory):
    """F20: takes the end of input for final, and publishes nothing after it."""

    class make(PublishesFromState):  # noqa: N801
        ended, last = False, 0

        def end_of_input(self) -> None:
            self.ended = True

        def snapshot(self, checkpoint_id: int) -> bytes:
            self.last = checkpoint_id if self.ended else 0
            return super().snapshot(checkpoint_id)

        def notify_complete(self, checkpoint_id: int) -> None:
            super().notify_complete(checkpoint_id)
            if 0 < self.last <= checkpoint_id:
                self.store.mark(f"upto-{self.context.subtask}", 1 << 62)

        def publish(self, subtask: int, checkpoint_id: int, rows: Rows) -> None:
            if checkpoint_id > self.store.marks.get(f"upto-{subtask}", 0):
                super().publish(subtask, checkpoint_id, rows)


class NumbersItsFiles(InMemory):
    """F15, F23: numbers its files from the state: after an older state is restored, other rows get the same numbers."""

    class make(PublishesFromState):  # noqa: N801
        number = 0

        def open(self, context: Context) -> None:
            self.context = context
            for old, state in context.restored:
                content = json.loads(state)
                self.number = max(self.number, content["number"])
                for number, rows in content["pending"]:
                    self.publish(old, number, rows)

        def snapshot(self, checkpoint_id: int) -> bytes:
            if self.rows:
                self.number += 1
                self.pending[checkpoint_id], self.rows = [self.number, self.rows], []  # type: ignore[list-item]
            return json.dumps({"number": self.number, "pending": list(self.pending.values())}).encode()

        def notify_complete(self, checkpoint_id: int) -> None:
            for older in sorted(older for older in self.pending if older <= checkpoint_id):
                number, rows = self.pending.pop(older)
                self.publish(self.context.subtask, number, rows)  # type: ignore[arg-type]


class NamedByTheClock(InMemory):
    """F24: rows are published under a name made of the clock's time, which repeats when the clock goes back."""

    class make(PublishesFromState):  # noqa: N801
        def snapshot(self, checkpoint_id: int) -> bytes:
            if self.rows:
                self.pending[round(self.context.clock() * 1000)], self.rows = self.rows, []
            return json.dumps(list(self.pending.items())).encode()

        def notify_complete(self, checkpoint_id: int) -> None:
            for at in sorted(self.pending):
                self.publish(self.context.subtask, at, self.pending.pop(at))


class OnePrefix(InMemory):
    """F16: names lack the sink's id, so that two sinks of one job share them."""

    class make(PublishesFromState):  # noqa: N801
        def name(self, subtask: int, checkpoint_id: int) -> str:
            return f"{subtask}-{checkpoint_id}"

    def second_sink(self, scratch: Scratch) -> Any:
        return self.sink(scratch)


class InDoubtForEver(InMemory):
    """No fault is needed: it publishes everything, and reports checkpoint 1 as in doubt for ever."""

    class make(PublishesFromState):  # noqa: N801
        def notify_complete(self, checkpoint_id: int) -> list[int]:  # type: ignore[override]
            super().notify_complete(checkpoint_id)
            return [checkpoint_id]

        def settle(self, now: float) -> list[int]:
            return [1]
