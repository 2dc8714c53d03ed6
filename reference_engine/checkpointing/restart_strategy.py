"""Restart strategies: after a failure, how long to wait before the next generation, or that there will be none."""

from __future__ import annotations

from collections import deque
from typing import Protocol


class RestartStrategy(Protocol):
    def next_delay(self, now: float) -> float | None:
        """Called once per failure. Milliseconds to wait before the restart; None: the job has failed for good."""


class NoRestart:
    """The first failure is the last."""

    def next_delay(self, now: float) -> float | None:
        return None


class FixedDelay:
    """A fixed number of restarts, a fixed time apart."""

    def __init__(self, *, attempts: int, delay: float = 1.0) -> None:
        self.left, self.delay = attempts, delay

    def next_delay(self, now: float) -> float | None:
        self.left -= 1
        return self.delay if self.left >= 0 else None


class FailureRate:
    """Gives up when more than `failures` happen within `interval` milliseconds."""

    def __init__(self, *, failures: int, interval: float, delay: float = 1.0) -> None:
        self.failures, self.interval, self.delay = failures, interval, delay
        self.recent: deque[float] = deque()

    def next_delay(self, now: float) -> float | None:
        self.recent.append(now)
        while self.recent[0] <= now - self.interval:
            self.recent.popleft()
        return self.delay if len(self.recent) <= self.failures else None


class ExponentialDelay:
    """Waits longer after each failure, up to a limit; a quiet time of `reset_after` milliseconds starts it afresh."""

    def __init__(
        self, *, initial: float = 1.0, limit: float = 60_000.0, factor: float = 2.0, reset_after: float = 60_000.0
    ) -> None:
        self.initial, self.limit, self.factor, self.reset_after = initial, limit, factor, reset_after
        self.delay, self.last = initial, float("-inf")

    def next_delay(self, now: float) -> float | None:
        quiet = now - self.last >= self.delay + self.reset_after
        self.delay = self.initial if quiet or self.last == float("-inf") else min(self.delay * self.factor, self.limit)
        self.last = now
        return self.delay
