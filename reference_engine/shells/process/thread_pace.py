"""How fast the threads of an attempt are: slower than its calls, overtaken by each other, or done with their waiting
long before a timeout; and how fast time passes for what sleeps. What is right does not depend on it.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from threading import Condition
from types import FrameType
from typing import Any, Final, Protocol

from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.replaced_functions import STEADY_CLOCKS, ClocksAhead, replace_everywhere
from sinkproof.chaos.sqlite_points import Waits
from sinkproof.chaos.standard_library import is_installed

# A thread waits at a line until its attempt has answered so many calls, in which it writes, votes and may be killed; it
# waits no longer than this, at one line and in all.
ANSWERS: Final = 8
HELD_SECONDS: Final = 0.2
HELD_SECONDS_IN_ALL: Final = 1.0
HELD_STEP_SECONDS: Final = 0.002
POLLED_SECONDS: Final = 0.03  # a call that lasts so long polls, and so does a wait that is no longer
WAITING: Final = frozenset({"threading", "queue", "concurrent.futures._base", "concurrent.futures.thread"})  # modules
# A thread waits at a line until others have passed so many, more than most do between a read and a write.
OVERTAKING_LINES: Final = 20
OVERTAKEN_SECONDS: Final = 0.02
OVERTAKEN_STEP_SECONDS: Final = 0.0005
OVERTAKEN_AT_A_LINE: Final = 2  # at each line two threads are overtaken: the first one of several, and another one
GIVING_WAY_SECONDS: Final = 0.003  # at each line: an attempt that was woken waits so long for a core
GIVING_WAY_SECONDS_IN_ALL: Final = 0.2  # less than the engine's patience
HURRIED_TIMES: Final = 100
HURRIED_SQLITE_SECONDS: Final = 2.0  # less than others wait then
CLOCKS: Final = ("time", "time_ns", *STEADY_CLOCKS)
IMPATIENT_ANSWERS: Final = 2  # when so many calls were answered, a thread that waits for long goes on


class Calls(Protocol):
    """Of the engine, in which an attempt is driven."""

    answers: int  # so many are over
    is_called: bool


class ThreadPace(ABC):
    """Of one attempt. Its thread of the calls makes this."""

    def __init__(self, calls: Calls) -> None:
        self.calls, self.seconds_left = calls, HELD_SECONDS_IN_ALL
        self.thread_of_calls = threading.get_ident()

    def pass_by(self, point: str) -> None:
        """A thread is at this point. Returns when it may go on."""
        if self.seconds_left > 0:
            began = now()
            self.hold(point)
            self.seconds_left -= now() - began

    @abstractmethod
    def hold(self, point: str) -> None:
        """As long as the thread at this point is to wait."""


class SlowThreads(ThreadPace):
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


class OvertakenThreads(ThreadPace):
    """A thread waits where it is the first one, and once more, while another one goes on, which is not held then."""

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.passed: Counter[int] = Counter()  # points, by thread
        self.held: Counter[str] = Counter()  # times, by point
        self.one_waits = threading.Lock()

    def hold(self, point: str) -> None:
        thread = threading.get_ident()
        self.passed[thread] += 1
        others = sys._current_frames().keys() - {thread}
        if self.held[point] == OVERTAKEN_AT_A_LINE or all(map(is_waiting, others)):
            return
        if not self.one_waits.acquire(blocking=False):
            return
        self.held[point] += 1
        try:
            until, deadline = self._passed_by_others(thread) + OVERTAKING_LINES, Deadline(OVERTAKEN_SECONDS)
            while self._passed_by_others(thread) < until and not deadline.over:
                threading.Event().wait(OVERTAKEN_STEP_SECONDS)
        finally:
            self.one_waits.release()

    def _passed_by_others(self, thread: int) -> int:
        return sum(self.passed.copy().values()) - self.passed[thread]


class ImpatientThreads(ThreadPace):
    """Where a thread waits for long, or sleeps, its time is over when two more calls were answered, or one waits for a
    thread: timers fire, and what lingers is flushed. Not in threads of installed libraries, in which a driver waits for
    a reply to its heartbeat. Patches the standard library for the life of this process.
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        wait, wait_for, get, sleep = Condition.wait, Condition.wait_for, Queue.get, vars(time)["sleep"]

        def wait_less(condition: Condition, *given: float | None, timeout: float | None = None) -> bool:
            return any(wait(condition, step) for step in self.steps_of(*given or (timeout,)))

        def wait_less_for(
            condition: Condition, predicate: Callable[[], Any], *given: float | None, timeout: float | None = None
        ) -> Any:
            is_met = any(wait_for(condition, predicate, step) for step in self.steps_of(*given or (timeout,)))
            return is_met and predicate()

        def get_sooner(queue: Queue[Any], *given: Any, block: bool = True, timeout: float | None = None) -> Any:
            waits: bool = given[0] if given else block
            seconds: float | None = given[1] if len(given) > 1 else timeout
            for step in self.steps_of(seconds if waits else None):
                with suppress(Empty):
                    return get(queue, waits, step)
            raise Empty

        def sleep_less(seconds: float) -> None:
            for step in self.steps_of(seconds):
                sleep(seconds if step is None else step)

        patched = (Condition, "wait", wait_less), (Condition, "wait_for", wait_less_for), (Queue, "get", get_sooner)
        for owner, name, instead in patched:
            setattr(owner, name, instead)
        replace_everywhere("sleep", sleep, sleep_less)

    def steps_of(self, seconds: float | None) -> Iterator[float | None]:
        """What a thread that waits so long waits for, one after the other."""
        thread = threading.current_thread()
        is_held = seconds is not None and seconds > POLLED_SECONDS and thread.ident != self.thread_of_calls
        if seconds is None or not is_held or is_of_library(thread):
            yield seconds
            return
        until, deadline, is_over = self.calls.answers + IMPATIENT_ANSWERS, Deadline(seconds), False
        while not is_over:
            yield HELD_STEP_SECONDS
            is_over = deadline.over or self.calls.answers >= until or is_waiting(self.thread_of_calls)

    def hold(self, point: str) -> None:
        """Not at points."""


class RacingTimers(OvertakenThreads, ImpatientThreads):
    """Both: what begins when its time is over is overtaken by calls."""


class HurriedSleep(ThreadPace):
    """What sleeps wakes up after a hundredth of the time, and finds that all of it has passed on the clocks of its
    process: an attempt that polls for minutes is done in seconds. Dates (`datetime`) go on as they did. SQLite waits
    for a lock for two seconds where it would wait for more than five.
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.clocks = ClocksAhead(CLOCKS)
        sleep = vars(time)["sleep"]
        replace_everywhere("sleep", sleep, partial(self._sleep, sleep))
        Waits.seconds_most = HURRIED_SQLITE_SECONDS

    def _sleep(self, sleep: Callable[[float], None], seconds: float) -> None:
        slept = seconds / HURRIED_TIMES
        sleep(slept)
        self.clocks.seconds += seconds - slept

    def hold(self, point: str) -> None:
        """Not at points."""


class GivesWay(ThreadPace):
    """Another attempt has waited for a lock of this one: until the end of the call it gets ahead once that is free."""

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.seconds_left = GIVING_WAY_SECONDS_IN_ALL

    def hold(self, point: str) -> None:
        threading.Event().wait(GIVING_WAY_SECONDS)


PACES: Final[dict[str, Callable[[Calls], ThreadPace]]] = {
    "slow": SlowThreads,
    "overtaken": OvertakenThreads,
    "impatient": ImpatientThreads,
    "racing-timers": RacingTimers,
    "hurried": HurriedSleep,
}  # in recipes


def is_waiting(thread: int) -> bool:
    """Whether this thread is inside a lock, a queue or a future of the standard library: no poll."""
    frame = sys._current_frames().get(thread)
    if frame is None or frame.f_globals.get("__name__") not in WAITING:
        return False
    if _starts_a_thread(frame):
        return False
    timeout = frame.f_locals.get("timeout")
    return not isinstance(timeout, (int, float)) or timeout > POLLED_SECONDS


def is_of_library(thread: threading.Thread) -> bool:
    """Whether an installed library has made it, for code of its own."""
    runs = getattr(thread, "function", None) or getattr(thread, "_target", None)
    made_by = [type(thread), getattr(runs, "__func__", runs)]
    modules = (sys.modules.get(getattr(each, "__module__", None) or "") for each in made_by)
    return any(is_installed(Path(getattr(module, "__file__", None) or "")) for module in modules)


def _starts_a_thread(frame: FrameType) -> bool:
    """It waits until that has begun, no longer."""
    outer: FrameType | None = frame
    while outer is not None and outer.f_globals.get("__name__") == threading.__name__:
        if outer.f_code is threading.Thread.start.__code__:
            return True
        outer = outer.f_back
    return False
