"""What this process has sent to targets, for those who compare what strategies cost. Nothing depends on it."""

from __future__ import annotations

from typing import Final


class Traffic:
    """Counted where it is sent, by clients that know when that is."""

    __slots__ = ("requests", "sent_bytes")

    def __init__(self) -> None:
        self.requests = self.sent_bytes = 0

    def add(self, size: int) -> None:
        self.requests += 1
        self.sent_bytes += size


SENT: Final = Traffic()
