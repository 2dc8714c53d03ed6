"""Progress reports during a long wait. Without them the parent process would take the wait for a hang."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

Report = Callable[[str], None]
EVERY_SECONDS: Final = 5.0


def no_report(what: str) -> None:
    """For a process without a parent that watches it."""


@contextmanager
def heartbeat(what: str, report: Report) -> Iterator[None]:
    """Calls `report` until the block ends. A node starts within seconds, on a busy machine within a minute, and takes
    longer when its jars have to be resolved first.
    """
    over = Event()

    def report_until_over() -> None:
        while not over.wait(EVERY_SECONDS):
            report(what)

    thread = Thread(target=report_until_over, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
