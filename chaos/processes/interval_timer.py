"""The timer of this process that ends in SIGALRM, by the moment when it does: one that goes on is no other one."""

from __future__ import annotations

import signal

from sinkproof.chaos.clock import now

Timer = tuple[int, float]  # when it goes off, in whole seconds, and then again after so many; 0: not at all


def timer() -> Timer:
    left, again = signal.getitimer(signal.ITIMER_REAL)
    return (round(now() + left) if left else 0), again


def set_timer(wanted: Timer) -> None:
    at, again = wanted
    signal.setitimer(signal.ITIMER_REAL, max(at - now(), 0.0) if at else 0.0, again)
