"""A request of a suspended program, which goes on when another one sends the same: a server serves both at once."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class WaitingRequest:
    """Of one run; the watches of all its attempts share it. One request is held at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._data: bytes | None = b""
        self._go_on: Callable[[], None] | None = None

    @property
    def waits(self) -> bool:
        return self._go_on is not None

    def hold(self, data: bytes | None, *, go_on: Callable[[], None]) -> None:
        """`data`: what is sent; empty: it cannot be read, and meets nothing; None: it meets whatever is sent."""
        with self._lock:
            self._data, self._go_on = data, None if data == b"" else go_on

    def forget(self, go_on: Callable[[], None]) -> None:
        """It has gone on by itself: what it sends later meets nothing."""
        with self._lock:
            self._go_on = None if self._go_on == go_on else self._go_on

    def meet(self, data: bytes) -> None:
        """Another program is about to send this."""
        with self._lock:
            go_on = self._go_on if self._data in (data, None) else None
            self._go_on = None if go_on is not None else self._go_on
        if go_on is not None:
            go_on()
