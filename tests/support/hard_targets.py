"""More of hard_sinks.py: sinks whose target is struck, and sinks that readers beside them see through."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hard_sinks import OnAShelf, Rows, Waits

from sinkproof import Claim, Context, Scratch
from sinkproof.sink_adapters.protocol import TransactionLost


class Stages(Waits):
    """Rows are staged in the target, the state holds their names. The target drops what is old by its own clock."""

    limit = 900.0

    def open(self, context: Context) -> None:
        self.context = context
        for _, state in context.restored:
            for name, began in json.loads(state):
                self.commit(name, began)

    def snapshot(self, checkpoint_id: int) -> bytes:
        name = f"{self.context.subtask}-{self.context.generation}-{checkpoint_id}"
        self.shelf.stage(name, self.rows)
        self.rows = []
        self.pending[checkpoint_id] = [name, self.clock()]
        return json.dumps(list(self.pending.values())).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        for older in sorted(older for older in self.pending if older <= checkpoint_id):
            name, began = self.pending.pop(older)
            self.commit(name, began)  # type: ignore[arg-type]

    def commit(self, name: str, began: float) -> None:
        if self.clock() - began > self.limit:
            self.shelf.drop(name)
        if name in self.shelf.staged:
            rows = self.shelf.staged[name]
            self.shelf.show(name, rows)
            self.shelf.drop(name)
        elif name not in self.shelf.shown:
            self.lost(name)

    def lost(self, name: str) -> None:
        raise TransactionLost(name)


class TimesOutLoudly(OnAShelf):
    """Right: it cannot bring back what the target has dropped, and says so."""

    expires_after = 900.0
    make = Stages


class TimesOutSilently(OnAShelf):
    """F14: a transaction that is not known any more is taken for one that was committed."""

    expires_after = 900.0

    class make(Stages):  # noqa: N801
        def lost(self, name: str) -> None:
            pass


class StaleToTheJanitor(OnAShelf):
    """F25: what is staged is stale to the janitor, who knows nothing of checkpoints."""

    class make(Stages):  # noqa: N801
        def lost(self, name: str) -> None:
            pass

    def maintain(self, scratch: Scratch) -> None:
        for name in list(self.shelf.staged):
            self.shelf.drop(name)


class MarksFirst(OnAShelf):
    """O11: the marker says that a checkpoint is complete before all of its rows can be read."""

    claims = Claim.EXACTLY_ONCE | Claim.HONEST_MARKERS

    class make(Waits):  # noqa: N801
        def notify_complete(self, checkpoint_id: int) -> None:
            self.shelf.mark("complete", checkpoint_id)
            super().notify_complete(checkpoint_id)

    def complete(self, scratch: Scratch) -> list[int]:
        return list(self.shelf.marks.values())


class OneMarkEach(OnAShelf):
    """O4: each subtask shows its rows by itself, so that a reader sees half of a checkpoint."""

    claims = Claim.EXACTLY_ONCE | Claim.ATOMIC_CHECKPOINT


class Sends(Waits):
    """Right: rows are delivered in the background; what failed there is said at the next flush."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.waiting: list[tuple[str, Rows]] = []
        self.error: Exception | None = None

    def show(self, name: str, rows: Rows) -> None:
        self.waiting.append((name, rows))

    def deliver(self) -> None:
        """What a client library does in a thread of its own: an error goes to whoever asks next."""
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


class SendsAndAsks(OnAShelf):
    """Right."""

    make = Sends


class SendsAndForgets(OnAShelf):
    """F18: the error of a delivery is never asked for."""

    class make(Sends):  # noqa: N801
        def flush(self) -> None:
            self.deliver()


class ShowsForAMoment(OnAShelf):
    """F27: what is about to be staged can be read until it has another name."""

    class make(Waits):  # noqa: N801
        def snapshot(self, checkpoint_id: int) -> bytes:
            self.show("moment", self.rows)
            self.shelf.shown.pop("moment")
            self.shelf.changes += 1
            return super().snapshot(checkpoint_id)


class MaintenanceFails(OnAShelf):
    """Right, but its contract is not; the sink takes every failure on its stack for one of the target."""

    class make(Waits):  # noqa: N801
        def show(self, name: str, rows: Rows) -> None:
            with suppress(Exception):
                super().show(name, rows)

    def maintain(self, scratch: Scratch) -> None:
        raise KeyError("no such table")
