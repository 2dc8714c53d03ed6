"""The only module that reads the real clock, and deadlines that several waits share."""

from __future__ import annotations

import time
from datetime import UTC, datetime

now = time.monotonic  # seconds


def utc_now() -> datetime:
    """The date of a result. Nothing waits for it: it may jump."""
    return datetime.now(UTC)


class Deadline:
    """A point in time. Several waits share one, so that their sum is bounded."""

    __slots__ = ("at",)

    def __init__(self, seconds: float) -> None:
        self.at = now() + seconds

    @property
    def left(self) -> float:
        """Seconds, never negative."""
        return max(0.0, self.at - now())

    @property
    def over(self) -> bool:
        return now() >= self.at
