"""Explores every sequence of crashes of the certifying job, and says what the certificate may claim of it.

A closure starts from the empty target, crashes the job at each point, and repeats this from each new durable state
until there is none. There are four kinds:
1. *plain*: any number of whole-job crashes;
2. *shifted*: the same with checkpoint ids and generations that begin 1, 8 and 97 higher. Each run must pass the same
   states but for names: a sink that sorts ids as text, or tests the parity of a generation, passes others;
3. *ordered*: from each state one run in the usual order, and one in which the last sink subtask is notified first,
   opened first and snapshots first; also after each lost notification and each declined vote. In runs with one crash,
   each of the three steps is reversed alone, too;
4. *mixed*: any number of whole-job crashes, and between two of them at most one partial death or zombie. Checkpoint ids
   are recognisable in texts, and are replaced by their distance from the last one, because deaths use up ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from sinkproof.chaos.canonical_names import FINDABLE_IDS
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.crash_closure import ExploredClosure as Explored
from sinkproof.chaos.schedule import EVERY_STEP, STEPS, Fault
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.equivalent_faults import equivalence_classes
from sinkproof.exploration.job_world import JobState, JobWorld
from sinkproof.exploration.run_memo import Mark, MemoizedRuns
from sinkproof.generators.fault_sites import places
from sinkproof.reports.document import ClosureResult

SHIFTS: Final = (1, 8, 97)  # another parity; ids of two digits behind those of one; ids of three
SENTENCE: Final = "any number of whole-job crashes of this job, in these orders, at fixed time, names opaque (audited)"
MIXED: Final = "whole-job crashes, between two of them at most one partial death or zombie"
MIXED_SECONDS: Final = 60.0  # write-ahead and masked need 5 to 30; two-phase on files does not end in minutes

Close = Callable[..., Explored[JobState]]


class Closures:
    """The closures of one subject. `close` runs one, and raises when the campaign must end; results so far stay in
    `plain`, `ordered` and so on. `may`: whether a fault can be injected in this process.
    """

    def __init__(
        self,
        runner: ScheduleRunner,
        *,
        close: Close,
        may: Callable[[Fault], bool],
        mixed_seconds: float = MIXED_SECONDS,
    ) -> None:
        self.runner, self.close, self.may, self.mixed_seconds = runner, close, may, mixed_seconds
        self.plain: Explored[JobState] | None = None
        self.ordered: Explored[JobState] | None = None
        self.mixed: Explored[JobState] | None = None
        self.shifted: dict[int, Explored[JobState]] = {}
        self.others: dict[str, Explored[JobState]] = {}

    def world(self, **options: Any) -> JobWorld:
        """A world with a memo of its own: a memo ends runs early at states that its own explorer has visited.
        Another explorer has not visited what follows them.
        """
        memo = MemoizedRuns(self.runner) if self.runner.contract.copies else None
        return JobWorld(self.runner, memo=memo, **options)

    def whole_job(self, preludes: Sequence[tuple[Fault, ...]]) -> None:
        """`preludes`: faults that may be injected before the first crash of the ordered closure."""
        for step in STEPS:
            self.close(self.world(order=step), depth_most=1)
        self.close(self.world(), keep=partial(setattr, self, "plain"))
        for shift in SHIFTS:
            self.close(self.world(ids=shift), keep=partial(self.shifted.__setitem__, shift))
        world = self.world(preludes=[(), *preludes], orders=[EVERY_STEP])
        self.close(world, keep=partial(setattr, self, "ordered"))

    def other(self, name: str, world: JobWorld) -> None:
        self.close(world, keep=partial(self.others.__setitem__, name))

    def with_partial_deaths(self) -> None:
        """The mixed closure. Bounded by time: some strategies have hundreds of thousands of runs."""
        deadline = Deadline(self.mixed_seconds)
        world = self.world(ids=FINDABLE_IDS, between=self._between)
        self.close(world, keep=partial(setattr, self, "mixed"), go_on=lambda: not deadline.over)

    def _between(self, run_result: RunResult, marks: Sequence[Mark]) -> list[Fault]:
        """One fault of each class of equivalent deaths and suspensions. Sources are only killed: nothing that a
        suspended source sends later is received, so its suspension equals its death.
        """
        stops = (fault for fault in places(run_result, "stop") if fault.actor.startswith("sink"))
        faults = [fault for fault in (*places(run_result, "kill"), *stops) if self.may(fault)]
        return [first for first, *_ in equivalence_classes(faults, run_result, marks)]

    # -- for the certificate -----------------------------------------------------------------------

    def summary(self) -> ClosureResult | None:
        """None: no closure was run."""
        best = self.ordered or self.plain
        if best is None:
            return None
        why = self._why_not()
        explored = [found for found in (self.plain, self.ordered, *self.shifted.values()) if found is not None]
        return ClosureResult(
            states=best.states,
            complete=not why,
            why=why,
            sentence="" if why else SENTENCE,
            depth=best.depth,
            merges_audited=sum(found.merges_audited for found in explored),
            merges_differing=sum(found.merges_differing for found in explored),
            shifts=tuple(self.shifted),
        )

    def other_summaries(self) -> list[ClosureResult]:
        if self.mixed is None:
            return []
        mixed = self.mixed
        return [ClosureResult(states=mixed.states, complete=mixed.complete, why=mixed.why, of=MIXED, depth=mixed.depth)]

    def _why_not(self) -> str:
        """Why it is not complete; empty if it is."""
        if self.plain is None or not self.plain.complete:
            return self.plain.why if self.plain is not None else "nothing was explored"
        for shift in SHIFTS:
            if shift not in self.shifted:
                return f"the budget ended before ids were shifted by {shift}"
            if why := differs(self.plain, self.shifted[shift]):
                return f"with checkpoint ids and generations shifted by {shift}, {why}"
        if self.ordered is None:
            return "the budget ended before orders of subtasks were branched"
        if not self.ordered.complete:
            return f"with orders of subtasks branched, {self.ordered.why}"
        return next((f"{name}: {found.why}" for name, found in self.others.items() if not found.complete), "")


def differs(plain: Explored[Any], other: Explored[Any]) -> str:
    """Why two explorations are not the same but for names; empty if they are."""
    for number, (walk, again) in enumerate(zip(plain.walks, other.walks, strict=False)):
        if walk != again:
            return f"run {number} passes other states than without: the sink reads numbers inside names"
    return "" if other.complete and len(plain.walks) == len(other.walks) else other.why or "there are other states"
