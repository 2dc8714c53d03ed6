"""Makes the sink of an attempt in its own process. Fork servers preload this module, and nothing of the engine.

A fork copies the page table of its parent, so each module that a server does not hold makes attempts cheaper.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

MAKER: Final = f"{__name__}:make_sink"
IMPORTER: Final = f"{__name__}:import_all"
PRELOAD: Final = (
    __name__,
    "sinkproof.reference_engine.shells.process.attempt_child",
    "sinkproof.sink_adapters.strategies.adapt_to_sink",
    "sinkproof.chaos.moved_clock",
)


def make_sink(locator: str, scratch: Scratch, *, clock: Callable[[], float]) -> Any:
    """It loads the contract again, because nothing else is passed to it."""
    return load(locator).sink(replace(scratch, clock=clock))


def import_all(*modules: str) -> None:
    """Raises RuntimeError if one of them starts a thread, which no fork would have."""
    for name in modules:
        with suppress(ImportError):  # it was imported under another name, or not alone
            import_module(name)
    if threading.active_count() > 1:
        raise RuntimeError("a module starts a thread when it is imported")
