"""What a campaign in one shell has done and found so far, and the document's view of it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sinkproof.chaos.faults.toxics import TOXICS
from sinkproof.chaos.points import CATALOGUE, COORDINATOR_POINTS, is_line, sentence
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.execution.schedule_runner import RunResult
from sinkproof.judging.oracle import Anomaly
from sinkproof.reports.document import Closure, Event, Finding, Outcome, ShellResult
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.subject.claims import ORACLE_CLAIMS, names
from sinkproof.subject.contract import Contract
from sinkproof.subject.services_in_use import ServicesInUse
from sinkproof.subject.source_files import source_line
from sinkproof.workload.jobs import SENTENCES

FINDINGS_PER_ORACLE_MOST: Final = 6  # different places only: the first of each is also the smallest
ROWS_LISTED_MOST: Final = 50
LINES_UNSTRUCK_MOST: Final = 0.1  # of those executed: a few are passed only late, in recoveries from recoveries
WAYS_MOST: Final = 4  # to a point: what a recovery does may depend on the moment, and one way not lead there again
STEPS_SHOWN: Final = 5  # of whoever was struck, the strike included: enough to say where in the protocol it stood
ORDER: Final = {point: place for place, point in enumerate(CATALOGUE)}  # of the protocol; points of strangers come last
STEPS_REQUIRED: Final = (
    *(f"{call}.{side}" for call in ("open", "write", "snapshot", "acknowledge") for side in ("before", "after")),
    *(
        f"{call}.{side}"
        for call in ("notify_complete", "notify_aborted", "end_of_input")
        for side in ("before", "after")
    ),
    *COORDINATOR_POINTS,
)


class ReachingSchedule(NamedTuple):
    """Leads to a point: faults after which somebody passes it, and a kill there."""

    before: Schedule
    last: Fault

    @property
    def schedule(self) -> Schedule:
        return Schedule((*self.before.faults, self.last), self.before.seed, self.before.job)


@dataclass(slots=True)
class CampaignResults:
    """Counts while schedules run; nothing in it decides."""

    contract: Contract
    shell: str
    progress: Progress = SILENT
    runs: int = 0
    in_bound: int = 0
    kills: int = 0
    unfired: list[str] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)  # named points that were passed by anybody
    struck: Counter[str] = field(default_factory=Counter)  # point -> faults that struck there
    lines_passed: set[str] = field(default_factory=set)
    lines_known: set[str] = field(default_factory=set)
    files: Mapping[str, str] = field(default_factory=dict)  # the sink's own code: path -> name in points
    stops: int = 0
    rows_committed: int = 0
    rows_after_kill_least: int | None = None
    cells: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # (point, kind) -> runs, fired, with findings
    findings: list[Finding] = field(default_factory=list)
    seen_places: set[tuple[str, str]] = field(default_factory=set)
    finding_count: Counter[str] = field(default_factory=Counter)
    reaching: dict[str, list[ReachingSchedule]] = field(
        default_factory=dict
    )  # to points that nobody had struck when they were passed
    unreproducible: set[Schedule] = field(
        default_factory=set
    )  # ways, with their last step, that did not lead there again
    notes: list[str] = field(default_factory=list)
    unknowns: list[str] = field(default_factory=list)  # why this shell cannot vouch for anything
    services: ServicesInUse = field(default_factory=ServicesInUse)  # of the scratch
    closures: list[Closure] = field(default_factory=list)  # others than of whole-job crashes
    first_rounds_done: bool = False  # of the process shell: whatever is telling was tried, but for lines
    deferred: str = ""  # why the simulated shell leaves crashes to the process shell

    def announce(self, schedules: int) -> None:
        """So many more are to be run."""
        self.in_bound += schedules
        self.progress.start(self.contract.name, self.shell, self.in_bound)

    def add(self, run_result: RunResult) -> None:
        self.runs += 1
        self.rows_committed += run_result.rows_committed
        places = dict.fromkeys(run_result.trace)  # with lines, a run passes each some ten times
        self._witness(run_result, places)
        self.saw(point for _, point in places)
        for fault in run_result.struck:
            self.struck[fault.point] += fault.kind != "pause"  # where somebody only paused, nobody has died yet
            self.stops += fault.kind == "stop"
        faults = run_result.schedule.faults
        if not run_result.fired:
            self.unfired.append(str(run_result.schedule))
            self._look_for_another_way(run_result)
        if faults:
            cell = self.cells.setdefault((row_of(faults[0].point), faults[0].kind), [0, 0, 0])
            cell[0] += 1
            cell[1] += run_result.fired
            cell[2] += bool(run_result.anomalies)
        if run_result.broken_rule and not self.unknowns:
            self.unknowns.append(f"{run_result.broken_rule}. It shows: {self._replay_line(run_result.schedule)}")
        for anomaly in run_result.anomalies:
            self.find(anomaly, run_result.schedule, run_result=run_result)

    def _replay_line(self, schedule: Schedule) -> str:
        return replay_line(schedule, self.contract.locator, self.shell, nodes=self.services.options.nodes)

    def add_one_of_many(self, run_result: RunResult) -> None:
        """As `add`, for runs that pass what others have passed: there are tens of thousands."""
        if run_result.anomalies or not run_result.fired:
            self.add(run_result)
            return
        self.runs += 1
        self.rows_committed += run_result.rows_committed
        for fault in run_result.struck:
            self.struck[fault.point] += 1
            self.stops += fault.kind == "stop"
        first = run_result.schedule.faults[0]
        cell = self.cells.setdefault((row_of(first.point), first.kind), [0, 0, 0])
        cell[0] += 1
        cell[1] += 1

    def no_basis(self, baseline: RunResult, why: str) -> None:
        """A run without faults that came to nothing convicts nobody of losing rows: it is a reason not to judge."""
        self.unknowns.append(why)
        if not (baseline.finished and baseline.rows_committed):
            self.forget()

    def forget(self) -> None:
        """What was found is worth nothing."""
        for kept in (self.findings, self.finding_count, self.seen_places, self.cells):
            kept.clear()

    def _witness(self, run_result: RunResult, places: Iterable[tuple[int, str]]) -> None:
        """Points that nobody has struck: how to come there, after faults that have all struck. Short ways first."""
        if not run_result.fired:
            return
        length = len(run_result.schedule.faults)
        for actor, point in places:
            if self.struck.get(point):
                continue
            reaching = self.reaching.setdefault(point, [])
            if (
                len(reaching) == WAYS_MOST and len(reaching[-1].before.faults) <= length
            ):  # this one would come behind them
                continue
            if any(way.before == run_result.schedule for way in reaching):
                continue
            way = ReachingSchedule(run_result.schedule, Fault(run_result.names[actor], point, 1, "kill"))
            if way.schedule not in self.unreproducible:
                reaching.append(way)
                reaching.sort(key=lambda way: len(way.before.faults))
                del reaching[WAYS_MOST:]

    def _look_for_another_way(self, run_result: RunResult) -> None:
        """What a recovery does may depend on how far a broker had come: where it was passed, it is not passed again."""
        point = run_result.schedule.faults[-1].point
        self.unreproducible.add(run_result.schedule)
        self.reaching[point] = [way for way in self.reaching.get(point, ()) if way.schedule != run_result.schedule]

    def saw(self, points: Iterable[str]) -> None:
        for point in {*points} - self.passed - self.lines_passed:
            (self.lines_passed if is_line(point) else self.passed).add(point)

    def crashed(self, points: Mapping[str, int]) -> None:
        """The closure has crashed the whole job at these points, so many times each."""
        self.saw(points)
        self.struck.update(points)
        for point, times in points.items():
            cell = self.cells.setdefault((row_of(point), "kill-job"), [0, 0, 0])
            cell[0] += times
            cell[1] += times

    def would_keep(self, anomaly: Anomaly, schedule: Schedule) -> bool:
        kept = sum(finding.oracle == anomaly.oracle for finding in self.findings)
        return place_of(anomaly, schedule) not in self.seen_places and kept < FINDINGS_PER_ORACLE_MOST

    def find(
        self, anomaly: Anomaly, schedule: Schedule, *, run_result: RunResult | None = None, counted: bool | None = None
    ) -> None:
        """Keeps the first finding of each oracle at each place, up to a handful; counts all. `counted`: the trial is
        in the cells already, as one that was added is.
        """
        self.finding_count[anomaly.oracle] += 1
        last = schedule.faults[-1] if schedule.faults else None
        if last is not None:
            is_new = run_result is None if counted is None else not counted
            self.cells.setdefault((row_of(last.point), last.kind), [0, 0, 0])[2] += is_new
        if not self.would_keep(anomaly, schedule):
            return
        self.seen_places.add(place_of(anomaly, schedule))
        self.findings.append(self._finding(anomaly, schedule, run_result))

    def _finding(self, anomaly: Anomaly, schedule: Schedule, run_result: RunResult | None) -> Finding:
        claim = ORACLE_CLAIMS[anomaly.oracle]
        last = schedule.faults[-1].point if schedule.faults else ""
        why = anomaly.why + (f" (struck when {sentence(last)})" if last else "")
        why += f" (job={schedule.job}: {SENTENCES[schedule.job]})" if schedule.job in SENTENCES else ""
        return Finding(
            oracle=anomaly.oracle,
            claimed=bool(claim & self.contract.claims),
            claim=names(claim)[0],
            shell=self.shell,
            schedule=str(schedule),
            why=why,
            replay=self._replay_line(schedule),
            lost=anomaly.lost[:ROWS_LISTED_MOST],
            lost_total=len(anomaly.lost) if len(anomaly.lost) > ROWS_LISTED_MOST else None,
            extra=anomaly.extra[:ROWS_LISTED_MOST],
            extra_total=len(anomaly.extra) if len(anomaly.extra) > ROWS_LISTED_MOST else None,
            timeline=timeline(run_result) if run_result else (),
            steps=steps(run_result) if run_result and self.shell != "spark" else (),  # counts only: no order
            line=run_result.struck_line if run_result else source_line(last, self.files),
        )

    def outcomes(self) -> Sequence[Outcome]:
        return [
            Outcome(point=point, fault=kind, runs=runs, outcome=self._outcome(fired, found))
            for (point, kind), (runs, fired, found) in sorted(self.cells.items())
        ]

    def _outcome(self, fired: int, found: int) -> str:
        if not fired:
            return "unfired"
        if not found:
            return "upheld"
        return "violated" if any(finding.claimed for finding in self.findings) else "finding"

    def result(self, *, seconds: float, closure: Closure | None = None) -> ShellResult:
        known = sorted({*self.passed, *STEPS_REQUIRED}, key=lambda point: (ORDER.get(point, len(ORDER)), point))
        reached = sorted(point for point in known if self.struck[point])
        lines = bool(self.lines_known)
        return ShellResult(
            shell=self.shell,
            schedules_run=self.runs,
            schedules_in_bound=max(self.in_bound, self.runs),
            kills=self.kills,
            seconds=round(seconds, 3),
            points_reached=reached,
            points_total=len(known),
            points_known=known,
            lines_reached=sum(bool(self.struck[line]) for line in self.lines_known) if lines else None,
            lines_total=len(self.lines_known) if lines else None,
            closure=closure,
            closures=self.closures,
            kills_by_point={point: count for point, count in sorted(self.struck.items()) if not is_line(point)},
            outcomes=self.outcomes(),
            rows_committed=self.rows_committed,
            notes=self.notes,
        )

    def never_struck(self) -> list[str]:
        """Protocol steps that were passed, or should have been, and that no fault ever struck."""
        return sorted(point for point in {*self.passed, *STEPS_REQUIRED} if not self.struck[point])

    def to_strike(self) -> list[Schedule]:
        """Schedules that lead to places which were passed but never struck, and kill there."""
        places = [point for point in (*self.never_struck(), *sorted(self.lines_passed)) if not self.struck[point]]
        return [self.reaching[point][0].schedule for point in places if self.reaching.get(point)]


def place_of(anomaly: Anomaly, schedule: Schedule) -> tuple[str, str]:
    """Findings of one oracle at one place are one."""
    last = schedule.faults[-1] if schedule.faults else None
    return anomaly.oracle, f"{last.point}={last.kind}" if last else ""


def row_of(point: str) -> str:
    """The grid's row of a point: named points one each, all lines of a file together."""
    return f"lines of {point[5:].rsplit(':', 1)[0]}" if is_line(point) else point


def replay_line(schedule: Schedule, locator: str, shell: str, *, nodes: int = 1) -> str:
    line = f"sinkproof replay {shlex.quote(str(schedule))} {shlex.quote(locator)} --on {shell}"
    line += " --network toxiproxy" if any(fault.kind in TOXICS for fault in schedule.faults) else ""
    return line + (f" --nodes {nodes}" if nodes > 1 else "")


def steps(run_result: RunResult) -> list[str]:
    """What whoever was struck last had passed right before, in order; nothing where the order is not known."""
    if not run_result.fired or not run_result.struck:
        return []
    fault = run_result.struck[-1]
    own = [point for actor, point in run_result.trace if run_result.names[actor] == fault.actor]
    places = [place for place, point in enumerate(own) if point == fault.point]
    if len(places) < fault.occurrence:
        return []
    before = own[: places[fault.occurrence - 1]]
    return [*[point for point in before if not is_line(point)][1 - STEPS_SHOWN :], fault.point]


def timeline(run_result: RunResult) -> list[Event]:
    struck = [(fault.actor, fault.point, fault.kind) for fault in run_result.struck]  # a detail may be a list
    events = []
    for at, actor, generation, what, detail in run_result.history:
        text = f"{what}: {detail}" if detail is not None else what
        who = actor if actor == COORDINATOR else f"{actor} (generation {generation})"
        events.append(Event(at=at / 1000, actor=who, what=text, struck=(actor, what, detail) in struck))
    return events
