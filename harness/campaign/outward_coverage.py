"""Which system calls change something outside of a sink, and at which of them did each kind of fault strike?

A campaign kills a command before each outward call of the run without faults, and then before each call that the
recovery from such a death makes while it opens. Recoveries with the same calls are struck once before the last
decision, and once after it. Of a sink in Python, only calls that no line explains are looked at (native_calls.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import is_system_call
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.fault_sites import SINK, last_decision, passes
from sinkproof.generators.native_calls import kills_in_native_code, unexplained
from sinkproof.reports.document import OutwardCalls, PowerLosses

VOID_TIMES: Final = 2  # if a call of a recovery is not met twice, another subtask may make it first
KINDS_AT_OUTWARD_CALLS: Final = ("kill", "stop", "pause", "error", "land", "unanswered")
LEFT_LISTED_MOST: Final = 3
# Threads of native code may make other calls in the next run: a tenth may stay unstruck, as of lines.
UNSTRUCK_MOST: Final = 0.1
ELSEWHERE_LISTED_MOST: Final = 5


@dataclass(slots=True)
class OutwardCoverage:
    is_native: bool = False  # of a sink in Python
    edges: list[Schedule] = field(default_factory=list)  # of `calls` of native code: must have been struck
    calls_alike: int = 0  # of native code, in the run without faults: equal to others that are struck
    own_modules: list[str] = field(default_factory=list)  # native ones of the sink's own
    calls: dict[Schedule, bool] = field(default_factory=dict)  # a kill before each of them -> whether it was done
    recoveries: dict[Schedule, bool] = field(default_factory=dict)  # a second kill, before a call of the recovery
    alike: set[tuple[object, ...]] = field(default_factory=set)  # recoveries that were taken
    passed: set[str] = field(default_factory=set)  # in any run
    void: Counter[Schedule] = field(default_factory=Counter)  # kills in recoveries that did not make the call again
    by_kind: dict[str, set[str]] = field(default_factory=lambda: {kind: set() for kind in KINDS_AT_OUTWARD_CALLS})
    unseen: dict[str, None] = field(default_factory=dict)  # why changes may have been missed
    elsewhere: dict[str, None] = field(default_factory=dict)  # names of what a command changes outside of its folder
    kept_elsewhere: dict[str, None] = field(default_factory=dict)  # paths of it that other runs find
    peers: Sequence[str] = ()  # addresses to which it connects, in the run with most: each may have a server of its own
    unwatched: str = ""  # why no call was watched

    def add(self, result: RunResult) -> None:
        schedule = result.schedule
        self.unseen |= dict.fromkeys(result.unseen)
        self.unwatched = self.unwatched or result.unwatched
        self.peers = max(self.peers, tuple(dict.fromkeys(result.peers)), key=len)
        if not self.is_native:
            self.elsewhere |= dict.fromkeys(result.elsewhere)
            self.kept_elsewhere |= dict.fromkeys(result.kept_elsewhere)
            self.passed |= {point for _, point in result.trace if is_system_call(point)}
        for fault in result.struck:
            if is_system_call(fault.point) and not KINDS[fault.kind].is_power_loss:
                self.by_kind.setdefault(fault.kind, set()).add(fault.point)
        if schedule == Schedule() and not self.calls:
            found = kills_in_native_code(result) if self.is_native else kills(result)
            self.calls = {Schedule((kill,)): False for kill in found}
            if self.is_native:
                self.edges = [Schedule((kill,)) for kill in kills_in_native_code(result, edges=True)]
                self.calls_alike = len(unexplained(result)) - len(found)
        if schedule in self.recoveries and schedule.faults[0] in result.struck:
            self.void[schedule] += not result.fired
        if not result.fired:
            return
        if schedule in self.calls:
            self.calls[schedule] = True
            self._add_recovery(result)
        elif schedule in self.recoveries:
            self.recoveries[schedule] = True

    def _add_recovery(self, result: RunResult) -> None:
        found = recovery_kills(result)
        if self.is_native:
            of_native = unexplained(result)
            found = [fault for fault in found if (fault.actor, fault.point, fault.occurrence) in of_native]
        is_last = any(point == result.schedule.faults[0].point for _, point in result.trace[last_decision(result) :])
        what = is_last, tuple((fault.actor, fault.point) for fault in found)
        if what not in self.alike:
            self.alike.add(what)
            self.recoveries |= {
                replace(result.schedule, faults=(*result.schedule.faults, fault)): False for fault in found
            }

    def left(self) -> list[Schedule]:
        """Kills that have not been tried, or have not found their place; but those in a recovery that did not make the
        call again, of which another one was killed before a call of that name.
        """
        left = [schedule for schedule, done in (*self.calls.items(), *self.recoveries.items()) if not done]
        return [schedule for schedule in left if not self._is_made_elsewhere(schedule)]

    def _is_made_elsewhere(self, schedule: Schedule) -> bool:
        return self.void[schedule] >= VOID_TIMES and schedule.faults[-1].point in self.by_kind["kill"]

    def names_left(self, kind: str) -> list[str]:
        """Names of calls of the run without faults at which this kind applies and did not strike."""
        names = dict.fromkeys(schedule.faults[0].point for schedule in self.calls)
        return [name for name in names if KINDS[kind].applies(SINK, name) and name not in self.by_kind[kind]]

    def never_struck(self) -> list[str]:
        """Names that any run has passed, at which nothing but a pause struck."""
        return sorted(self.passed.difference(*(names for kind, names in self.by_kind.items() if kind != "pause")))

    def is_enough(self) -> bool:
        if self.is_native:
            return len(self._edges_left()) <= UNSTRUCK_MOST * len(self.edges)
        return not (self.left() or self.never_struck() or any(map(self.names_left, KINDS_AT_OUTWARD_CALLS)))

    def document(self) -> OutwardCalls | None:
        """None: nothing was to be watched, or native code makes no call that a line does not explain, and no server is
        connected to.
        """
        if not (self.passed or self.calls or self.peers or self.unwatched or (self.unseen and not self.is_native)):
            return None
        names = {schedule.faults[0].point for schedule in self.calls}
        left = self._left_of_native() if self.is_native else self._left_of_command(names)
        return OutwardCalls(
            calls=len(self.calls),
            killed=sum(self.calls.values()),
            recovery_calls=len(self.recoveries),
            recovery_killed=sum(self.recoveries.values()),
            names=sorted(names),
            struck={kind: len(points) for kind, points in self.by_kind.items()},
            left=left[:LEFT_LISTED_MOST],
            left_total=len(left),
            unseen=list(self.unseen),
            elsewhere=list(self.elsewhere)[:ELSEWHERE_LISTED_MOST],
            kept_elsewhere=list(self.kept_elsewhere)[:ELSEWHERE_LISTED_MOST],
            peers=list(self.peers)[:ELSEWHERE_LISTED_MOST],
            unwatched=self.unwatched,
            native=self.is_native,
            calls_alike=self.calls_alike,
            native_modules=self.own_modules,
        )

    def _left_of_native(self) -> list[str]:
        """Nothing, if enough was killed: a thread makes other calls each time."""
        return [] if self.is_enough() else list(map(str, self._edges_left()))

    def _edges_left(self) -> list[Schedule]:
        return [schedule for schedule in self.edges if not self.calls[schedule]]

    def _left_of_command(self, names: set[str]) -> list[str]:
        left = [str(schedule) for schedule in self.left()]
        for kind in KINDS_AT_OUTWARD_CALLS:
            left += [f"{SINK}.{name}#1={kind}" for name in self.names_left(kind)]
        return left + [f"{SINK}.{name}#1=kill" for name in self.never_struck() if name not in names]


@dataclass(slots=True)
class PowerCoverage:
    """Losses of power without the contract's help, at places of the run without faults."""

    losses: dict[Schedule, bool] = field(default_factory=dict)  # -> whether it struck
    took: int = 0  # runs in which something was gone
    mapped: dict[str, None] = field(default_factory=dict)  # files that the loss found mapped, and that were used again
    unwatched: str = ""

    def add(self, result: RunResult) -> None:
        if result.schedule in self.losses and result.fired:
            self.losses[result.schedule] = True
            self.took += bool(result.power_took)
            self.mapped |= dict.fromkeys(result.mapped_across_losses)

    def left(self) -> list[Schedule]:
        return [schedule for schedule, done in self.losses.items() if not done]

    def document(self) -> PowerLosses | None:
        """None: the contract offers its own, or does not claim to survive them."""
        if not (self.losses or self.unwatched):
            return None
        return PowerLosses(
            losses=len(self.losses),
            struck=sum(self.losses.values()),
            took=self.took,
            kinds=sorted({schedule.faults[-1].kind for schedule in self.losses}),
            left=[str(schedule) for schedule in self.left()][:LEFT_LISTED_MOST],
            mapped=list(self.mapped),
            unwatched=self.unwatched,
        )


def kills(baseline: RunResult) -> Sequence[Fault]:
    """Before each outward call of a run; those with a new name first, then each second one of a name, and so on."""
    turns: dict[str, int] = {}
    found: list[tuple[int, Fault]] = []
    for actor, point, occurrence in passes(baseline):
        if is_system_call(point):
            turns[point] = turn = turns.get(point, 0) + 1
            found.append((turn, Fault(actor, point, occurrence, "kill")))
    return [fault for _, fault in sorted(found, key=lambda each: each[0])]


def recovery_kills(result: RunResult) -> Sequence[Fault]:
    """Before each outward call that an attempt makes while it opens, after the only fault of this run."""
    struck = result.schedule.faults[0]
    opening: set[str] = set()
    found: list[Fault] = []
    is_over = False
    for actor, point, occurrence in passes(result):
        if (actor, point, occurrence) == (struck.actor, struck.point, struck.occurrence):
            is_over = True
        elif point == "open.before":
            opening.add(actor)
        elif point == "open.after":
            opening.discard(actor)
        elif is_over and actor in opening and is_system_call(point):
            found.append(Fault(actor, point, occurrence, "kill"))
    return found
