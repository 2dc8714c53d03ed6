"""Plain: rows go straight through. What exactly-once inside the engine alone gives at the end of the line: repeats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sinkproof.sink_adapters.optional import call_if_there
from sinkproof.sink_adapters.protocol import Batch, Context
from sinkproof.sink_adapters.state import EMPTY


class AppendTarget(Protocol):
    """What the target must offer. It may also offer `attach(context)`, `close()`, and

    `flush()`: on return everything appended so far is durable; without it, each batch must be when `append` returns.
    """

    def append(self, batch: Batch) -> None:
        """Adds the rows, visible at once. Nothing is ever taken back."""


class PlainSink:
    """At least once: rows behind the last complete checkpoint are written again after a crash."""

    __slots__ = ("_reach", "target")

    def __init__(self, target: AppendTarget) -> None:
        self.target = target

    def open(self, context: Context) -> None:
        self._reach = context.reach
        call_if_there(self.target, "attach", context)

    def write(self, batch: Batch) -> None:
        self._reach("append.before")
        self.target.append(batch)
        self._reach("append.after")

    def snapshot(self, checkpoint_id: int) -> bytes:
        """Without the flush, acknowledged rows could still be lost: at-most-once for those."""
        call_if_there(self.target, "flush")
        return EMPTY

    def notify_complete(self, checkpoint_id: int) -> Iterable[int]:
        return ()

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Its rows are visible already."""

    def settle(self, now: float) -> Iterable[int]:
        return ()

    def end_of_input(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        call_if_there(self.target, "close")
