"""More of hard_sinks.py: sinks that a fault of the target convicts, and sinks that a concurrent reader convicts."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hard_sinks import InMemory, PublishesFromState, Rows

from sinkproof import Claim, Context, Scratch
from sinkproof.sink_adapters.protocol import TransactionLost


class Stages(PublishesFromState):
    """Rows are staged in the target, the state holds their names. The target drops them after `limit` seconds."""

    limit = 900.0

    def open(self, context: Context) -> None:
        self.context = context
        for _, state in context.restored:
            for name, began in json.loads(state):
                self.commit(name, began)

    def snapshot(self, checkpoint_id: int) -> bytes:
        name = f"{self.context.subtask}-{self.context.generation}-{checkpoint_id}"
        self.store.stage(name, self.rows)
        self.rows = []
        self.pending[checkpoint_id] = [name, self.clock()]
        return json.dumps(list(self.pending.values())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in sorted(older for older in self.pending if older <= checkpoint_id):
            name, began = self.pending.pop(older)
            self.commit(name, began)  # type: ignore[arg-type]

    def commit(self, name: str, began: float) -> None:
        if self.clock() - began > self.limit:
            self.store.drop(name)
        if name in self.store.staged:
            rows = self.store.staged[name]
            self.store.show(name, rows)
            self.store.drop(name)
        elif name not in self.store.shown:
            self.lost(name)

    def lost(self, name: str) -> None:
        raise TransactionLost(name)


class TimesOutLoudly(InMemory):
    """Right: it raises TransactionLost for rows that the target has dropped."""

    expires_after = 900.0
    make = Stages


class TimesOutSilently(InMemory):
    """F14: takes a transaction that the target does not know any more for committed."""

    expires_after = 900.0

    class make(Stages):  # noqa: N801
        def lost(self, name: str) -> None:
            pass


class JanitorRemovesStaged(InMemory):
    """F25: the target's janitor removes everything staged, also of pending checkpoints."""

    class make(Stages):  # noqa: N801
        def lost(self, name: str) -> None:
            pass

    def maintain(self, scratch: Scratch) -> None:
        for name in list(self.store.staged):
            self.store.drop(name)


class MarksFirst(InMemory):
    """O11: the marker says that a checkpoint is complete before all of its rows can be read."""

    claims = Claim.EXACTLY_ONCE | Claim.HONEST_MARKERS

    class make(PublishesFromState):  # noqa: N801
        def notify_complete(self, checkpoint_id: int) -> None:
            self.store.mark("complete", checkpoint_id)
            super().notify_complete(checkpoint_id)

    def complete(self, scratch: Scratch) -> list[int]:
        return list(self.store.marks.values())


class EachSubtaskPublishesAlone(InMemory):
    """O4: each subtask publishes its own rows, so that a reader sees half of a checkpoint."""

    claims = Claim.EXACTLY_ONCE | Claim.ATOMIC_CHECKPOINT


class Sends(PublishesFromState):
    """Right: rows are delivered in the background; an error there is raised at the next flush."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.waiting: list[tuple[str, Rows]] = []
        self.error: Exception | None = None

    def show(self, name: str, rows: Rows) -> None:
        self.waiting.append((name, rows))

    def deliver(self) -> None:
        """What a client library does in a thread of its own: it keeps the error for the next flush."""
        waiting, self.waiting = self.waiting, []
        for name, rows in waiting:
            try:
                super().show(name, rows)
            except OSError as error:
                self.error = error

    def open(self, context: Context) -> None:
        super().open(context)
        self.flush()

    def notify_complete(self, checkpoint_id: int) -> None:
        super().notify_complete(checkpoint_id)
        self.flush()

    def flush(self) -> None:
        self.deliver()
        if self.error is not None:
            raise self.error


class ChecksDeliveryErrors(InMemory):
    """Right."""

    make = Sends


class IgnoresDeliveryErrors(InMemory):
    """F18: the error of a delivery is never read."""

    class make(Sends):  # noqa: N801
        def flush(self) -> None:
            self.deliver()


class VisibleUntilRenamed(InMemory):
    """F27: rows that are to be staged are visible until they are renamed."""

    class make(PublishesFromState):  # noqa: N801
        def snapshot(self, checkpoint_id: int) -> bytes:
            self.show("moment", self.rows)
            self.store.shown.pop("moment")
            self.store.changes += 1
            return super().snapshot(checkpoint_id)


class MaintenanceFails(InMemory):
    """A right sink that suppresses every error on its stack; the contract's `maintain` raises."""

    class make(PublishesFromState):  # noqa: N801
        def show(self, name: str, rows: Rows) -> None:
            with suppress(Exception):
                super().show(name, rows)

    def maintain(self, scratch: Scratch) -> None:
        raise KeyError("no such table")
