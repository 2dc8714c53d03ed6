"""What a campaign has run and reached so far. Counts only: nothing here decides what is tried next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from sinkproof.campaign.bounds import LargestRun
from sinkproof.campaign.finding_text import row_of
from sinkproof.campaign.inside_service.inside_coverage import InsideCoverage
from sinkproof.campaign.outward_coverage import OutwardCoverage, PowerCoverage
from sinkproof.campaign.stage import StageCoverage
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.terminate_attempt import CALLS_LEFT
from sinkproof.chaos.points import COORDINATOR_POINTS, is_line, is_system_call
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.fault_sites import KINDS_AT_CALLS, SINK

STEPS_REQUIRED: Final = (
    *(f"{call}.{side}" for call in ("open", "write", "snapshot", "acknowledge") for side in ("before", "after")),
    *(
        f"{call}.{side}"
        for call in ("notify_complete", "notify_aborted", "end_of_input")
        for side in ("before", "after")
    ),
    *COORDINATOR_POINTS,
)
LINES_UNSTRUCK_MOST: Final = 0.1  # a few of the executed lines are passed late only, in recoveries from recoveries
CONCURRENT_READER: Final = "watch"  # beside the fault kinds in `cells`: runs with a concurrent reader
EVERY_STEP: Final = "every step"
NOT_LIKE_KILL: Final = ("pause", "meet", *CALLS_LEFT)  # nothing has died at the point then, or not at once
KIND_AT_LINES: Final = {
    "kill": "kill",
    "kill-job": "kill",
    "stop": "stop",
    "pause": "pause",
}  # what a line must survive
KINDS_AT_LINES: Final = tuple(dict.fromkeys(KIND_AT_LINES.values()))


@dataclass(slots=True)
class Coverage:
    """`struck` and the first three numbers of a cell count what was run; `covered` counts crashes that leave a state
    equal to one from which a run was made.
    """

    runs: int = 0
    joined: int = 0  # of them: ended in a state from which an earlier run had gone on
    kills: int = 0  # counted from wait statuses
    stops: int = 0
    handles_sigterm: bool = False
    rows_committed: int = 0
    readings: int = 0  # of the committed view, while jobs ran
    unfired: list[str] = field(default_factory=list)  # schedules with a fault that did not find its point
    passed: set[str] = field(default_factory=set)  # named points that any actor passed
    in_threads: set[str] = field(default_factory=set)  # passed by threads of the sink, where no crash is simulated
    struck: Counter[str] = field(default_factory=Counter)  # point -> faults injected there
    covered: Counter[str] = field(default_factory=Counter)  # point -> whole-job crashes
    lines_passed: set[str] = field(default_factory=set)
    lines_of_children: set[str] = field(default_factory=set)  # of processes that attempts have forked: none is struck
    lines_known: set[str] = field(default_factory=set)
    lines_by_kind: dict[str, set[str]] = field(default_factory=lambda: {kind: set() for kind in KINDS_AT_LINES})
    lines_killed: set[str] = field(default_factory=set)  # in runs; those "by kind" are covered by equal runs, too
    cells: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # -> runs, fired, with findings, covered
    calls_failed: set[tuple[str, str]] = field(default_factory=set)  # (point, kind) of KINDS_AT_CALLS
    stages: list[StageCoverage] = field(default_factory=list)
    bounds: LargestRun = field(default_factory=LargestRun)
    outward: OutwardCoverage = field(default_factory=OutwardCoverage)  # of commands, and of native code
    power: PowerCoverage = field(default_factory=PowerCoverage)
    inside: InsideCoverage = field(default_factory=InsideCoverage)  # of an external system

    def add(self, result: RunResult) -> None:
        self._ran(result)
        self.handles_sigterm |= result.handles_sigterm
        self.saw({point for _, point in result.trace})
        self.lines_of_children.update(result.lines_of_children)
        if not result.inside:
            self.outward.add(result)
            self.power.add(result)
        for fault in result.struck:
            self.struck[fault.point] += fault.kind not in NOT_LIKE_KILL
            self.stops += fault.kind == "stop"
            self._struck_at_line(fault.point, fault.kind)
            if fault.kind in KINDS_AT_CALLS:
                self.calls_failed.add((fault.point, fault.kind))
        if not result.fired:
            self.unfired.append(str(result.schedule))
        if result.schedule.faults:
            first = result.schedule.faults[0]
            self.count(first.point, first.kind, fired=result.fired, found=bool(result.anomalies))

    def add_untraced(self, result: RunResult) -> None:
        """As `add`, for one of tens of thousands of runs without a trace, in which all faults were injected."""
        self._ran(result)
        for fault in result.struck:
            self.struck[fault.point] += 1
            self.stops += fault.kind == "stop"
            self._struck_at_line(fault.point, fault.kind)
        first = result.schedule.faults[0]
        self.count(first.point, first.kind)

    def _ran(self, result: RunResult) -> None:
        self.runs += 1
        self.joined += result.joined
        if not result.joined:  # else the rest of it, and what was read in the end, is an earlier run's
            self.rows_committed += result.rows_committed
            self.bounds.note(result)
        self.readings += result.readings

    def count(
        self, point: str, kind: str, *, times: int = 1, fired: bool = True, found: bool = False, covered: int = 0
    ) -> None:
        """Counts runs in which this kind was to be injected at this point."""
        cell = self.cells.setdefault((row_of(point), kind), [0, 0, 0, 0])
        cell[0] += times
        cell[1] += times * fired
        cell[2] += times * found
        cell[3] += covered

    def saw(self, points: Iterable[str]) -> None:
        for point in {*points} - self.passed - self.lines_passed:
            if not is_system_call(point):
                (self.lines_passed if is_line(point) else self.passed).add(point)

    def crashed(
        self, points: Mapping[str, int], *, covered: Mapping[str, int], kind: str = "kill-job", found: bool = False
    ) -> None:
        """The whole job was crashed at these points, and run again from what that left. `covered`: crashes there leave
        a state equal to one from which it was run.
        """
        self.struck.update(points)
        self.covered.update(covered)
        for point, times in points.items():
            self.count(point, kind, times=times, found=found)
            self._struck_at_line(point, "kill-job")
        for point, times in covered.items():
            self.count(point, kind, times=0, covered=times)
            if is_line(point):
                self.lines_by_kind["kill"].add(point)

    def examined(self, point: str) -> bool:
        return bool(self.struck[point] or self.covered[point])

    def only_covered(self, points: Iterable[str]) -> list[str]:
        return sorted(point for point in points if self.covered[point] and not self.struck[point])

    def _struck_at_line(self, point: str, kind: str) -> None:
        if kind in KIND_AT_LINES and is_line(point):
            self.lines_by_kind[KIND_AT_LINES[kind]].add(point)
            if KIND_AT_LINES[kind] == "kill":
                self.lines_killed.add(point)

    def read_concurrently(self) -> None:
        self.count(EVERY_STEP, CONCURRENT_READER)

    def never_struck(self) -> list[str]:
        """Protocol steps that were passed, or should have been, and at which no fault was injected."""
        return sorted(point for point in {*self.passed, *STEPS_REQUIRED} - self.in_threads if not self.examined(point))

    def only_in_threads(self) -> list[str]:
        """Named points that only threads of the sink passed: crashes there are for the process shell."""
        return sorted(point for point in self.in_threads & self.passed if not self.examined(point))

    def stage_left_out(self) -> str:
        """The first one that did not come to its end, for no reason but the end of the campaign; empty: none."""
        return next((each.name for each in self.stages if not (each.finished or each.skipped or each.cut)), "")

    def lines_unstruck(self) -> list[str]:
        return sorted(line for line in self.lines_passed if not self.examined(line))

    def enough_lines_struck(self, after_errors: Set[str]) -> bool:
        """Whether each kind has struck nine in ten of the executed lines that it has to strike."""
        struck = self.lines_by_kind
        return not any(
            too_few_struck(lines_to_strike(self.lines_passed, kind, after_errors=after_errors), struck[kind])
            for kind in KINDS_AT_LINES
        )


def lines_to_strike(passed: Set[str], kind: str, *, after_errors: Set[str], of_function: bool = False) -> Set[str]:
    """No schedule has a suspension after an error, or a death of a foreachBatch function there."""
    return passed if kind == "kill" and not of_function else passed - after_errors


def too_few_struck(lines: Set[str], struck: Set[str]) -> list[str]:
    """Those that were not struck; none, if they are a tenth at most."""
    left = sorted(lines - struck)
    return left if len(left) > LINES_UNSTRUCK_MOST * len(lines) else []


def ways_to_fail(points: Iterable[str]) -> set[tuple[str, str]]:
    """Each of them at which calls to the target fail, with each way in which they can."""
    return {(point, kind) for point in points for kind in KINDS_AT_CALLS if KINDS[kind].applies(SINK, point)}
