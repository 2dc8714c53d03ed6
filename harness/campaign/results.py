"""Collects the findings of a campaign in one shell, and turns them into the document of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from sinkproof.campaign.coverage import STEPS_REQUIRED, Coverage, ways_to_fail
from sinkproof.campaign.finding_text import (
    contents_of,
    effects,
    newest_finding,
    place_of,
    replay_line,
    row_of,
    steps,
    timeline,
)
from sinkproof.campaign.steering import Steering
from sinkproof.campaign.task import ShellOutcome
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import CATALOGUE, is_line, sentence
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.exploration.judged_runs import RunLog
from sinkproof.judging.altered_rows import NO_RUN
from sinkproof.judging.fault_allowances import refused_although_acknowledged
from sinkproof.judging.oracle import Anomaly
from sinkproof.reference_engine.dataflow.replayable_sources import Input
from sinkproof.reports.document import ClosureResult, Finding, OutcomeWord, PointOutcome, ShellResult, StageResult
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.subject.claims import ORACLE_CLAIMS, names
from sinkproof.subject.contract import Contract
from sinkproof.subject.services_in_use import ServicesInUse
from sinkproof.subject.source_files import OwnCode, source_line
from sinkproof.subject.static_analysis.bounded_loops import loops_that_give_up, run_out
from sinkproof.workload.job_names import ONE_LARGE_CHECKPOINT_JOB
from sinkproof.workload.jobs import input_of, sentence_of

FINDINGS_PER_ORACLE_MOST: Final = 6  # different places only: the first of each is also the smallest
ROWS_LISTED_MOST: Final = 50
ORDER: Final = {point: place for place, point in enumerate(CATALOGUE)}  # of the protocol; other points come last


@dataclass(slots=True)
class CampaignResults:
    contract: Contract
    shell: str
    progress: Progress = SILENT
    services: ServicesInUse = field(default_factory=ServicesInUse)  # of the scratch
    coverage: Coverage = field(default_factory=Coverage)
    steering: Steering = field(default_factory=Steering)
    own_code: OwnCode = field(default_factory=OwnCode)
    findings: list[Finding] = field(default_factory=list)
    places_found: set[tuple[str, str]] = field(default_factory=set)
    finding_count: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    long_jobs: list[str] = field(default_factory=list)  # under one fault after the other
    unknowns: list[str] = field(default_factory=list)  # why this shell can uphold no claim
    closures: list[ClosureResult] = field(default_factory=list)  # others than of whole-job crashes
    not_compared: str = NO_RUN  # why keys or values of rows were not; empty: both were
    log: RunLog = field(default_factory=RunLog)
    loops_run_out: set[str] = field(default_factory=set)  # heads of those that give up after a number of tries

    def report(self, what: str) -> None:
        """What is done now; no schedule has ended."""
        self.progress.step(what, self.coverage.kills, schedules=0)

    def add(self, result: RunResult) -> None:
        if not result.inside:  # else what follows was reached by a death of the service, at a place of that run
            self.steering.note(result, self.coverage)
        self.coverage.add(result)
        self._note_loops(result)
        self.log.note_result(result)
        if result.broken_rule and not self.unknowns:
            self.unknowns.append(f"{result.broken_rule}. It shows: {self.replay_line(result.schedule)}")
        self._note_refusal(result)
        for anomaly in result.anomalies:
            self.find(anomaly, result.schedule, result=result)

    def _note_loops(self, result: RunResult) -> None:
        """Not where zombies live: they and their successors have one name."""
        if not any(KINDS[fault.kind].suspends and fault.kind != "pause" for fault in result.schedule.faults):
            self.loops_run_out |= run_out(result.trace, loops_that_give_up(self.own_code.files))

    def _note_refusal(self, result: RunResult) -> None:
        """Of many plain rows, by a sink that has promised to commit them."""
        if result.finished or result.schedule != Schedule(job=ONE_LARGE_CHECKPOINT_JOB):
            return
        if refused := refused_although_acknowledged(result.history):
            self.unknowns.append(
                f"with {self.sentence_of_job(result.schedule.job)} the sink acknowledged its snapshot, the checkpoint "
                f"was complete, and the rows were never committed: {refused}. Commit them in parts, or raise the error "
                f"in snapshot. It shows: {self.replay_line(result.schedule)}"
            )

    def add_one_of_many(self, result: RunResult) -> None:
        """As `add`, for tens of thousands of runs that pass the same points as others."""
        if result.anomalies or not result.fired:
            self.add(result)
        else:
            self.coverage.add_untraced(result)
            self.log.note_result(result)

    def forget(self) -> None:
        """Discards all findings."""
        for kept in (self.findings, self.finding_count, self.places_found, self.coverage.cells):
            kept.clear()
        self.report_findings()

    def report_findings(self, *, newest: str = "") -> None:
        self.progress.found(sum(finding.claimed for finding in self.findings), newest)

    @property
    def breaks_a_claim(self) -> bool:
        return any(finding.claimed for finding in self.findings)

    def would_keep(self, anomaly: Anomaly, schedule: Schedule) -> bool:
        kept = sum(finding.oracle == anomaly.oracle for finding in self.findings)
        return place_of(anomaly, schedule) not in self.places_found and kept < FINDINGS_PER_ORACLE_MOST

    def find(
        self, anomaly: Anomaly, schedule: Schedule, *, result: RunResult | None = None, counted: bool | None = None
    ) -> None:
        """Keeps the first finding of each oracle at each place, up to a handful; counts all. `counted`: the result is
        in the cells already, as one that was added is.
        """
        self.finding_count[anomaly.oracle] += 1
        last = schedule.faults[-1] if schedule.faults else None
        if last is not None:
            is_new = result is None if counted is None else not counted
            self.coverage.cells.setdefault((row_of(last.point), last.kind), [0, 0, 0, 0])[2] += is_new
        if not self.would_keep(anomaly, schedule):
            return
        self.places_found.add(place_of(anomaly, schedule))
        found = self._finding(anomaly, schedule, result)
        self.findings.append(found)
        if found.claimed:
            self.report_findings(newest=newest_finding(self.contract, found))
            if self.shell != "simulated":  # else processes may refute it
                self.progress.keep(self.so_far())

    def so_far(self) -> ShellOutcome:
        """Its findings alone."""
        return ShellOutcome(
            result=self.document(seconds=0.0),
            findings=[*self.findings],
            unknowns=(),
            never_struck=(),
            own_code=self.own_code,
            not_compared=self.not_compared,
        )

    def outcome(self, *, seconds: float, closure: ClosureResult | None = None) -> ShellOutcome:
        coverage = self.coverage
        return ShellOutcome(
            result=self.document(seconds=seconds, closure=closure),
            findings=self.findings,
            unknowns=self.unknowns,
            never_struck=coverage.never_struck(),
            lines_passed=frozenset(coverage.lines_passed),
            lines_of_children=frozenset(coverage.lines_of_children),
            lines_struck=frozenset(line for line in coverage.lines_passed if coverage.examined(line)),
            lines_by_kind={kind: frozenset(lines) for kind, lines in coverage.lines_by_kind.items()},
            lines_covered=frozenset(coverage.lines_by_kind["kill"] - coverage.lines_killed),
            calls_passed=frozenset(ways_to_fail(coverage.passed)),
            calls_failed=frozenset(coverage.calls_failed),
            loops_run_out=frozenset(self.loops_run_out),
            own_code=self.own_code,
            not_compared=self.not_compared,
            judged=self.log.runs,
        )

    def replay_line(self, schedule: Schedule) -> str:
        return replay_line(schedule, self.contract.locator, self.shell, nodes=self.services.options.nodes)

    def _finding(self, anomaly: Anomaly, schedule: Schedule, result: RunResult | None) -> Finding:
        claim = ORACLE_CLAIMS[anomaly.oracle]
        last = schedule.faults[-1].point if schedule.faults else ""
        job = self.sentence_of_job(schedule.job)
        return Finding(
            oracle=anomaly.oracle,
            claimed=bool(claim & self.contract.claims),
            claim=names(claim)[0],
            shell=self.shell,
            schedule=str(schedule),
            why=self.why(anomaly, schedule, result) + (f" (job={schedule.job}: {job})" if job else ""),
            replay=self.replay_line(schedule),
            lost=anomaly.lost[:ROWS_LISTED_MOST],
            lost_total=len(anomaly.lost) if len(anomaly.lost) > ROWS_LISTED_MOST else None,
            extra=anomaly.extra[:ROWS_LISTED_MOST],
            extra_total=len(anomaly.extra) if len(anomaly.extra) > ROWS_LISTED_MOST else None,
            contents=contents_of(anomaly, self.source_of(schedule.job)),
            timeline=timeline(result) if result else (),
            steps=steps(result) if result and self.shell != "spark" else (),  # on Spark points are only counted
            effects=effects(result) if result and self.shell != "spark" else (),
            line=result.struck_line if result else source_line(last, self.own_code.files),
        )

    def why(self, anomaly: Anomaly, schedule: Schedule, result: RunResult | None) -> str:
        """What went wrong, and where the last fault struck."""
        struck = result.killed_inside if result else ""
        if schedule.faults and not struck:
            struck = f"struck when {sentence(schedule.faults[-1].point)}"
        return anomaly.why + (f" ({struck})" if struck else "")

    def sentence_of_job(self, job: str) -> str:
        return sentence_of(job)

    def source_of(self, job: str) -> Input:
        """What it reads."""
        return input_of(job)

    # -- the document's view -----------------------------------------------------------------------

    def document(self, *, seconds: float, closure: ClosureResult | None = None) -> ShellResult:
        coverage = self.coverage
        known = sorted({*coverage.passed, *STEPS_REQUIRED}, key=lambda point: (ORDER.get(point, len(ORDER)), point))
        reached = sorted(point for point in known if coverage.struck[point])
        lines = bool(coverage.lines_known)
        return ShellResult(
            shell=self.shell,
            schedules_run=coverage.runs,
            schedules_in_bound=coverage.runs + sum(max(0, each.planned - each.run) for each in coverage.stages),
            schedules_joined=coverage.joined,
            kills=coverage.kills,
            seconds=round(seconds, 3),
            points_reached=reached,
            points_covered=coverage.only_covered(known),
            points_total=len(known),
            points_known=known,
            lines_reached=sum(bool(coverage.struck[line]) for line in coverage.lines_known) if lines else None,
            lines_covered=len(coverage.only_covered(coverage.lines_known)),
            lines_total=len(coverage.lines_known) if lines else None,
            closure=closure,
            closures=self.closures,
            kills_by_point={point: count for point, count in sorted(coverage.struck.items()) if not is_line(point)},
            outcomes=self._outcomes(),
            rows_committed=coverage.rows_committed,
            bounds=coverage.bounds.document(),
            outward=coverage.outward.document(),
            inside=coverage.inside.document(),
            power=coverage.power.document(),
            notes=self.notes,
            long_jobs=self.long_jobs,
            stages=[
                StageResult(**{key.name: getattr(each, key.name) for key in fields(StageResult)})
                for each in coverage.stages
            ],
        )

    def _outcomes(self) -> Sequence[PointOutcome]:
        return [
            PointOutcome(
                point=point, fault=kind, runs=runs, covered=covered, outcome=self._outcome(fired + covered, found)
            )
            for (point, kind), (runs, fired, found, covered) in sorted(self.coverage.cells.items())
        ]

    def _outcome(self, fired: int, found: int) -> OutcomeWord:
        if not fired:
            return "unfired"
        if not found:
            return "upheld"
        return "violated" if self.breaks_a_claim else "finding"
