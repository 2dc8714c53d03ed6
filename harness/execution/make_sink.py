"""Makes the sink of an attempt in its own process. Fork servers preload this module, and nothing of the engine.

A fork copies the page table of its parent, so each module that a server does not hold makes attempts cheaper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

MAKER: Final = f"{__name__}:make_sink"
PRELOAD: Final = (
    __name__,
    "sinkproof.reference_engine.shells.process.attempt_child",
    "sinkproof.sink_adapters.strategies.adapt_to_sink",
    "sinkproof.chaos.moved_clock",
)


def make_sink(locator: str, scratch: Scratch, *, clock: Callable[[], float]) -> Any:
    """It loads the contract again, because nothing else is passed to it."""
    return load(locator).sink(replace(scratch, clock=clock))
