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


def while_it_moves(measure: Callable[[], int], report: Report) -> Report:
    """Reports only if the measure has changed since the last time: a hang goes on being seen."""
    before = -1

    def report_if_moved(what: str) -> None:
        nonlocal before
        last, before = before, measure()
        if last != before:
            report(what)

    return report_if_moved


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
