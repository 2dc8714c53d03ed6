"""What takes long is given up when the process is to end: results that it has by then are not lost with it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNAL: Final = signal.SIGUSR1


class GivenUp(KeyboardInterrupt):
    """Raised in the main thread, whatever it does; not caught as a failure of a sink."""


class _Work:
    can_be_given_up = False


def listen() -> None:
    """From now on the signal gives up what `given_up_on_signal` encloses; elsewhere it has no effect."""
    signal.signal(SIGNAL, _give_up)


def _give_up(signum: int, frame: FrameType | None) -> None:
    if _Work.can_be_given_up:
        _Work.can_be_given_up = False  # once: what cleans up is not given up, too
        raise GivenUp


@contextmanager
def given_up_on_signal() -> Iterator[None]:
    """Raises GivenUp where the signal comes."""
    _Work.can_be_given_up = True
    try:
        yield
    finally:
        _Work.can_be_given_up = False
