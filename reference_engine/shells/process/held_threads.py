"""Threads of an attempt that are held at its lines and file effects: all but the one of the calls, while these go on;
or each once, until another one has overtaken it. What is right does not depend on which of them is faster.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from typing import Final, Protocol

from sinkproof.chaos.clock import Deadline, now

# A thread waits at a line until its attempt has answered so many calls, in which it writes, votes and may be killed; it
# waits no longer than this, at one line and in all.
ANSWERS: Final = 8
HELD_SECONDS: Final = 0.2
HELD_SECONDS_IN_ALL: Final = 1.0
HELD_STEP_SECONDS: Final = 0.002
POLLED_SECONDS: Final = 0.03  # a call that lasts so long, or waits no longer, polls
WAITING: Final = frozenset({"threading", "queue", "concurrent.futures._base", "concurrent.futures.thread"})  # modules
# A thread waits at a line until others have passed so many, more than most do between a read and a write.
OVERTAKING_LINES: Final = 20
OVERTAKEN_SECONDS: Final = 0.02
OVERTAKEN_STEP_SECONDS: Final = 0.0005
OVERTAKEN_AT_A_LINE: Final = 2  # times: the first of several threads, and another one


class Calls(Protocol):
    """Of the engine, in which an attempt is driven."""

    answers: int  # so many are over
    is_called: bool


class HeldThreads(ABC):
    """Threads of the attempt whose thread of the calls makes this; it has `seconds` to wait in all."""

    def __init__(self, calls: Calls, seconds: float = HELD_SECONDS_IN_ALL) -> None:
        self.calls, self.seconds_left = calls, seconds
        self.thread_of_calls = threading.get_ident()

    def pass_by(self, point: str) -> None:
        """A thread is at this point. Returns when it may go on."""
        if self.seconds_left > 0:
            began = now()
            self.hold(point)
            self.seconds_left -= now() - began

    @abstractmethod
    def hold(self, point: str) -> None: ...


class SlowThreads(HeldThreads):
    """A thread waits while calls go on, unless one of them waits for a thread, or polls."""

    def hold(self, point: str) -> None:
        if threading.get_ident() == self.thread_of_calls:
            return
        until, deadline = self.calls.answers + ANSWERS, Deadline(min(HELD_SECONDS, self.seconds_left))
        answers, polls = self.calls.answers, Deadline(POLLED_SECONDS)
        while self.calls.answers < until and not deadline.over and not is_waiting(self.thread_of_calls):
            if not self.calls.is_called or self.calls.answers != answers:
                answers, polls = self.calls.answers, Deadline(POLLED_SECONDS)
            elif polls.over:
                break
            threading.Event().wait(HELD_STEP_SECONDS)


class OvertakenThreads(HeldThreads):
    """A thread waits where it is the first one, and once more, while another one goes on, which is not held then."""

    def __init__(self, calls: Calls, seconds: float = HELD_SECONDS_IN_ALL) -> None:
        super().__init__(calls, seconds)
        self.passed: Counter[int] = Counter()  # points, by thread
        self.held: Counter[str] = Counter()  # times, by point
        self.someone_waits = threading.Lock()

    def hold(self, point: str) -> None:
        thread = threading.get_ident()
        self.passed[thread] += 1
        others = sys._current_frames().keys() - {thread}
        if self.held[point] == OVERTAKEN_AT_A_LINE or all(map(is_waiting, others)):
            return
        if not self.someone_waits.acquire(blocking=False):
            return
        self.held[point] += 1
        try:
            until, deadline = self._passed_by_others(thread) + OVERTAKING_LINES, Deadline(OVERTAKEN_SECONDS)
            while self._passed_by_others(thread) < until and not deadline.over:
                threading.Event().wait(OVERTAKEN_STEP_SECONDS)
        finally:
            self.someone_waits.release()

    def _passed_by_others(self, thread: int) -> int:
        return sum(self.passed.copy().values()) - self.passed[thread]


HOLDS: Final = {"slow": SlowThreads, "overtaken": OvertakenThreads}  # as recipes name them


def is_waiting(thread: int) -> bool:
    """Whether this thread is inside a lock, a queue or a future of the standard library: no poll."""
    frame = sys._current_frames().get(thread)
    if frame is None or frame.f_globals.get("__name__") not in WAITING:
        return False
    timeout = frame.f_locals.get("timeout")
    return not isinstance(timeout, (int, float)) or timeout > POLLED_SECONDS
