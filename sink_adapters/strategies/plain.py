"""Plain: rows are written straight through. With exactly-once inside the engine only, the output has repeats."""

from __future__ import annotations

from typing import Protocol

from sinkproof.sink_adapters.protocol import Batch
from sinkproof.sink_adapters.strategies.direct_sink import DirectSink


class AppendTarget(Protocol):
    """What the target must offer. It may also offer `attach(context)`, `close()`, and

    `flush()`: on return everything appended so far is durable; without it, each batch must be when `append` returns.
    """

    def append(self, batch: Batch) -> None:
        """Adds the rows, visible at once. Nothing is ever taken back."""


class PlainSink(DirectSink):
    """At least once: rows behind the last complete checkpoint are written again after a crash."""

    def __init__(self, target: AppendTarget) -> None:
        super().__init__(target)

    def write(self, batch: Batch) -> None:
        self._reach("append.before")
        self.target.append(batch)
        self._reach("append.after")
