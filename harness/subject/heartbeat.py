"""Whoever watches this process is told that it waits for something slow, and not that it hangs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

LISTENERS: Final[list[Callable[[str], None]]] = []
EVERY_SECONDS: Final = 5.0


def tell(what: str) -> None:
    for listener in LISTENERS:
        listener(what)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A node takes seconds to start, a minute on a busy machine, and more when its jars are still to be had."""
    over = Event()

    def go_on_telling() -> None:
        while not over.wait(EVERY_SECONDS):
            tell(what)

    teller = Thread(target=go_on_telling, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
