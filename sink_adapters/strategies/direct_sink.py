"""The common part of sinks without a second phase: rows are visible as soon as they are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sinkproof.sink_adapters.protocol import Context, call_if_there
from sinkproof.sink_adapters.strategies.snapshot_bytes import EMPTY


class DirectSink:
    """A sink without `write`. The target may offer `attach(context)`, `flush()` and `close()`."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def open(self, context: Context) -> None:
        self._reach = context.reach
        call_if_there(self.target, "attach", context)

    def snapshot(self, checkpoint_id: int) -> bytes:
        """The state is empty: written rows are in the target, and later rows are replayed. Without the flush,
        acknowledged rows could still be lost.
        """
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
