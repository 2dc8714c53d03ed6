"""Which outward calls does an external system make for a commit, and for a restart after a kill? Which were struck?

A call has a *step* (the sink's call that led to it), a point, and an occurrence in that call. It is struck in the first
window that has it, and in the last one: there no later commit covers up what was lost. Of a restart each different call
is struck the first time and the last, then the others: partitions are recovered one after the other, in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.chaos.services.inside_run import RESTART, is_inside_service
from sinkproof.execution.run_result import RunResult
from sinkproof.reports.watched_calls import InsideService

Call = tuple[str, str, int]  # step, point, occurrence in one window
COMMITS: Final = "notify_complete"
RECOVERS: Final = "open"
CHAINED_MOST: Final = 5
WAYS_MOST: Final = 4
LEFT_LISTED_MOST: Final = 3
NOT_BACK_LISTED_MOST: Final = 3


@dataclass(slots=True)
class InsideCoverage:
    service: str = ""  # its title and version
    settings: Sequence[str] = ()  # of its nodes, where they differ from the usual
    unwatched: str = ""  # why nothing could be struck
    calls: dict[Call, list[Schedule]] = field(default_factory=dict)  # kills before it: the first window, and the last
    restart: dict[Call, list[Schedule]] = field(default_factory=dict)  # kills before it: runs that had it
    struck: set[Schedule] = field(default_factory=set)
    not_back: dict[Schedule, str] = field(default_factory=dict)  # it did not start again after these kills; a sentence
    background: Collection[str] = ()
    unseen: Sequence[str] = ()
    cut: str = ""

    def add_recording(self, result: RunResult) -> None:
        """A run in which nothing was killed inside. One with a death of the job shows how recoveries open; calls that
        an earlier recording has are known.
        """
        known = set(self.calls)
        windows = [each for each in result.inside if not result.schedule.faults or each.step == RECOVERS]
        for window in windows:
            kills = [fault for fault in window.kills() if fault.point not in self.background]
            for fault in kills:
                call = window.step, fault.point, fault.occurrence
                if call not in known:
                    self.calls.setdefault(call, []).append(_with(result.schedule, fault))

    def add(self, result: RunResult) -> bool:
        """A run in which the service was to be killed. Whether it was."""
        if result.fired:
            self.struck.add(result.schedule)
        return result.fired

    def add_chain(self, kills: Sequence[Schedule], result: RunResult) -> list[Schedule]:
        """Of a run of `chained(kills)`. Returns those that were not struck: from the first one on that was not met."""
        died = sum(map(is_inside_service, result.struck))
        self.struck |= {*kills[: max(0, died - 1)]}
        return [*kills[max(0, died - 1) :]]

    def add_restarts(self, results: Sequence[RunResult]) -> None:
        """Of runs with one kill each: restarts after a kill within a commit first."""
        struck = [result for result in results if result.fired]
        for result in sorted(struck, key=lambda each: COMMITS not in each.schedule.faults[-1].actor):
            first = [window for window in result.inside if window.step == RESTART and window.number == 1]
            faults = [fault for window in first for fault in window.kills() if fault.point not in self.background]
            for fault in faults:
                ways = self.restart.setdefault((RESTART, fault.point, fault.occurrence), [])
                ways += [_with(result.schedule, fault)] if len(ways) < WAYS_MOST else []

    def first_kills(self) -> list[Schedule]:
        """Before each call of a step, in the first window that has it."""
        return [self.calls[call][0] for call in sorted(self.calls, key=lambda call: call[2])]

    def first_restart_kills(self) -> list[Schedule]:
        """Before each different call of a restart."""
        return [ways[0] for (_, _, occurrence), ways in self.restart.items() if occurrence == 1]

    def other_ways(self) -> Iterator[Sequence[Schedule]]:
        """To calls of a restart that did not come again on the first one: what a restart finds depends on time, too."""
        yield from (self.restart[call][1:] for call in self.calls_left() if call in self.restart)

    def further_kills(self) -> list[Schedule]:
        """In the last windows."""
        return [ways[-1] for ways in self.calls.values() if len(ways) > 1]

    def further_restart_kills(self) -> list[Schedule]:
        """At the last occurrences in a restart; then at the others."""
        last = {point: occurrence for _, point, occurrence in sorted(self.restart, key=lambda call: call[2])}
        repeated = sorted(self.restart, key=lambda call: (call[2] != last[call[1]], call[2]))
        return [self.restart[call][0] for call in repeated if call[2] > 1]

    def calls_left(self) -> list[Call]:
        """The first occurrence of those that were not struck at any. How often a broker writes depends on time, too."""
        ways = {**self.calls, **self.restart}
        done = self.struck.union(self.not_back)
        struck = {call[:2] for call, of_call in ways.items() if not done.isdisjoint(of_call)}
        return [call for call in ways if call[2] == 1 and call[:2] not in struck]

    def document(self) -> InsideService | None:
        """None: it was not to be killed inside."""
        if not (self.service or self.unwatched):
            return None
        left = self.calls_left()
        steps = dict.fromkeys(step for step, _, _ in self.calls)
        return InsideService(
            service=self.service,
            settings=self.settings,
            calls=len(self.calls),
            killed=sum(not self.struck.isdisjoint(ways) for ways in self.calls.values()),
            steps={step: sum(each == step for each, _, _ in self.calls) for step in steps},
            names=sorted({f"{step}: {point}" for step, point, _ in self.calls}),
            restart_calls=len(self.restart),
            restart_killed=sum(not self.struck.isdisjoint(ways) for ways in self.restart.values()),
            restart_names=sorted({point for _, point, _ in self.restart}),
            background=sorted(self.background),
            unseen=list(self.unseen),
            left=[f"{step}: {point}#{occurrence}" for step, point, occurrence in left[:LEFT_LISTED_MOST]],
            left_total=len(left),
            not_back=list(self.not_back.values())[:NOT_BACK_LISTED_MOST],
            not_back_total=len(self.not_back),
            unwatched=self.unwatched,
        )


def chained(kills: Sequence[Schedule]) -> Schedule:
    """One run with all of these kills in restarts after the same first one, each in the restart after the other."""
    first = kills[0]
    faults = [replace(each.faults[-1], actor=f"service-{RESTART}[{number}]") for number, each in enumerate(kills, 1)]
    return replace(first, faults=(*first.faults[:-1], *faults))


def in_chains(kills: Sequence[Schedule]) -> Iterator[list[Schedule]]:
    """Those with the same beginning together, CHAINED_MOST at a time."""
    for _, alike in groupby(sorted(kills, key=_beginning), key=_beginning):
        same = list(alike)
        yield from (same[at : at + CHAINED_MOST] for at in range(0, len(same), CHAINED_MOST))


def _beginning(schedule: Schedule) -> tuple[Fault, ...]:
    return schedule.faults[:-1]


def _with(schedule: Schedule, fault: Fault) -> Schedule:
    return replace(schedule, faults=(*schedule.faults, fault))
