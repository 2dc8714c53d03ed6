"""Every ordered pair of faults: the second is injected at each point that is passed after the first.

First come the pairs of deaths, zombies and errors at the steps of the protocol; then all others. Second faults come in
the order of the run, a few of each first fault in turn, because the budget may end at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.fault_sites import places

BATCH: Final = 4  # second faults taken from each first fault in turn


@dataclass(frozen=True, slots=True)
class PairScope:
    """Which pairs are in the bound. `effects`: also at the points before each effect on a file."""

    description: str
    kinds: tuple[str, ...]
    effects: bool

    def covers(self, point: str) -> bool:
        return not is_line(point) and (self.effects or not point.startswith("file."))


AT_STEPS: Final = PairScope(
    "of deaths, crashes of the whole job, zombies and errors at protocol steps",
    ("kill", "kill-job", "stop", "error"),
    effects=False,
)
AT_NAMED_POINTS: Final = PairScope(
    "of faults at named points, with effects on files, lost messages and declined votes",
    (*AT_STEPS.kinds, "decline", "lose"),
    effects=True,
)


class FaultPairs:
    """The pairs of one scope. `run`: a run of one schedule; `can_inject`: whether a fault can be injected here.
    `in_bound` counts the pairs known so far, `tried` those that were run.
    """

    def __init__(
        self,
        scope: PairScope,
        run: Callable[[Schedule], RunResult],
        *,
        can_inject: Callable[[Fault], bool] = lambda fault: True,
    ) -> None:
        self.scope, self.run, self.can_inject = scope, run, can_inject
        self.in_bound, self.tried = 0, 0

    def rounds(self, baseline: RunResult) -> Iterator[list[Schedule]]:
        """A few pairs of each first fault, again and again until there are none."""
        firsts = [
            fault
            for kind in self.scope.kinds
            for fault in places(baseline, kind)
            if self.scope.covers(fault.point) and self.can_inject(fault)
        ]
        queues = [(first, self._seconds(first)) for first in firsts]
        while queues:
            left, pairs = [], []
            for first, seconds in queues:
                taken = list(islice(seconds, BATCH))
                pairs += [Schedule((first, second)) for second in taken]
                left += [(first, seconds)] if len(taken) == BATCH else []
            yield pairs
            queues = left

    def _seconds(self, first: Fault) -> Iterator[Fault]:
        """The first fault is run when its first pair is requested."""
        result = self.run(Schedule((first,)))
        found = [fault for fault in faults_after(result, first, self.scope) if self.can_inject(fault)]
        self.in_bound += len(found) if result.fired else 0
        yield from found if result.fired else ()

    def summary(self, *, is_done: bool) -> str:
        """The coverage, as a note."""
        if is_done:
            return f"{self.in_bound:,} ordered pairs {self.scope.description}: all were run"
        known = f"at least {self.in_bound:,} ordered pairs {self.scope.description}"
        return f"{known}: {self.tried:,} were run before the budget ended"


def faults_after(result: RunResult, first: Fault, scope: PairScope) -> Iterator[Fault]:
    """The faults that can be injected after the first one, in the order of the run."""
    seen: Counter[tuple[int, str]] = Counter()
    injected = False
    for place in result.trace:
        seen[place] += 1
        actor, point = result.names[place[0]], place[1]
        if injected and scope.covers(point):
            kinds = [kind for kind in scope.kinds if KINDS[kind].applies(actor, point)]
            yield from (Fault(actor, point, seen[place], kind) for kind in kinds)
        injected = injected or (actor, point, seen[place]) == (first.actor, first.point, first.occurrence)
