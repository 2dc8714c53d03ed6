"""A request of a suspended program, which goes on when another one sends the same: a server serves both at once."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class WaitingRequest:
    """Of one run; the watches of all its attempts share it. One request is held at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._data = b""
        self._go_on: Callable[[], None] | None = None

    @property
    def waits(self) -> bool:
        return self._go_on is not None

    def hold(self, data: bytes, *, go_on: Callable[[], None]) -> None:
        """`data`: what is sent; empty: it cannot be read, and meets nothing."""
        with self._lock:
            self._data, self._go_on = data, go_on if data else None

    def meet(self, data: bytes) -> None:
        """Another program is about to send this."""
        with self._lock:
            go_on = self._go_on if data == self._data else None
            self._go_on = None if go_on is not None else self._go_on
        if go_on is not None:
            go_on()
