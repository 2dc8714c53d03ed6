"""A time limit for the user's reader while an attempt is suspended: it may wait for a lock that the attempt holds."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import NoReturn


class WaitedTooLong(Exception):
    """The reader waited for so long that something suspended must hold what it waits for."""


@contextmanager
def within(seconds: float, *, otherwise: Callable[[], None] | None = None) -> Iterator[None]:
    """Raises WaitedTooLong in the body after that time. Native code may go on waiting when a signal comes: `otherwise`
    is called after twice that time, in another thread. Only the main thread can be interrupted.
    """
    with _interrupted_after(seconds), nullcontext() if otherwise is None else _called_after(2 * seconds, otherwise):
        yield


@contextmanager
def _called_after(seconds: float, otherwise: Callable[[], None]) -> Iterator[None]:
    last_resort = threading.Timer(seconds, otherwise)
    last_resort.daemon = True
    last_resort.start()
    try:
        yield
    finally:
        last_resort.cancel()


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _interrupt)
    rest, interval = signal.setitimer(signal.ITIMER_REAL, seconds, seconds)  # again, where the first one is caught
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, rest, interval)  # such as the limit of a test
        signal.signal(signal.SIGALRM, before)


def _interrupt(_: int, __: object) -> NoReturn:
    raise WaitedTooLong("it waited, perhaps for a lock of an attempt that is suspended")
