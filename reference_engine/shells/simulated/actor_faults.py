"""Faults of single actors and of the whole job: death, suspension, lost and altered messages.

Each method is called while the victim's stack stands at the point. A dead actor is removed, and the rest of the job
runs to its verdict on top of the dead stack, before anything of it unwinds.
"""

from __future__ import annotations

import sys
from heapq import heappush
from typing import Final, NoReturn

from sinkproof.chaos.faults.fault_target import Killed
from sinkproof.reference_engine.shells.simulated.faulted_job import ELECT, Event, FaultedJob, Key

CANCELLED_LATE: Final = 6  # ms after its resumption, so that a zombie runs for a while before it is cancelled


class ActorFaults:
    """Kills and suspends the acting attempt or coordinator, and alters the message that it is about to send."""

    def __init__(self, job: FaultedJob, *, checkpoint_id_floor: int) -> None:
        self.job = job
        self.suspended: dict[Key, list[tuple[int, Event]]] = {}  # events that wait for the attempt, with their numbers
        self.resumed: Key | None = None  # a zombie that has not finished what it was suspended in
        self.job_crashes = 0
        self.checkpoint_id_floor = checkpoint_id_floor  # ids up to it are used up; a crashed job goes on from there

    # -- death -------------------------------------------------------------------------------------

    def kill_actor(self) -> NoReturn:
        job, key = self.job, self.job.actor
        if key[0] == 0:
            job.coordinator = None
            job.post(job.latency.detect, (0, 0), ELECT)
        else:
            job.discard(key)
            job.post(job.latency.detect, (0, key[1]), ("failed", key[0], "it died"))
            self._discard_suspended()
        self._run_before_unwinding()

    kill_worker = kill_executor = kill_actor

    def _discard_suspended(self) -> None:
        """Their stacks lie below the dead attempt's, which would have to unwind, unjudged, before they could resume."""
        if self.job.host.dead_unwind:
            for key in self.suspended:
                self.job.discard(key)
            self.suspended.clear()
            self.job.until = float("inf")

    def kill_job(self) -> NoReturn:
        job = self.job
        for key in list(job.subtasks):
            job.discard(key)
        job.coordinator, job.checkpoint_id_last = None, self.checkpoint_id_floor
        job.queue.clear()
        self.suspended.clear()
        self.job_crashes += 1
        self.resumed, job.until = None, float("inf")  # no suspended attempt is left to wait for
        job.start()
        self._run_before_unwinding()

    def _run_before_unwinding(self) -> NoReturn:
        sys.call_tracing(self.job.run, ())  # executed lines are points in what follows, too
        if not self.suspended:
            self.job.end()
        raise Killed

    # -- suspension --------------------------------------------------------------------------------

    def stop_actor(self) -> None:
        job, key = self.job, self.job.actor
        job.post(job.latency.detect, (0, key[1]), ("failed", key[0], "it does not answer"))
        self._suspend(job.latency.suspended)
        self.resumed = key
        job.zombie_resuming(key)

    def hang_actor(self) -> NoReturn:
        job, key = self.job, self.job.actor
        job.post(job.latency.detect, (0, key[1]), ("failed", key[0], "it does not answer"))
        self._suspend(job.latency.suspended)
        job.discard(key)
        self._discard_suspended()
        self._run_before_unwinding()

    def end_as_zombie(self) -> None:
        """The acting attempt dies after it was resumed: the watcher compares what it has left behind."""
        if self.resumed == self.job.actor:
            self.resumed = None
            self.job.watcher.resumed(self.job, self.job.names[self.job.actor[0]])

    def pause_actor(self) -> None:
        self._suspend(self.job.latency.paused)

    def _suspend(self, duration: int) -> None:
        key = self.job.actor
        for number, event in self.run_others(duration):  # in order, and before later messages of the same channel
            later = CANCELLED_LATE if event[0] == "cancel" else 0
            heappush(self.job.queue, (self.job.now + later, number, key, event))
        self.job.actor = key

    def run_others(self, duration: int) -> list[tuple[int, Event]]:
        """Runs the rest of the job for so many ms, on top of the acting actor's stack. Returns the events that came
        for the actor meanwhile; raises Killed if the whole job died.
        """
        job, key = self.job, self.job.actor
        resumption, handling, outer = job.now + duration, job.handling, job.until
        self.suspended[key], job.until = [], resumption
        sys.call_tracing(job.run, ())
        job.until, job.now, job.handling = outer, max(job.now, resumption), handling
        missed = self.suspended.pop(key, None)
        if missed is None or job.over:
            raise Killed
        return missed

    # -- messages ----------------------------------------------------------------------------------

    def lose_message(self) -> None:
        self.job.message_fault = "lost"

    def delay_message(self) -> None:
        self.job.message_fault = "late"

    def repeat_message(self) -> None:
        self.job.message_fault = "repeated"

    def decline_vote(self) -> None:
        self.job.message_fault = "declined"
