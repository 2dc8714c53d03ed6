"""When a fault is injected: the next one of the schedule is armed, and fires where its actor reaches its point."""

from __future__ import annotations

from errno import EIO
from typing import NoReturn

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.terminate_attempt import CALLS_LEFT
from sinkproof.chaos.requests.socket_points import RAISED
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.reference_engine.shells.simulated.engine_faults import INJECTED, EngineFaults
from sinkproof.reference_engine.shells.simulated.faulted_job import FaultedJob

# By an attempt's process, or beside it, before this is told.
INJECTED_THERE = (
    *(
        "error",
        "unanswered",
        *RAISED,
        "silent",
        "black-hole",
        "refused-statement",
        "lock-timeout",
        "short-write",
        "kill-program",
    ),
    *CALLS_LEFT,
)


class FaultInjector:
    """One schedule's faults, in their order. Also the `Overseer` of attempts that are processes (process_host.py)."""

    def __init__(self, job: FaultedJob, engine: EngineFaults, *, schedule: Schedule) -> None:
        self.job, self.engine = job, engine
        self.pending = list(schedule.faults)
        self.injected: list[Fault] = []
        self.armed_actor, self.armed_point, self.armed_left = -1, "", 0
        self.arm()

    def arm(self) -> None:
        """Makes the next fault ready; its occurrence counts from the start of the run."""
        if not self.pending:
            self.armed_actor, self.armed_point = -1, ""
            return
        fault, names = self.pending[0], self.job.names
        self.armed_actor = names.index(fault.actor) if fault.actor in names else -1
        self.armed_point = fault.point
        self.armed_left = fault.occurrence - self.job.trace.count((self.armed_actor, fault.point))

    def disarm(self) -> None:
        """No further fault of the schedule is injected."""
        self.pending.clear()
        self.arm()

    def inject(self) -> None:
        """The armed actor stands at the armed point. May not return."""
        failing = self.engine.failing
        if failing is None:
            self._inject_next()
        elif failing == self.job.actor:
            self.armed_left = 1
            raise OSError(EIO, INJECTED)
        else:
            self.engine.failing = None
            self.arm()

    def _inject_next(self) -> None:
        fault = self._take()
        try:
            KINDS[fault.kind].inject(self.engine)
        except OSError:
            if self.engine.failing is not None:  # the next fault has to wait until this one has ended
                self.armed_actor, self.armed_point, self.armed_left = self.job.actor[0], fault.point, 1
            raise

    def _take(self) -> Fault:
        fault = self.pending.pop(0)
        self.injected.append(fault)
        self.arm()
        self.job.note(self.job.names[self.job.actor[0]], fault.point, fault.kind)
        self.job.watcher.injecting(self.job, fault)
        return fault

    # -- for hosts with attempts that reach their points in other processes -----------------------------------

    def armed(self, actor: str) -> tuple[str, int, str] | None:
        if self.armed_actor < 1 or self.job.names[self.armed_actor] != actor:
            return None
        return self.armed_point, self.armed_left, self.pending[0].kind

    def then(self, actor: str) -> str:
        return self.pending[1].point if len(self.pending) > 1 and self.pending[1].actor == actor else ""

    def passed(self, actor: str, points: list[str]) -> None:
        index = self.job.names.index(actor)
        self.job.trace += [(index, point) for point in points]
        if index == self.armed_actor and self.armed_left > 0:  # else it was passed before the preceding fault
            self.armed_left -= points.count(self.armed_point)
            if self.armed_left <= 0 and self.pending[0].kind in INJECTED_THERE:
                self._take()

    def died(self, actor: str, status: int) -> NoReturn:
        if self.armed_actor >= 0 and self.job.names[self.armed_actor] == actor and self.armed_left <= 0:
            self.inject()
        self.job.note(actor, "died", status)
        self.engine.actors.end_as_zombie()
        self.engine.actors.kill_actor()

    def stopped(self, actor: str) -> None:
        self.inject()
