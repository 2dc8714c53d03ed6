"""What is known of one subject so far: the results of the shells, and what of its code they have looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from sinkproof.campaign.coverage import KINDS_AT_LINES
from sinkproof.campaign.task import ShellOutcome
from sinkproof.judging.altered_rows import NO_RUN
from sinkproof.reports.document import Finding, ShellResult
from sinkproof.reports.number_text import judged
from sinkproof.subject.contract import Contract
from sinkproof.subject.source_files import OwnCode, reachable_in
from sinkproof.subject.static_analysis.reachable_lines import Duty


@dataclass(slots=True)
class SubjectProgress:
    """What is known of one subject so far. `unknowns`: reasons against UPHELD; violations stand in spite of them."""

    contract: Contract
    shells: list[ShellResult] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unknowns: list[str] = field(default_factory=list)
    deferred: list[str] = field(default_factory=list)  # why a shell left crashes to the process shell
    lines_passed: set[str] = field(default_factory=set)  # executed lines of the sink's own code, in any shell
    lines_of_children: set[str] = field(default_factory=set)  # executed by processes that attempts forked
    lines_struck: set[str] = field(default_factory=set)
    lines_by_kind: dict[str, set[str]] = field(default_factory=lambda: {kind: set() for kind in KINDS_AT_LINES})
    lines_covered: set[str] = field(default_factory=set)  # killed in equal runs only
    calls_passed: set[tuple[str, str]] = field(default_factory=set)  # (point, kind): how calls to the target can fail
    calls_failed: set[tuple[str, str]] = field(default_factory=set)
    loops_run_out: set[str] = field(default_factory=set)  # heads of those that give up after a number of tries
    own_code: OwnCode = field(default_factory=OwnCode)
    ended_before: list[tuple[str, str]] = field(default_factory=list)  # (shell, stage that its budget left out)
    strict: bool = False  # nothing may be left of what was to be run
    not_compared: str = NO_RUN  # why keys or values of rows were not; empty: in one shell both were
    intervals: list[tuple[float, float]] = field(default_factory=list)  # in which one of its shells ran

    def ran(self, *, until: float, seconds: float) -> None:
        self.intervals.append((until - seconds, until))

    @property
    def seconds(self) -> float:
        """Wall time: shells that ran at the same time count once."""
        total, end = 0.0, -inf
        for began, ended in sorted(self.intervals):
            total += max(0.0, ended - max(began, end))
            end = max(end, ended)
        return total

    def add_code(self, outcome: ShellOutcome) -> None:
        killed = self.lines_by_kind["kill"] - self.lines_covered
        for kind, lines in outcome.lines_by_kind.items():
            self.lines_by_kind[kind] |= lines
            killed |= lines - outcome.lines_covered if kind == "kill" else set()
        self.lines_covered = self.lines_by_kind["kill"] - killed
        self.lines_of_children |= outcome.lines_of_children
        self.calls_passed |= outcome.calls_passed
        self.calls_failed |= outcome.calls_failed
        self.loops_run_out |= outcome.loops_run_out
        if outcome.own_code.files:
            self.own_code = outcome.own_code

    def add_comparison(self, outcome: ShellOutcome) -> None:
        if self.not_compared:
            self.not_compared = outcome.not_compared

    @property
    def schedules(self) -> str:
        """How many were judged, in words."""
        kept = sum(shell.schedules_kept for shell in self.shells)
        return judged(sum(shell.schedules_run for shell in self.shells), kept, "schedule")


def kinds_at_lines(subject: SubjectProgress) -> tuple[str, ...]:
    """The job of a foreachBatch function has one attempt at a time, so that only kills tell."""
    return ("kill",) if subject.contract.kind == "foreach_batch" else KINDS_AT_LINES


def statements_never_run(subject: SubjectProgress, duty: Duty) -> list[str]:
    """Points of the first lines."""
    if subject.contract.is_ours or not subject.lines_passed:
        return []
    settles = any("settle.before" in shell.points_known for shell in subject.shells)
    reachable = reachable_in(subject.own_code, settles=settles)
    passed = subject.lines_passed | subject.lines_of_children
    return [each.point for each in reachable if each.duty is duty and each.lines.isdisjoint(passed)]
