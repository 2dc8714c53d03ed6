"""Remembers which schedules reach points without an injected fault, and decides when a campaign may end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from sinkproof.campaign.coverage import Coverage, ways_to_fail
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult

WAYS_MOST: Final = 4  # several ways to a point are kept: a recovery depends on the moment, and may not lead there again


class ReachingSchedule(NamedTuple):
    """Leads to a point: faults after which an actor passes it, and a kill there."""

    before: Schedule
    last: Fault

    @property
    def schedule(self) -> Schedule:
        return replace(self.before, faults=(*self.before.faults, self.last))


@dataclass(slots=True)
class Steering:
    reaching: dict[str, list[ReachingSchedule]] = field(default_factory=dict)  # to points without an injected fault
    unreproducible: set[Schedule] = field(default_factory=set)  # they led to a point once, and not again
    required_stages_done: bool = False
    budget_ends: Deadline | None = None  # of a budget that holds
    on_hosts: bool = False  # that this certification has started, and breaks
    deferred_to_processes: str = ""  # why the simulated shell leaves deaths of this sink to the process shell

    def note(self, result: RunResult, coverage: Coverage) -> None:
        """For each point without an injected fault, remembers up to four shortest schedules that reach it."""
        if not result.fired:
            self._drop_schedule(result)
            return
        length = len(result.schedule.faults)
        for actor, point in dict.fromkeys(result.trace):
            if coverage.examined(point):
                continue
            ways = self.reaching.setdefault(point, [])
            if len(ways) == WAYS_MOST and len(ways[-1].before.faults) <= length:
                continue
            if any(way.before == result.schedule for way in ways):
                continue
            way = ReachingSchedule(result.schedule, Fault(result.names[actor], point, 1, "kill"))
            if way.schedule not in self.unreproducible:
                ways.append(way)
                ways.sort(key=lambda way: len(way.before.faults))
                del ways[WAYS_MOST:]

    def _drop_schedule(self, result: RunResult) -> None:
        """Drops a schedule that did not reach its last point: a recovery may depend on the state of a broker."""
        point = result.schedule.faults[-1].point
        self.unreproducible.add(result.schedule)
        self.reaching[point] = [way for way in self.reaching.get(point, ()) if way.schedule != result.schedule]

    def to_lines_without(self, kind: str, coverage: Coverage) -> list[Schedule]:
        """Schedules that lead to executed lines at which this kind was not injected, and inject it there."""
        left = sorted(coverage.lines_passed - coverage.lines_by_kind[kind])
        ways = [self.reaching[line][0] for line in left if self.reaching.get(line)]
        return [ReachingSchedule(way.before, replace(way.last, kind=kind)).schedule for way in ways]

    def to_calls_without_errors(self, coverage: Coverage) -> list[Schedule]:
        """Schedules that lead to calls to the target which have not failed yet, and let them fail."""
        left = sorted(ways_to_fail(coverage.passed) - coverage.calls_failed)
        ways = [(self.reaching[point][0], kind) for point, kind in left if self.reaching.get(point)]
        return [ReachingSchedule(way.before, replace(way.last, kind=kind)).schedule for way, kind in ways]

    def to_unstruck_points(self, coverage: Coverage) -> list[Schedule]:
        """Schedules that lead to points that were passed without an injected fault, and kill there."""
        points = [*coverage.never_struck(), *coverage.outward.never_struck(), *sorted(coverage.lines_passed)]
        unstruck = [point for point in points if not coverage.examined(point)]
        return [self.reaching[point][0].schedule for point in unstruck if self.reaching.get(point)]
