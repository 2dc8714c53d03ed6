"""Small sinks in memory that only a rarer fault convicts, one sin each, and the right one that they differ from."""

from __future__ import annotations

import copy
import json
from typing import Any

from sinkproof import Batch, Claim, Context, Scratch

Rows = list[list[int]]


class Shelf:
    """The target. `shown` is what readers see; `staged` is what somebody has put aside; `changes` counts effects."""

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


class Waits:
    """Right: rows wait in the state, and are shown under a name that is always the same, in one step."""

    def __init__(self, shelf: Shelf, clock: Any) -> None:
        self.shelf, self.clock = shelf, clock
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
        if name not in self.shelf.shown:
            self.show(name, rows)

    def name(self, subtask: int, checkpoint_id: int) -> str:
        return f"{self.context.sink_id}-{subtask}-{checkpoint_id}"

    def show(self, name: str, rows: Rows) -> None:
        self.context.reach("publish.before")
        self.shelf.show(name, rows)
        self.context.reach("publish.after")


class OnAShelf:
    """The contract of them all. Nothing of a sink holds anything of the shelf."""

    claims: Any = Claim.EXACTLY_ONCE
    make: Any = Waits
    marks_points = True

    def __init__(self) -> None:
        self.shelf = Shelf()

    def sink(self, scratch: Scratch) -> Any:
        return self.make(self.shelf, scratch.clock)

    def committed(self, scratch: Scratch) -> Any:
        return [row for name in sorted(self.shelf.shown) for row in self.shelf.shown[name]]

    def version(self, scratch: Scratch) -> int:
        return self.shelf.changes

    def freeze(self, scratch: Scratch) -> Any:
        return copy.deepcopy(vars(self.shelf))

    def thaw(self, scratch: Scratch, frozen: Any) -> None:
        changes = self.shelf.changes + 1
        vars(self.shelf).update(copy.deepcopy(frozen))
        self.shelf.changes = changes


class Right(OnAShelf):
    def second_sink(self, scratch: Scratch) -> Any:
        return self.sink(scratch)

    def maintain(self, scratch: Scratch) -> None:
        """Nothing is stale here."""


# -- messages -------------------------------------------------------------------------------------


class OlderIsObsolete(OnAShelf):
    """F4: takes whatever it was told last for all there is: what an older notification covers is thrown away."""

    class make(Waits):  # noqa: N801
        last = 0

        def notify_complete(self, checkpoint_id: int) -> None:
            if checkpoint_id >= self.last:
                super().notify_complete(checkpoint_id)
            else:
                self.pending.clear()
            self.last = checkpoint_id


class ToldTwice(OnAShelf):
    """F4: shows the rows of the checkpoint that it is told of, each time."""

    class make(Waits):  # noqa: N801
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


class ChecksThenActs(OnAShelf):
    """F10: rows go out under a name of their generation, if nobody has shown them yet: a look, and later an effect."""

    class make(Waits):  # noqa: N801
        def publish(self, subtask: int, checkpoint_id: int, rows: Rows) -> None:
            name = self.name(subtask, checkpoint_id)
            if not any(shown.startswith(f"{name}-by-") for shown in self.shelf.shown):
                self.show(f"{name}-by-{self.context.generation}", rows)


class GivesUpTheThirdTime(OnAShelf):
    """F19: tries three times, and then takes it for done."""

    class make(Waits):  # noqa: N801
        def show(self, name: str, rows: Rows) -> None:
            for _ in range(3):
                try:
                    super().show(name, rows)
                except OSError:
                    continue
                return


# -- the engine -----------------------------------------------------------------------------------


class LastOneTidiesUp(OnAShelf):
    """S07: rows are put aside when a checkpoint is; whoever is closed last takes away what nobody has shown by then."""

    class make(Waits):  # noqa: N801
        def open(self, context: Context) -> None:
            context.reach("count.before")
            self.shelf.mark("open", self.shelf.marks.get("open", 0) + 1)
            super().open(context)

        def snapshot(self, checkpoint_id: int) -> bytes:
            self.shelf.stage(self.name(self.context.subtask, checkpoint_id), self.rows)
            return super().snapshot(checkpoint_id)

        def publish(self, subtask: int, checkpoint_id: int, rows: Rows) -> None:
            name = self.name(subtask, checkpoint_id)
            if name in self.shelf.staged:
                super().publish(subtask, checkpoint_id, rows)
                self.shelf.drop(name)

        def close(self) -> None:
            self.shelf.mark("open", self.shelf.marks["open"] - 1)
            if self.shelf.marks["open"] == 0:
                self.shelf.staged.clear()


class EndsWithTheLargestId(OnAShelf):
    """F20: what was written by the end of the input is noted as everything there will ever be."""

    class make(Waits):  # noqa: N801
        ended, last = False, 0

        def end_of_input(self) -> None:
            self.ended = True

        def snapshot(self, checkpoint_id: int) -> bytes:
            self.last = checkpoint_id if self.ended else 0
            return super().snapshot(checkpoint_id)

        def notify_complete(self, checkpoint_id: int) -> None:
            super().notify_complete(checkpoint_id)
            if 0 < self.last <= checkpoint_id:
                self.shelf.mark(f"upto-{self.context.subtask}", 1 << 62)

        def publish(self, subtask: int, checkpoint_id: int, rows: Rows) -> None:
            if checkpoint_id > self.shelf.marks.get(f"upto-{subtask}", 0):
                super().publish(subtask, checkpoint_id, rows)


class NumbersItsFiles(OnAShelf):
    """F15, F23: names are numbers that go on from the state: after an older state they come again, for other rows."""

    class make(Waits):  # noqa: N801
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


class NamedByTheClock(OnAShelf):
    """F24: rows are staged under the second of the clock, and shown under it; seconds come again."""

    class make(Waits):  # noqa: N801
        def snapshot(self, checkpoint_id: int) -> bytes:
            if self.rows:
                self.pending[round(self.context.clock() * 1000)], self.rows = self.rows, []
            return json.dumps(list(self.pending.items())).encode()

        def notify_complete(self, checkpoint_id: int) -> None:
            for at in sorted(self.pending):
                self.publish(self.context.subtask, at, self.pending.pop(at))


class OnePrefix(OnAShelf):
    """F16: names lack the sink's id, so that two sinks of one job share them."""

    class make(Waits):  # noqa: N801
        def name(self, subtask: int, checkpoint_id: int) -> str:
            return f"{subtask}-{checkpoint_id}"

    def second_sink(self, scratch: Scratch) -> Any:
        return self.sink(scratch)


class InDoubtForEver(OnAShelf):
    """No fault is needed: it shows everything, and says for ever that it is in doubt."""

    class make(Waits):  # noqa: N801
        def notify_complete(self, checkpoint_id: int) -> list[int]:  # type: ignore[override]
            super().notify_complete(checkpoint_id)
            return [checkpoint_id]

        def settle(self, now: float) -> list[int]:
            return [1]
