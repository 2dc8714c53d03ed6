"""What certifying a foreachBatch function has shown in one shell: the campaign's results, in the words of Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from sinkproof.campaign.coverage import ways_to_fail
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.task import ShellOutcome
from sinkproof.chaos.points import is_line, is_system_call, sentence
from sinkproof.chaos.schedule import COORDINATOR, STANDARD, Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.foreach_batch.certifying_query import (
    BEFORE_BATCH,
    BEFORE_COMMIT,
    EARLY,
    ERROR,
    KILL,
    LEDGER,
    LOSE,
    POINTS,
    anomalies_of,
    named_query,
)
from sinkproof.foreach_batch.failing_jobs import FAILING
from sinkproof.generators.fault_sites import KINDS_AT_CALLS
from sinkproof.judging.altered_rows import Fields, doubtful_column, why_not_compared
from sinkproof.judging.oracle import Anomaly, Observation, fields_of, named
from sinkproof.reference_engine.dataflow.replayable_sources import Input
from sinkproof.reports.document import ClosureResult, ShellResult, SourceLine
from sinkproof.reports.progress import Progress
from sinkproof.subject.claims import ORACLE_CLAIMS, Claim
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import Scratch

INTERIOR: Final = (
    "crashes strike between the lines of the function's own modules, and before what they change outside: what happens "
    "inside one call, such as df.write, is cut in the middle --on simulated only, and so are Python workers"
)


class FunctionResults(CampaignResults):
    """Its cells count every fault of a schedule, and violations of claims only. Its protocol points are those of
    certifying_query.py.
    """

    def __init__(self, contract: Contract, scratch: Scratch, *, progress: Progress) -> None:
        super().__init__(contract, scratch.shell, progress, scratch.services, notes=[INTERIOR])
        self.own_code = contract.given.own_code
        self.deferred = ""
        self.calls: dict[str, Schedule] = {}  # kind of call to the outside -> a schedule that ends with a fault there
        self.fields: Fields | None = None  # that the reader shows, as the run without faults tells

    def note_fields(self, ending: Observation) -> None:
        """`ending`: of the run without faults."""
        self.fields = fields_of(LEDGER, ending)
        self.not_compared = why_not_compared(ending.rows, self.fields, committed=len(ending.committed))
        doubtful = doubtful_column(LEDGER, ending.committed, ending.rows, fields=self.fields)
        self.unknowns += [doubtful] if doubtful else []

    def note_calls(self, schedule: Schedule, trail: Sequence[tuple[int, str, int]]) -> None:
        """`trail`: what a run of the schedule passed. No fault can follow an error."""
        if any(fault.kind in FAILING for fault in schedule.faults):
            return
        passed: Counter[str] = Counter()
        for start, point, _ in trail:
            passed[point] += 1
            if point not in POINTS and not is_line(point):
                there = Fault(COORDINATOR, point, passed[point], KILL)
                self.calls.setdefault(point, replace(schedule, faults=(*schedule.faults[:start], there)))

    def add(self, result: RunResult) -> None:
        """Counts one run. Faults that found no point count as a run of their cell without an injection."""
        self.count_run(result)
        if not result.fired:
            last = result.schedule.faults[-1]
            self.coverage.count(last.point, last.kind, fired=False)
            return
        violated = self.find_all(result)
        for fault in result.schedule.faults:
            self.crashed(fault, violated=violated)

    def count_run(self, result: RunResult) -> None:
        self.coverage.runs += 1
        self.coverage.rows_committed += result.rows_committed
        self.coverage.bounds.note_rows(result)
        if named_query(result.schedule.job).wall_clock is not None and result.finished:
            self.coverage.bounds.note_wall_clock(result.schedule.job)

    def crashed(self, fault: Fault, *, violated: bool, covered: Sequence[Fault] = ()) -> None:
        """`covered`: other faults that lead to the same state."""
        others = Counter(other.point for other in covered)
        self.coverage.crashed({fault.point: 1}, covered=others, kind=fault.kind, found=violated)
        if fault.kind in KINDS_AT_CALLS:
            self.coverage.calls_failed.add((fault.point, fault.kind))

    def cover_lines_of_workers(self, lines: Collection[str]) -> None:
        """`lines`: that workers have executed. A death there leaves what one at the next call leaves."""
        only_there = dict.fromkeys(set(lines) - self.coverage.lines_passed, 1)
        self.coverage.saw(only_there)
        self.coverage.crashed({}, covered=only_there)

    def find_all(self, result: RunResult) -> bool:
        """Whether an anomaly breaks a claim."""
        for anomaly in result.anomalies:
            self.find(anomaly, result.schedule, result=result, counted=True)
        return any(ORACLE_CLAIMS[anomaly.oracle] & self.contract.claims for anomaly in result.anomalies)

    def why(self, anomaly: Anomaly, schedule: Schedule, result: RunResult | None) -> str:
        last = schedule.faults[-1] if schedule.faults else None
        return in_words(anomaly) + struck_when(last, result.struck_line if result else None)

    def sentence_of_job(self, job: str) -> str:
        return named_query(job).sentence

    def source_of(self, job: str) -> Input:
        return named_query(job).ledger.source

    def document(self, *, seconds: float, closure: ClosureResult | None = None) -> ShellResult:
        coverage = self.coverage
        coverage.lines_known |= coverage.lines_passed
        document = super().document(seconds=seconds, closure=closure)
        points = {*POINTS, *coverage.passed}
        return replace(
            document,
            points_reached=sorted(point for point in points if coverage.struck[point]),
            points_covered=coverage.only_covered(points),
            points_total=len(points),
            points_known=sorted(points),
            lines_reached=document.lines_reached or 0,
            lines_total=document.lines_total or 0,
        )

    def outcome(self, *, seconds: float, closure: ClosureResult | None = None) -> ShellOutcome:
        coverage = self.coverage
        if not coverage.rows_committed and not self.unknowns and not self.deferred:
            self.unknowns.append(f"no row was committed in the {self.shell} shell")
        never_struck: Sequence[str] = () if coverage.examined(BEFORE_COMMIT) or self.deferred else (BEFORE_COMMIT,)
        outcome = super().outcome(seconds=seconds, closure=closure)
        calls = frozenset(ways_to_fail(self.calls))
        return replace(outcome, never_struck=never_struck, deferred=self.deferred, calls_passed=calls)


def run_result(
    contract: Contract,
    schedule: Schedule,
    ending: Observation,
    *,
    injected: tuple[Fault, ...] | None = None,
    line: SourceLine | None = None,
    trail: Sequence[tuple[int, str, int]] = (),
    kills: int = 0,
    results: FunctionResults | None = None,
) -> RunResult:
    """`injected`: the faults that found their point; None: all. `trail`: (runs before, point, batch) of every point
    passed; the history is made of it. `results`: of a campaign: early rows are found in the standard query only then.
    """
    struck = schedule.faults if injected is None else injected
    counts_early = results is None or schedule.job == STANDARD
    fields = None if results is None else results.fields
    ordered = Claim.ORDER_PER_KEY in contract.claims
    history: list[tuple[Any, ...]] = []
    for at, (start, point, batch) in enumerate(trail):
        history.append((at, f"batch {batch}", start, point, None))
        ahead = trail[at + 1][0] if at + 1 < len(trail) else start
        if ahead != start and start < len(struck):
            history.append((at, COORDINATOR, start, struck[start].point, struck[start].kind))
    return RunResult(
        schedule=schedule,
        struck=struck,
        anomalies=tuple(
            each
            for each in anomalies_of(ending, contract.rows, ordered=ordered, fields=fields, job=schedule.job)
            if counts_early or each.oracle != EARLY
        ),
        trace=[],
        names=(COORDINATOR,),
        history=history,
        finished=not ending.failure,
        failure=ending.failure,
        rows_committed=len(ending.committed),
        log="\n".join(f"run {start}, batch {batch}: {point}" for start, point, batch in trail).encode(),
        struck_line=line,
        unreadable=ending.unreadable,
        kills=kills,
        restarts=len(struck),
    )


def in_words(anomaly: Anomaly) -> str:
    if anomaly.oracle != EARLY:
        return anomaly.why
    return f"{len(anomaly.extra)} rows can be read before Spark has recorded their batch: {named(anomaly.extra)}"


def struck_when(fault: Fault | None, line: SourceLine | None) -> str:
    """For the end of a finding's sentence."""
    if fault is None:
        return ""
    if fault.kind == LOSE:
        return " (the last commits/N was lost)"
    point = fault.point
    if fault.kind != KILL:
        return f" ({failed_how(fault, line)}; a query that fails is started again by the same driver)"
    if is_line(point):
        return f" (killed when {sentence(point)})"
    where = f" line {line.number} of {line.file} ({line.text})," if line else ""
    if is_system_call(point):
        return f" (killed{f' in{where}' if where else ''} when {sentence(point)})"
    where = f" after{where.rstrip(',')}" if line and point == BEFORE_COMMIT else ""
    return f" (killed{where} when {POINTS.get(point, sentence(point))})"


def failed_how(fault: Fault, line: SourceLine | None) -> str:
    if fault.point == BEFORE_BATCH:
        return "each job of Spark that read the batch's last row failed"
    if is_line(fault.point):
        return f"each job of Spark that read the batch's last row failed from {sentence(fault.point)} on"
    where = f" at line {line.number} of {line.file} ({line.text})" if line else ""
    effect = "before its effect" if fault.kind == ERROR else "after its effect"
    return f"a call failed{where} {effect}, when {sentence(fault.point)}"
