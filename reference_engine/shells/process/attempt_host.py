"""Hosts attempts of sinks that are processes, and reports their points and deaths to the engine.

A death at the armed point is reported to the overseer; the engine may also kill an attempt itself. Any other end is an
`AttemptEnded`, with fields that say which. Kills are counted from wait statuses.
"""

from __future__ import annotations

import os
import select
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn, Self, TypeVar

from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.faults.hang_until_killed import HANG
from sinkproof.chaos.faults.terminate_attempt import CALLS_LEFT
from sinkproof.chaos.processes.spawn import ChildProcess, ForkServer, Limits, NoReply, Silence
from sinkproof.reference_engine.shells.process.attempt_endings import AttemptEnded, AttemptEnding, ending_of
from sinkproof.reference_engine.shells.process.call_windows import Window, no_window
from sinkproof.reference_engine.shells.process.overseer import Armed, Overseer, Unwatched
from sinkproof.reference_engine.shells.process.process_status import busy_seconds, handles
from sinkproof.sink_adapters.protocol import Sink

HANG_SECONDS: Final = 10.0  # a call of a sink that takes longer counts as hung
LIMITS: Final = Limits(data_bytes=2 << 30)  # a sink that eats all memory ends long before the machine does
# An attempt that does nothing for so long may wait for a lock of a suspended attempt, for up to the 5 s after which
# SQLite gives up. Longer than the lock timeouts of sinks that give up sooner, and then fail.
PATIENCE_SECONDS: Final = 0.4
ENDING_SECONDS: Final = 2.0  # an attempt that was asked to end, and does nothing for so long, waits for its end
IN_VAIN_SECONDS: Final = 35.0  # clients give up after ten or thirty seconds
WORK_LEAST_SECONDS: Final = 0.02  # an attempt that works is looked at again after this, or later
# After this share of the time after which a call counts as hung, a busy attempt counts as waiting, too.
BUSY_HANGS_MOST: Final = 0.5


class ProcessAttempt(ABC):
    """One attempt of one sink subtask in a process of its own; the base of the sinks that the engine sees."""

    def __init__(self, host: AttemptHost, actor: str, child: ChildProcess, *, replies: int) -> None:
        """`replies`: the descriptor that is readable when a reply has come."""
        self.host, self.actor, self.child, self.replies = host, actor, child, replies
        self.armed: Armed | None = None
        self.is_ending = False  # it got SIGTERM, or was a zombie: from now on it may be dead whenever it is called
        self.generation = 0
        self.waits_in_vain = False  # for a reply: a client without a timeout does so until it is killed
        self.is_waited_for = False  # it was resumed because another attempt waits, for a lock perhaps

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def hangs(self) -> bool:
        """Whether it is suspended until it is killed."""
        return self.armed is not None and self.armed[2] == HANG.word

    def goes_on_before(self, pausing: ProcessAttempt) -> bool:
        """Whether this suspended attempt goes on, and not only when that one, which pauses now, has gone on."""
        kind = self.armed[2] if self.armed is not None else ""
        return kind == "pause" or (kind == "stop" and self.generation < pausing.generation)

    @property
    def alive(self) -> bool:
        return self.child.alive

    @property
    def wait_status(self) -> int | None:
        return self.child.wait_status

    def stop(self) -> None:
        """SIGSTOP, between two calls."""
        self.child.stop()

    def resume(self) -> None:
        self.child.resume()

    def kill(self) -> int:
        """SIGKILL to it and to everything it has started; the wait status, when nothing of it runs any more."""
        return self.host.end(self)

    def hang_up(self) -> None:
        """Closes what it reads from: an attempt that waits for its next call exits."""
        self.child.hang_up()

    def release(self) -> None:
        """Gives back what this process holds of it, once it is dead."""
        self.child.close()

    def fail(self, ending: AttemptEnding, *, evidence: str = "") -> NoReturn:
        """Makes sure that it is dead, and says how it ended."""
        status = self.child.kill()
        self.host.forget(self)
        self.host.endings[ending] += 1
        raise AttemptEnded(ending, status=status, output_tail=self.child.output.tail(), evidence=evidence)

    def fail_silent(self, silence: NoReply) -> NoReturn:
        """No reply came, and no fault of ours is the reason."""
        match silence.silence:
            case Silence.ENDED:
                self.fail(ending_of(self.child.wait_status or 0), evidence=silence.evidence)
            case Silence.STOPPED:
                self.fail(AttemptEnding.STOPPED)
            case Silence.HUNG:
                self.fail(AttemptEnding.HUNG, evidence=f"no reply within {self.host.hang_seconds:g} s")
            case Silence.GARBAGE | Silence.STRUCK:
                self.fail(AttemptEnding.GARBAGE, evidence=silence.evidence)

    # -- replies and faults -----------------------------------------------------------------------

    def await_reply(self, receive: Callable[[Deadline], Received]) -> Received:
        """What `receive` returns. Goes on after a suspension; raises after a death."""
        sent, busy = now(), busy_seconds(self.pid) if self.idle_most < self.host.hang_seconds else 0.0
        at_work = 0.0
        while True:
            try:
                received = receive(Deadline(at_work or self.idle_most))
            except NoReply as silence:
                hung = silence.silence is Silence.HUNG
                at_work = self._seconds_at_work(sent, busy) if hung else 0.0
                if not (at_work or (hung and self._is_waited_for(sent))):
                    self.handle_silence(silence)
                continue
            self.host.slowest_seconds = max(self.host.slowest_seconds, now() - sent)
            return received

    @property
    def idle_most(self) -> float:
        """For so long it may do nothing in a call, if another one is suspended, or if one of them is to end."""
        if self.host.suspended:
            return self.host.patience_seconds
        if self.waits_in_vain:
            return IN_VAIN_SECONDS
        is_asked = self.is_ending or (self.armed is not None and self.armed[2] in CALLS_LEFT)
        for_an_end = is_asked or self.host.zombies_of(self)
        return min(ENDING_SECONDS, self.host.hang_seconds) if for_an_end else self.host.hang_seconds

    def may_yet_answer(self, sent: float) -> bool:
        """Whether it does nothing, but was not asked to end so far, and has time."""
        return not self.is_ending and now() - sent < self.host.hang_seconds

    def _is_waited_for(self, sent: float) -> bool:
        return self.host.resume_suspended() or self.host.end_zombies_of(self) or self.may_yet_answer(sent)

    def _seconds_at_work(self, sent: float, busy: float) -> float:
        """For how long it may do nothing more; 0: this attempt does not run, nor wait for a core of a busy machine, and
        so for a suspended one.
        """
        waited = now() - sent
        idle = waited - (busy_seconds(self.pid) - busy)
        short = waited < BUSY_HANGS_MOST * self.host.hang_seconds
        is_at_work = self.idle_most < self.host.hang_seconds and short and idle < self.idle_most
        return max(self.idle_most - idle, WORK_LEAST_SECONDS) if is_at_work else 0.0

    def await_reply_briefly(self) -> None:
        """Returns when a reply is there, or after the host's patience; the pending call reads it."""
        with suppress(NoReply):
            self.child.await_ready(self.replies, select.POLLIN, Deadline(self.host.patience_seconds))

    @abstractmethod
    def handle_silence(self, silence: NoReply) -> None:
        """No reply came. Returns when the attempt goes on after an injected fault."""

    @abstractmethod
    def terminate(self, calls: int) -> None:
        """SIGTERM, between two calls. Returns if it is to answer so many more; raises after its death."""

    def end_if_asked_to(self, silence: NoReply) -> None:
        """Raises if this attempt is to end: it has ended; or it is killed, as one that takes too long is."""
        in_vain = self.waits_in_vain and silence.silence is Silence.HUNG
        if in_vain or (self.is_ending and silence.silence is not Silence.STOPPED):
            self.died_at_its_point(self.child.kill())

    def died_at_its_point(self, status: int) -> NoReturn:
        self.host.count(status)
        self.host.forget(self)
        self.host.overseer.died(self.actor, status)

    def suspend(self) -> None:
        """The attempt is suspended at its armed point: the rest of the job runs, then it goes on."""
        if self.armed is not None and self.armed[2] == "pause":
            self.host.resume_before(self)
        self.host.suspended.append(self)
        try:
            self.host.overseer.stopped(self.actor)
        except BaseException:
            self.kill()
            raise
        finally:
            is_resumed = self not in self.host.suspended
            self.host.suspended = [each for each in self.host.suspended if each is not self]
            self.host.at_work = [each for each in self.host.at_work if each is not self]
        if not is_resumed:
            for other in self.host.at_work:
                other.await_reply_briefly()
            self.resume_here()

    def resume_here(self) -> None:
        """The suspended attempt goes on."""
        self.resume()


Received = TypeVar("Received")
AnyAttempt = TypeVar("AnyAttempt", bound=ProcessAttempt)


class AttemptHost(ABC):
    """Where attempts live. One host per run; the fork server below it serves many. Use as a context manager."""

    dead_unwind = False

    def __init__(self, server: ForkServer) -> None:
        self.server = server
        self.hang_seconds, self.limits = HANG_SECONDS, LIMITS
        self.overseer: Overseer = Unwatched()  # the engine puts itself here before the first spawn
        self.struck_line = ""  # of the sink's own code, as a point: where the last fault struck, if inside a call
        self.kills = 0  # SIGKILLs by a fault or by the engine, from wait statuses
        self.endings: Counter[AttemptEnding] = Counter()  # of attempts that neither a fault nor the engine has killed
        self.suspended: list[ProcessAttempt] = []  # by a fault, and not resumed yet
        self.at_work: list[ProcessAttempt] = []  # resumed early, in a call of which the reply is not read yet
        self.patience_seconds = PATIENCE_SECONDS
        self.slowest_seconds = 0.0  # of all replies of this run
        self.resumed_early = False  # a suspended attempt of this run, as another one waited
        self.looks_for_handlers = self.handles_sigterm = False  # whether an attempt of this run does so
        self.window: Window = no_window  # entered around each call of a sink, with its name
        self.living: list[ProcessAttempt] = []
        self._leaving: list[ProcessAttempt] = []

    @property
    def times_run_out(self) -> int:
        """How often time or memory did not suffice."""
        return self.endings[AttemptEnding.HUNG] + self.endings[AttemptEnding.OUT_OF_MEMORY]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def spawn(self, actor: str, subtask: int, generation: int) -> Sink:
        """A new attempt that knows nothing; `open` follows."""

    def adopt(self, attempt: AnyAttempt, *, generation: int) -> AnyAttempt:
        attempt.generation = generation
        self.living.append(attempt)
        return attempt

    def kill(self, sink: Sink) -> None:
        """The engine's order: nothing of the attempt runs any more when this returns."""
        assert isinstance(sink, ProcessAttempt)
        self.end(sink)

    def end(self, attempt: ProcessAttempt) -> int:
        known = attempt in self.living
        status = attempt.child.kill()
        if known:
            self.count(status)
            self.forget(attempt)
        return status

    def count(self, status: int) -> None:
        self.kills += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    def forget(self, attempt: ProcessAttempt) -> None:
        """The attempt is dead: its output is kept, its resources are released."""
        if attempt in self.living:
            self.living.remove(attempt)
            attempt.release()

    def terminate(self, sink: Sink, *, calls: int) -> bool:
        """Raises, as the engine does, if it is dead by then."""
        assert isinstance(sink, ProcessAttempt)
        sink.is_ending = True
        sink.terminate(calls)
        return True

    def look_for_handlers(self, attempt: ProcessAttempt) -> None:
        if self.looks_for_handlers and not self.handles_sigterm:
            self.handles_sigterm = handles(attempt.pid, signal.SIGTERM)

    def retire(self, sink: Sink) -> None:
        """The attempt was cancelled and has answered its last call: it exits by itself, and is reaped by `close`."""
        assert isinstance(sink, ProcessAttempt)
        if sink in self.living:
            sink.hang_up()
            self._leaving.append(sink)

    def vacate(self, sink: Sink) -> None:
        """Ends the process: only some hosts can use it for the next attempt."""
        assert isinstance(sink, ProcessAttempt)
        self.end(sink)

    def suspended_at(self) -> str:
        """The point at which one is suspended; empty: none is."""
        return next((attempt.armed[0] for attempt in self.suspended if attempt.armed is not None), "")

    def resume_suspended(self) -> bool:
        """Early, because another attempt may wait for a lock of theirs. Returns whether there was one."""
        attempts, self.suspended = self.suspended, []
        self.resumed_early |= bool(attempts)
        for attempt in attempts:
            if attempt.hangs:
                self.end(attempt)
            else:
                attempt.is_waited_for = True
                attempt.resume_here()
                self.at_work.append(attempt)
        return bool(attempts)

    def zombies_of(self, waiting: ProcessAttempt) -> list[ProcessAttempt]:
        """Attempts that live although this one, or another one of its generation, has replaced them."""
        older = (each for each in self.living if each.generation < waiting.generation and not each.is_ending)
        return [each for each in older if each not in self.suspended and each not in self._leaving]

    def end_zombies_of(self, waiting: ProcessAttempt) -> bool:
        """An attempt waits, but for no suspended one: a zombie may hold a lock as long as it lives, and is ended some
        time. Returns whether there was one.
        """
        zombies = self.zombies_of(waiting)
        for attempt in zombies:
            attempt.is_ending = True
            attempt.child.kill()
        return bool(zombies)

    def resume_before(self, pausing: ProcessAttempt) -> None:
        """Called when an attempt pauses: earlier pauses end first, as they would on a clock. A zombie that it, or
        another one of its generation, has replaced does at that moment what it was about to do.
        """
        for attempt in [each for each in self.suspended if each.goes_on_before(pausing)]:
            self.suspended.remove(attempt)
            attempt.resume_here()
            attempt.await_reply_briefly()

    def reap(self) -> None:
        """Kills retired attempts that have not exited yet; such kills do not count."""
        for attempt in self._leaving:
            attempt.child.kill()
            self.forget(attempt)
        self._leaving.clear()

    def close(self) -> None:
        """Kills every attempt that is left; such kills do not count."""
        for attempt in list(self.living):
            attempt.child.kill()
            self.forget(attempt)
