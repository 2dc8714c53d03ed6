"""What certifying a foreachBatch function has shown in one shell, as the document knows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sinkproof.campaign.finding_text import replay_line, row_of
from sinkproof.campaign.results import FINDINGS_PER_ORACLE_MOST, ROWS_LISTED_MOST
from sinkproof.campaign.task import ShellOutcome
from sinkproof.chaos.points import is_line, sentence
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.foreach_batch.streaming_query import BEFORE_COMMIT, EARLY, LOSE, POINTS
from sinkproof.judging.oracle import Anomaly, named
from sinkproof.reports.document import ClosureResult, Finding, PointOutcome, ShellResult, SourceLine
from sinkproof.subject.claims import ORACLE_CLAIMS, names
from sinkproof.subject.contract import Contract

INTERIOR: Final = (
    "crashes strike between the lines of the function's own file: what happens inside one call, such as df.write, is "
    "not cut in the middle, and neither are Python workers"
)


@dataclass(slots=True)
class Record:
    contract: Contract
    shell: str
    nodes: int = 1  # of each service that is started
    runs: int = 0
    in_bound: int = 0
    kills: int = 0
    rows: int = 0
    passed: set[str] = field(default_factory=set)  # points
    struck: Counter[str] = field(default_factory=Counter)
    lines_known: set[str] = field(default_factory=set)
    cells: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # (point, kind) -> runs, fired, with findings
    findings: list[Finding] = field(default_factory=list)
    places: set[tuple[str, str]] = field(default_factory=set)
    unknowns: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=lambda: [INTERIOR])

    def crashed(self, faults: Sequence[Fault], *, wrong: bool) -> None:
        """Each of these has struck, and led to the same."""
        for fault in faults:
            self.struck[fault.point] += 1
            cell = self.cells.setdefault((row_of(fault.point), fault.kind), [0, 0, 0])
            cell[0] += 1
            cell[1] += 1
            cell[2] += wrong

    def missed(self, fault: Fault) -> None:
        self.cells.setdefault((row_of(fault.point), fault.kind), [0, 0, 0])[0] += 1

    def find(self, anomalies: Sequence[Anomaly], schedule: Schedule, *, line: SourceLine | None) -> bool:
        """Whether a claim is broken by any of these."""
        broken = False
        for anomaly in anomalies:
            broken |= bool(ORACLE_CLAIMS[anomaly.oracle] & self.contract.claims)
            self._keep(anomaly, schedule, line)
        return broken

    def _keep(self, anomaly: Anomaly, schedule: Schedule, line: SourceLine | None) -> None:
        last = schedule.faults[-1].point if schedule.faults else ""
        kind = schedule.faults[-1].kind if schedule.faults else ""
        place = (anomaly.oracle, f"{last}={kind}")
        kept = sum(finding.oracle == anomaly.oracle for finding in self.findings)
        if place in self.places or kept >= FINDINGS_PER_ORACLE_MOST:
            return
        self.places.add(place)
        claim = ORACLE_CLAIMS[anomaly.oracle]
        self.findings.append(
            Finding(
                oracle=anomaly.oracle,
                claimed=bool(claim & self.contract.claims),
                claim=names(claim)[0],
                shell=self.shell,
                schedule=str(schedule),
                why=in_words(anomaly) + (" (the last commits/N was lost)" if kind == LOSE else struck_when(last, line)),
                replay=replay_line(schedule, self.contract.locator, self.shell, nodes=self.nodes),
                lost=anomaly.lost[:ROWS_LISTED_MOST],
                extra=anomaly.extra[:ROWS_LISTED_MOST],
                line=line,
            )
        )

    def outcome(self, *, seconds: float, closure: ClosureResult | None = None) -> ShellOutcome:
        if not self.rows and not self.unknowns:
            self.unknowns.append(f"no row was committed in the {self.shell} shell")
        lines = {point for point in self.passed if is_line(point)}
        result = ShellResult(
            shell=self.shell,
            schedules_run=self.runs,
            schedules_in_bound=max(self.runs, self.in_bound),
            kills=self.kills,
            seconds=round(seconds, 3),
            points_reached=sorted(point for point in POINTS if self.struck[point]),
            points_total=len(POINTS),
            points_known=sorted(POINTS),
            lines_reached=sum(bool(self.struck[line]) for line in self.lines_known | lines),
            lines_total=len(self.lines_known | lines),
            closure=closure,
            kills_by_point={point: count for point, count in sorted(self.struck.items()) if not is_line(point)},
            outcomes=[self._outcome(*cell) for cell in sorted(self.cells.items())],
            rows_committed=self.rows,
            notes=self.notes,
        )
        return ShellOutcome(
            result=result,
            findings=self.findings,
            unknowns=self.unknowns,
            never_struck=[BEFORE_COMMIT] if not self.struck[BEFORE_COMMIT] else [],
            lines_passed=frozenset(lines),
            lines_struck=frozenset(line for line in lines if self.struck[line]),
        )

    def _outcome(self, where: tuple[str, str], counts: list[int]) -> PointOutcome:
        point, kind = where
        runs, fired, wrong = counts
        word = "unfired" if not fired else "violated" if wrong else "upheld"
        return PointOutcome(point=point, fault=kind, runs=runs, outcome=word)


def in_words(anomaly: Anomaly) -> str:
    if anomaly.oracle != EARLY:
        return anomaly.why
    return f"{len(anomaly.extra)} rows can be read before Spark has recorded their batch: {named(anomaly.extra)}"


def struck_when(point: str, line: SourceLine | None) -> str:
    """For the end of a finding's sentence."""
    if not point:
        return ""
    if is_line(point):
        return f" (killed when {sentence(point)})"
    where = f" after line {line.number} of {line.file} ({line.text})" if line and point == BEFORE_COMMIT else ""
    return f" (killed{where} when {POINTS.get(point, sentence(point))})"
