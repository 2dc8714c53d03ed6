"""Every ordered pair of faults at named points: the second one wherever somebody passes after the first has struck.
First come the pairs of deaths, zombies and errors at the steps of the protocol; then all others.

Pairs that cannot differ are run once and counted as equal:

- when everything that a first fault has left is the same as after another one (run_memo.py), what strikes later strikes
  both alike. Deaths between which nothing has happened leave the same at once, and so does an error that ends its
  attempt without any further effect;
- a second death where nothing has happened since the place before leaves the same as there; who stops between the same
  two requests to the target meets the same when it goes on (equivalent_faults.py);
- a second crash of the whole job where all that is durable is as it was at another such crash, whatever came before;
- a sleeper that is buried with the next death, because its stack lies below, is as dead as if it had been killed.

The most telling come first: second faults that strike while the job still recovers from the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.exploration.equivalent_faults import DEATHS, is_equivalent, left_by_deaths, missed_by_sleepers
from sinkproof.exploration.run_memo import MemoizedRuns
from sinkproof.exploration.run_state import JoinPoint
from sinkproof.generators.fault_sites import places

BATCH: Final = 4  # second faults taken from each first one before the next is asked: a budget may end at any time


@dataclass(frozen=True, slots=True)
class PairScope:
    """Which pairs are meant. `effects`: also those before each effect on a file."""

    told: str
    kinds: tuple[str, ...]
    effects: bool

    def covers(self, point: str) -> bool:
        return not is_line(point) and (self.effects or not point.startswith("file."))

    def holds(self, fault: Fault) -> bool:
        return fault.kind in self.kinds and self.covers(fault.point)


AT_STEPS: Final = PairScope(
    "of deaths, crashes of the whole job, zombies and errors at protocol steps",
    (*DEATHS, "stop", "error"),
    effects=False,
)
AT_NAMED_POINTS: Final = PairScope(
    "of faults at named points, with effects on files, lost messages and refused votes",
    (*AT_STEPS.kinds, "decline", "lose"),
    effects=True,
)


@dataclass(slots=True)
class SecondFaults:
    """What may strike after one first fault."""

    first: Fault
    near: list[Fault]  # while the job recovers
    far: list[Fault]
    join_point: JoinPoint | None
    in_bound: int = 0  # all that may strike, equal or not
    window: Sequence[tuple[Any, ...]] = ()  # what was passed, and what had happened by then, until the crossing
    crashes: set[int] = field(default_factory=set)  # numbers of what its crashes of the whole job leave


class FaultPairs:
    """Counts and runs them. `may`: whether a fault can be shown in this process; `after`: which were run before."""

    def __init__(
        self,
        memo: MemoizedRuns,
        bound: PairScope,
        *,
        may: Callable[[Fault], bool] = lambda fault: True,
        after: FaultPairs | None = None,
    ) -> None:
        self.memo, self.bound, self.may = memo, bound, may
        self.in_bound, self.equal, self.run = 0, 0, 0
        self.done = after.bound if after is not None else None
        # What crashes of the whole job leave that are among the pairs.
        self.crashes: set[int] = set(after.crashes) if after is not None else set()

    def firsts(self, baseline: RunResult) -> list[Fault]:
        """All that may strike first."""
        faults = (fault for kind in self.bound.kinds for fault in places(baseline, kind))
        return [fault for fault in faults if self.bound.holds(fault) and self.may(fault)]

    def prepare(self, firsts: Sequence[Fault], *, go_on: Callable[[], bool] = lambda: True) -> list[SecondFaults]:
        """What may follow each first fault; `in_bound` counts all of it, `equal` what need not be run."""
        baseline = self.memo.run(Schedule(), marked=True)
        marks, like = self.memo.marks, dict[Any, SecondFaults]()
        left = {**left_by_deaths(baseline, marks), **missed_by_sleepers(baseline, marks)}
        shared: set[int] = set()
        rests = []
        for first in firsts:
            if not go_on():
                break
            known = like.get(left.get(first))
            rest = self._rest(first) if known is None else known
            self.in_bound += rest.in_bound
            self.equal += rest.in_bound - len(rest.near) - len(rest.far)
            dead = like.get(left.get(replace(first, kind="kill")))
            if known is not None or (first.kind == "stop" and is_source(first)) or is_as_dead(rest, dead):
                self.equal += len(rest.near) + len(rest.far)
                continue
            if first in left and rest.window:
                like[left[first]] = replace(rest)
            if rest.join_point is not None and rest.far:
                self.equal += len(rest.far) if id(rest.join_point) in shared else 0
                rest.far = [] if id(rest.join_point) in shared else rest.far
                shared.add(id(rest.join_point))
            self.crashes |= rest.crashes
            rests.append(rest)
        return rests

    def _rest(self, first: Fault) -> SecondFaults:
        run_result = self.memo.run(Schedule((first,)), marked=True)
        crossed, join_point = self.memo.crossed or (len(run_result.trace), None)
        rest = SecondFaults(first, [], [], join_point)
        if not run_result.fired:
            return rest
        woke, marks = self.memo.woke_at, self.memo.marks
        struck = place_of(first, run_result)
        rest.window = [
            (place, mark.sent, mark.left)
            for place, mark in zip(run_result.trace[struck + 1 : crossed], marks[struck + 1 : crossed], strict=False)
        ]
        done = self.done if self.done is not None and self.done.holds(first) else None
        here = before = struck
        for at, fault in places_after(run_result, first, self.bound):
            here, before = at, (before if at == here else here)
            if not self.may(fault):
                continue
            rest.in_bound += 1
            if done is not None and done.holds(fault):
                continue
            buried = first.kind == "stop" and at < woke and fault.kind in DEATHS and fault.actor != COORDINATOR
            if buried or (fault.kind == "stop" and is_source(fault)):
                continue
            if is_equivalent(fault, marks, at=at, before=before):
                continue
            if fault.kind == "kill-job" and at < len(marks) and not self._is_new(marks[at].left, rest):
                continue
            if at < crossed if join_point is not None else at < woke:
                rest.near.append(fault)
            else:
                rest.far.append(fault)
        return rest

    def _is_new(self, left: int | None, rest: SecondFaults) -> bool:
        """Whether no crash of the whole job that is among the pairs has left the same."""
        if left is None:
            return True
        if left in self.crashes or left in rest.crashes:
            return False
        rest.crashes.add(left)
        return True

    def schedules(self, rests: Sequence[SecondFaults]) -> Iterator[Schedule]:
        """All that must be run, a few of each first fault in turn."""
        for part in ("near", "far"):
            queues = [(rest.first, iter(getattr(rest, part))) for rest in rests]
            while queues:
                left = []
                for first, seconds in queues:
                    taken = [second for _, second in zip(range(BATCH), seconds, strict=False)]
                    yield from (Schedule((first, second)) for second in taken)
                    left += [(first, seconds)] if len(taken) == BATCH else []
                queues = left

    def summary(self) -> str:
        """The coverage, as a note."""
        to_run = self.in_bound - self.equal
        said = f"{self.in_bound:,} ordered pairs {self.bound.told}: {self.equal:,} cannot differ from others; "
        return said + f"of the other {to_run:,}, {'all' if self.run >= to_run else f'{self.run:,}'} were run"


def is_as_dead(rest: SecondFaults, dead: SecondFaults | None) -> bool:
    """Whether this error has ended its attempt, and nothing else has happened than after a death at the same place."""
    if dead is None or rest.first.kind != "error":
        return False
    known = all(left is not None for _, _, left in rest.window)
    return known and rest.join_point is dead.join_point and rest.window == dead.window


def is_source(fault: Fault) -> bool:
    """Who stops and goes on is as good as dead: what it sends then bears its old generation, and nobody hears it."""
    return fault.actor.startswith("source")


def place_of(fault: Fault, run_result: RunResult) -> int:
    """Where in the trace it strikes."""
    place, left = (run_result.names.index(fault.actor), fault.point), fault.occurrence
    at = -1
    for _ in range(left):
        at = run_result.trace.index(place, at + 1)
    return at


def places_after(run_result: RunResult, first: Fault, bound: PairScope) -> Iterator[tuple[int, Fault]]:
    """(index in the trace, fault) for whatever can strike once the first fault has."""
    seen: Counter[tuple[int, str]] = Counter()
    struck = False
    for at, place in enumerate(run_result.trace):
        seen[place] += 1
        actor, point = run_result.names[place[0]], place[1]
        if struck and bound.covers(point):
            kinds = [kind for kind in bound.kinds if KINDS[kind].applies(actor, point)]
            yield from ((at, Fault(actor, point, seen[place], kind)) for kind in kinds)
        struck = struck or (actor, point, seen[place]) == (first.actor, first.point, first.occurrence)
