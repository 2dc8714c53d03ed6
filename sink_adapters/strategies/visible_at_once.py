"""What sinks have in common whose rows are visible as soon as they are written: no phase follows the first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sinkproof.sink_adapters.protocol import Context, call_if_there
from sinkproof.sink_adapters.strategies.snapshot_bytes import EMPTY


class DirectSink:
    """A sink but for its `write`. The target may offer `attach(context)`, `flush()` and `close()`."""

    __slots__ = ("_reach", "target")

    def __init__(self, target: Any) -> None:
        self.target = target

    def open(self, context: Context) -> None:
        self._reach = context.reach
        call_if_there(self.target, "attach", context)

    def snapshot(self, checkpoint_id: int) -> bytes:
        """The state is empty: what was written is in the target, and what follows is replayed. Without the flush,
        acknowledged rows could still be lost: at-most-once for those.
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
