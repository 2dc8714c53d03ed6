"""Attempts under the watch of their outward system calls: struck there, with the calls reported as points.

A command is watched from its first instruction on, a sink in Python where a run asks for it (process_host.py).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.kill_halfway import KILL_HALFWAY
from sinkproof.chaos.faults.meet_requests import MEET
from sinkproof.chaos.faults.overlap_requests import OVERLAP
from sinkproof.chaos.points import is_system_call
from sinkproof.chaos.processes.spawn import ChildProcess, ForkServer
from sinkproof.chaos.system_calls.acts import Act
from sinkproof.chaos.system_calls.carried_out import hang_up_all
from sinkproof.chaos.system_calls.place_names import canonical_name, is_temporary_file, kept
from sinkproof.chaos.system_calls.supervisor import PassedCall, Record, SystemCallWatch
from sinkproof.chaos.system_calls.waiting_request import WaitingRequest
from sinkproof.chaos.system_calls.watched_program import NotWatched, watch_of
from sinkproof.reference_engine.shells.process.attempt_child import DEADLY, SUSPENDING
from sinkproof.reference_engine.shells.process.attempt_host import AttemptHost, ProcessAttempt
from sinkproof.reference_engine.shells.process.overseer import Armed

ACTS: Final = {  # what the watch does at an outward call, by kind of fault
    **dict.fromkeys((*DEADLY, *(word for word, kind in KINDS.items() if kind.is_power_loss)), Act.KILL),
    **dict.fromkeys((*SUSPENDING, "land"), Act.HOLD),
    OVERLAP.word: Act.OVERLAP,
    MEET.word: Act.MEET,
    KILL_HALFWAY.word: Act.KILL_HALFWAY,
    "error": Act.FAIL,
    "kill-program": Act.KILL_CALLER,
    "unanswered": Act.LOSE_REPLY,
    "silent": Act.SILENCE,
    "black-hole": Act.SWALLOW,
    "refused-statement": Act.REFUSE,
    "lock-timeout": Act.TIME_OUT,
    "short-write": Act.CUT,
}


def act_of(armed: Armed | None) -> tuple[str, int, Act] | None:
    """What a watch does: after so many more times at the point. None: it does nothing there, or has done it."""
    if armed is None or armed[1] <= 0 or not is_system_call(armed[0]):
        return None
    point, left, kind = armed
    return (point, left, ACTS[kind]) if kind in ACTS else None


class WatchingHost(AttemptHost):
    """`scratch`: the folder below which changes are outward. `record`: of what is carried out there."""

    def __init__(self, server: ForkServer, scratch: Path, *, record: Record | None = None) -> None:
        super().__init__(server)
        self.scratch, self.record = scratch, record
        self.unwatched = ""  # why system calls of its attempts were not watched
        self.unseen: dict[str, None] = {}  # why the watch may have missed changes
        self.elsewhere: dict[str, bool] | None = None  # paths that attempts changed outside of it: as found?
        self.peers: dict[str, None] = {}  # addresses to which they connected
        self.bound: dict[str, None] = {}  # addresses outside of the folder that they bound
        self.calls_made: Counter[tuple[str, str]] = Counter()  # (actor, point)
        self.apart: set[tuple[str, str, int]] = set()  # those of other threads or processes than the attempt's own
        self.statements: set[tuple[str, str, int]] = set()  # those that send what a database can refuse
        self.idle_connections_end = ""  # see Job
        self.held = WaitingRequest()

    @property
    def names_elsewhere(self) -> tuple[str, ...]:
        """Of what attempts changed outside of their folder, without temporary files."""
        return tuple(canonical_name(path) for path in self.elsewhere or () if not is_temporary_file(path))

    @property
    def kept_elsewhere(self) -> tuple[str, ...]:
        """Paths of it that were found as others have left them, or that a later run may find."""
        return tuple(kept(self.elsewhere or {}))

    def note_call(self, actor: str, call: PassedCall, *, is_apart: bool = False) -> None:
        self.calls_made[actor, call.point] += 1
        place = actor, call.point, self.calls_made[actor, call.point]
        self.apart |= {place} if is_apart else set()
        self.statements |= {place} if call.is_statement else set()

    def watch(self, child: ChildProcess, actor: str, *, marks: Callable[[], int] = int) -> SystemCallWatch | None:
        """From its first call on a fault strikes. None, and why, where the kernel does not offer it."""
        armed = act_of(self.overseer.armed(actor))
        try:
            return watch_of(
                child,
                self.scratch,
                marks=marks,
                record=self.record,
                armed=armed,
                elsewhere=self.elsewhere,
                held=self.held,
            )
        except NotWatched as why:
            self.unwatched = str(why)
            return None


class WatchedAttempt(ProcessAttempt):
    """`watch` is None where this attempt is not watched."""

    host: WatchingHost

    def __init__(
        self,
        host: WatchingHost,
        actor: str,
        child: ChildProcess,
        *,
        replies: int,
        watch: SystemCallWatch | None,
    ) -> None:
        super().__init__(host, actor, child, replies=replies)
        self.watch = watch
        if watch is not None:
            child.end_waits_at(watch.struck)

    def end_watch(self) -> None:
        if self.watch is not None:
            self.report_points()
            self.watch.close()
            self.watch = None

    @abstractmethod
    def report_points(self) -> None:
        """What has been passed since the last time."""

    def note_what_was_missed(self) -> None:
        if self.watch is not None:
            self.host.unseen |= self.watch.unseen
            self.host.peers |= self.watch.names.peers
            self.host.bound |= self.watch.names.bound

    def arm_watch(self) -> None:
        """The next fault of the schedule, if it strikes at an outward call of this attempt."""
        self.armed = self.host.overseer.armed(self.actor)
        armed = act_of(self.armed)
        if self.watch is not None and armed is not None:
            self.watch.arm(*armed)

    def take_strike(self) -> Act | None:
        return self.watch.take_strike() if self.watch is not None else None

    def react(self, strike: Act) -> None:
        """After its points were reported. Returns where the attempt survives."""
        match strike:
            case Act.KILL:
                self.died_at_its_point(self.child.kill())
            case Act.HOLD | Act.OVERLAP | Act.MEET:
                self.suspend()
            case _:
                self.waits_in_vain |= strike in (Act.SILENCE, Act.SWALLOW)
                self.let_go_on()

    def suspend(self) -> None:
        if self.host.idle_connections_end:
            hang_up_all(self.pid, but_last_used=self.host.idle_connections_end == "unused")
        super().suspend()

    def let_go_on(self) -> None:
        """The struck call, and those that wait behind it."""
        assert self.watch is not None
        then_die = self.armed is not None and self.armed[2] == "land"
        self.arm_next()
        self.watch.go_on(then_die=then_die)

    def arm_next(self) -> None:
        """The fault that follows one at a system call."""
        self.arm_watch()
