"""Counts what this process has sent to targets, to compare the cost of strategies. No result depends on it."""

from __future__ import annotations

from typing import Final


class Traffic:
    """Clients call `add` where they send."""

    def __init__(self) -> None:
        self.requests = self.sent_bytes = 0

    def add(self, size: int) -> None:
        self.requests += 1
        self.sent_bytes += size


SENT: Final = Traffic()
