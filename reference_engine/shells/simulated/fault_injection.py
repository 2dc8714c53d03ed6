"""What faults do to the actors of a simulation: the other half of `Simulation`, which stands in simulation.py.

Each fault kind calls one of these methods while its victim stands at the point. Who dies is taken out, and the rest of
the job runs to its verdict on top of the dead stack, before anything of it unwinds.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from heapq import heappush
from typing import Any, Final, NoReturn

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.fault_target import Killed
from sinkproof.chaos.schedule import Fault
from sinkproof.reference_engine.checkpointing.coordinator import Coordinator
from sinkproof.reference_engine.dataflow.subtask import Subtask
from sinkproof.reference_engine.shells.job import Host, Watcher
from sinkproof.reference_engine.shells.virtual_timing import Latencies
from sinkproof.sink_adapters.protocol import Sink

Key = tuple[int, int]  # (actor id, generation)
Event = tuple[str, Any, Any]  # kind, a, b
ELECT: Final[Event] = ("elect", None, None)
CANCELLED_LATE: Final = 6  # ms after it has woken up: a zombie goes on meanwhile


class FaultInjector(ABC):
    """The parts of a simulation that faults change. `run` and its kind are the simulation's own."""

    host: Host
    watcher: Watcher
    names: tuple[str, ...]
    latency: Latencies
    queue: list[tuple[Any, ...]]
    now: float
    until: float
    over: bool
    fate: str
    actor: Key
    waking_up: Key | None
    coordinator: Coordinator | None
    handling: int  # the number of an event
    crashes: int  # of the whole job
    checkpoint_id_last: int
    checkpoint_id_floor: int  # ids up to it are used up, even if nobody remembers them
    subtasks: dict[Key, Subtask]
    sinks: dict[Key, Sink]
    sleepers: dict[Key, list[tuple[int, Event]]]
    trace: list[tuple[int, str]]
    faults: list[Fault]
    struck: list[Fault]
    armed_actor: int
    armed_point: str
    armed_left: int

    @abstractmethod
    def post(self, delay: float, key: Key, event: Event) -> None: ...

    @abstractmethod
    def note(self, actor: str, what: str, detail: Any) -> None: ...

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def run(self) -> None: ...

    @abstractmethod
    def end(self) -> None: ...

    # -- striking ----------------------------------------------------------------------------------

    def strike(self) -> None:
        KINDS[self._take_fault().kind].inject(self)

    def _take_fault(self) -> Fault:
        fault = self.faults.pop(0)
        self.struck.append(fault)
        self._arm()
        self.note(self.names[self.actor[0]], fault.point, fault.kind)
        self.watcher.striking(self, fault)  # type: ignore[arg-type]  # a Simulation is the only Struck
        return fault

    def _arm(self) -> None:
        """Makes the next fault ready; its occurrence counts from the start of the run."""
        if not self.faults:
            self.armed_actor, self.armed_point = -1, ""
            return
        fault = self.faults[0]
        self.armed_actor = self.names.index(fault.actor) if fault.actor in self.names else -1
        self.armed_point = fault.point
        self.armed_left = fault.occurrence - self.trace.count((self.armed_actor, fault.point))

    def kill_actor(self) -> NoReturn:
        key = self.actor
        if key[0] == 0:
            self.coordinator = None
            self.post(self.latency.detect, (0, 0), ELECT)
        else:
            self._bury(key)
            self.post(self.latency.detect, (0, key[1]), ("failed", key[0], "it died"))
            self._let_sleepers_lie()
        self._judge_first()

    kill_worker = kill_executor = kill_actor

    def _let_sleepers_lie(self) -> None:
        """Their stacks are under the one of the dead, which would have to unwind, unjudged, for them to wake."""
        if self.host.dead_unwind:
            for key in self.sleepers:
                self._bury(key)
            self.sleepers.clear()
            self.until = float("inf")

    def kill_job(self) -> NoReturn:
        for key in list(self.subtasks):
            self._bury(key)
        self.coordinator, self.checkpoint_id_last = None, self.checkpoint_id_floor
        self.queue.clear()
        self.sleepers.clear()
        self.crashes += 1
        self.waking_up, self.until = None, float("inf")  # no sleeper is left to wait for
        self.start()
        self._judge_first()

    def _bury(self, key: Key) -> None:
        self.subtasks.pop(key, None)
        sink = self.sinks.pop(key, None)
        if sink is not None:
            self.host.kill(sink)

    def _judge_first(self) -> NoReturn:
        sys.call_tracing(self.run, ())  # lines are points in what follows, too
        if not self.sleepers:
            self.end()
        raise Killed

    def stop_actor(self) -> None:
        key = self.actor
        self.post(self.latency.detect, (0, key[1]), ("failed", key[0], "it does not answer"))
        self._sleep(self.latency.asleep)
        self.waking_up = key
        self.watcher.waking(self, self.names[key[0]])  # type: ignore[arg-type]

    def pause_actor(self) -> None:
        self._sleep(self.latency.paused)

    def _sleep(self, duration: int) -> None:
        key, wake, handling = self.actor, self.now + duration, self.handling
        self.sleepers[key] = []
        outer, self.until = self.until, wake
        sys.call_tracing(self.run, ())  # everybody else goes on, on top of the sleeper's stack
        self.until, self.now, self.handling = outer, max(self.now, wake), handling
        missed = self.sleepers.pop(key, None)
        if missed is None or self.over:
            raise Killed  # the whole job died meanwhile
        for number, event in missed:  # in their order, and before what comes from now on, as it comes through a channel
            later = CANCELLED_LATE if event[0] == "cancel" else 0
            heappush(self.queue, (self.now + later, number, key, event))
        self.actor = key

    def lose_message(self) -> None:
        self.fate = "lost"

    def decline_vote(self) -> None:
        self.fate = "declined"

    # -- for hosts whose attempts see their points elsewhere (process_host.py) --------------------------

    def armed(self, actor: str) -> tuple[str, int, str] | None:
        if self.armed_actor < 1 or self.names[self.armed_actor] != actor:
            return None
        return self.armed_point, self.armed_left, self.faults[0].kind

    def passed(self, actor: str, points: list[str]) -> None:
        index = self.names.index(actor)
        self.trace += [(index, point) for point in points]
        if index == self.armed_actor:
            self.armed_left -= points.count(self.armed_point)
            if self.armed_left <= 0 and self.faults[0].kind in ("error", "unanswered"):
                self._take_fault()  # it has struck already, where the point is

    def died(self, actor: str, status: int) -> NoReturn:
        if self.armed_actor >= 0 and self.names[self.armed_actor] == actor and self.armed_left <= 0:
            self.strike()
        self.note(actor, "died", status)
        self.kill_actor()

    def stopped(self, actor: str) -> None:
        self.strike()
