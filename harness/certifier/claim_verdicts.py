"""Merges the results of the shells into a verdict per claim and per subject, and the grade that was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from sinkproof.campaign.coverage import CONCURRENT_READER, KINDS_AT_LINES, LINES_UNSTRUCK_MOST
from sinkproof.campaign.task import ShellOutcome
from sinkproof.chaos.points import LINE
from sinkproof.judging.altered_rows import NO_RUN
from sinkproof.judging.fault_allowances import POWER_LOSSES
from sinkproof.judging.verdict_and_exit_codes import Verdict, merge
from sinkproof.reports.document import ClaimResult, CodeCoverage, Finding, ShellResult, SubjectResult
from sinkproof.subject.claims import GRADE_ORDER, ORACLE_CLAIMS, Claim, Grade, names
from sinkproof.subject.contract import Contract
from sinkproof.subject.reachable_lines import MARK, Duty
from sinkproof.subject.source_files import OwnCode, reachable_in, source_line

REQUIRED: Final = {  # by claim: the method that its examination needs, and what is unknown without it
    Claim.NO_RESIDUE: ("residue", "so residue cannot be seen"),
    Claim.SURVIVES_POWER_LOSS: ("lose_power", "so no power loss can be simulated"),
    Claim.HONEST_MARKERS: ("complete", "so its marker cannot be read"),
}
FAULT_WORDS: Final = {"kill": "struck", "stop": "struck by a stop", "pause": "struck by a pause"}
ABOUT_ROWS: Final = (
    Claim.NO_LOSS
    | Claim.NO_DUPLICATES
    | Claim.NO_EARLY_ROWS
    | Claim.FENCES_ZOMBIES
    | Claim.ATOMIC_CHECKPOINT
    | Claim.ORDER_PER_KEY
    | Claim.INTACT_ROWS
)
INTERIOR_UNSEEN: Final = (
    "a command dies and stops between requests and replies only: what a death inside its calls leaves was not examined"
)
RESERVE: Final = 1.5  # schedules that are left may take longer than those before
ELSEWHERE: Final = "run it --on simulated as well"


@dataclass(slots=True)
class SubjectProgress:
    """What is known of one subject so far. `unknowns`: reasons against UPHELD; violations stand in spite of them."""

    contract: Contract
    shells: list[ShellResult] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unknowns: list[str] = field(default_factory=list)
    deferred: list[str] = field(default_factory=list)  # why a shell left crashes to the process shell
    lines_passed: set[str] = field(default_factory=set)  # executed lines of the sink's own code, in any shell
    lines_struck: set[str] = field(default_factory=set)
    lines_by_kind: dict[str, set[str]] = field(default_factory=lambda: {kind: set() for kind in KINDS_AT_LINES})
    lines_covered: set[str] = field(default_factory=set)  # killed in equal runs only
    calls_passed: set[tuple[str, str]] = field(default_factory=set)  # (point, kind): how calls to the target can fail
    calls_failed: set[tuple[str, str]] = field(default_factory=set)
    own_code: OwnCode = field(default_factory=OwnCode)
    not_compared: str = NO_RUN  # why keys or values of rows were not; empty: in one shell both were

    def add_code(self, outcome: ShellOutcome) -> None:
        killed = self.lines_by_kind["kill"] - self.lines_covered
        for kind, lines in outcome.lines_by_kind.items():
            self.lines_by_kind[kind] |= lines
            killed |= lines - outcome.lines_covered if kind == "kill" else set()
        self.lines_covered = self.lines_by_kind["kill"] - killed
        self.calls_passed |= outcome.calls_passed
        self.calls_failed |= outcome.calls_failed
        if outcome.own_code.files:
            self.own_code = outcome.own_code

    def add_comparison(self, outcome: ShellOutcome) -> None:
        if self.not_compared:
            self.not_compared = outcome.not_compared

    @property
    def schedules(self) -> int:
        return sum(shell.schedules_run for shell in self.shells)


def judge_subject(subject: SubjectProgress) -> SubjectResult:
    """The verdict per claim and over all, and the grade that the findings leave."""
    contract = subject.contract
    claimed = _claimed(subject)
    claims = [_judge_claim(Claim[name], subject) for name in names(claimed)]
    verdict = merge(Verdict(result.verdict) for result in claims)
    grade = Grade.of({finding.oracle for finding in subject.findings})
    if (subject.unknowns or _not_examined(subject)) and grade is Grade.EXACTLY_ONCE:
        grade = Grade.UNKNOWN  # nothing was found, but not enough was examined
    why = _why(verdict, claims, subject)
    if _too_good(grade, contract.grade) and verdict is Verdict.UPHELD:
        verdict = Verdict.UNKNOWN
        why = f"measured {grade.value}, above the {contract.grade} that is expected: the certifier did not see enough"
    return SubjectResult(
        name=contract.name,
        verdict=verdict.value,
        grade=grade.value,
        why=why,
        expected_grade=contract.grade,
        claimed=claimed_names(claimed),
        not_compared=subject.not_compared,
        claims=claims,
        code=_code_coverage(subject),
        shells=subject.shells,
        findings=subject.findings,
    )


def _claimed(subject: SubjectProgress) -> Claim:
    """The claims that these shells can examine. Some registered pairs make claims that only the simulated shell can
    examine, or that need a reader beside the sinks, which the Spark shell does not have. NO_LOSS claims INTACT_ROWS
    where the reader shows keys and values.
    """
    contract, shells = subject.contract, {shell.shell for shell in subject.shells}
    shown = not subject.not_compared or any(each.oracle == "O12" for each in subject.findings)
    claims = contract.claims if shown else contract.claims_named
    if "simulated" not in shells:
        claims &= ~contract.claims_simulated
    return claims & ~contract.claims_beside if shells == {"spark"} else claims


def claimed_names(claims: Claim) -> list[str]:
    """The claims by name; a complete combination, such as EXACTLY_ONCE, by its own name."""
    words, left = [], claims
    for name in ("EXACTLY_ONCE", "EFFECTIVELY_ONCE", "AT_LEAST_ONCE"):
        if Claim[name] in left:
            words.append(name)
            left &= ~Claim[name]
    return words + names(left)


def _judge_claim(claim: Claim, subject: SubjectProgress) -> ClaimResult:
    name = claim.name or ""
    against = [finding for finding in subject.findings if ORACLE_CLAIMS[finding.oracle] is claim]
    if against:
        first = min(against, key=lambda finding: len(finding.schedule.split()))
        why = f"{first.oracle}: {first.why} [{first.schedule}]"
        return ClaimResult(claim=name, verdict=Verdict.VIOLATED.value, why=why)
    doubt = subject.not_compared if claim is Claim.INTACT_ROWS else _doubt(claim, subject.contract, subject.shells)
    if not doubt and (claim & ABOUT_ROWS or subject.contract.kind != "command"):
        doubt = _not_examined(subject)
    if doubt or subject.unknowns:
        return ClaimResult(claim=name, verdict=Verdict.UNKNOWN.value, why=doubt or subject.unknowns[0])
    kills = sum(shell.kills for shell in subject.shells)
    why = f"upheld in {subject.schedules:,} schedules" + (f", with {kills:,} real kills" if kills else "")
    return ClaimResult(claim=name, verdict=Verdict.UPHELD.value, why=why)


def _not_examined(subject: SubjectProgress) -> str:
    """What was left out of the examination, so that no claim can be upheld; empty if nothing was."""
    if subject.contract.kind == "command":
        return INTERIOR_UNSEEN
    reasons = [
        _left_over(subject),
        _never_struck_code(subject),
        _never_run(subject),
        _unstruck(subject),
        _unfailed(subject),
    ]
    return "; ".join(reason for reason in reasons if reason)


def _doubt(claim: Claim, contract: Contract, shells: Sequence[ShellResult]) -> str:
    """Why this claim was not examined; empty if it was."""
    if claim in REQUIRED and not contract.offers(REQUIRED[claim][0]):
        return f"the contract has no {REQUIRED[claim][0]}(scratch), {REQUIRED[claim][1]}"
    if claim is Claim.SURVIVES_POWER_LOSS and not _struck(shells, POWER_LOSSES):
        return f"no power was lost; {ELSEWHERE}"
    if claim in (Claim.ATOMIC_CHECKPOINT, Claim.HONEST_MARKERS) and not _struck(shells, frozenset({CONCURRENT_READER})):
        return f"no reader ran beside the sinks; {ELSEWHERE}"
    if claim is Claim.ATOMIC_CHECKPOINT and contract.rows != "append":
        return "a row that is replaced does not show which checkpoint it belongs to"
    if claim is Claim.NO_DUPLICATES and contract.rows != "append" and contract.optional("seen") is None:
        return (
            "the committed view does not depend on how often a row was applied; offer `seen` to let repeats be counted"
        )
    if claim is Claim.FENCES_ZOMBIES and not _struck(shells, frozenset({"stop"})):
        how = "give it a larger --budget" if any(shell.kills for shell in shells) else "run it --on process as well"
        return f"no attempt was stopped and continued as a zombie; {how}"
    return ""


def _unstruck(subject: SubjectProgress) -> str:
    """Why too few executed lines were crashed; empty if enough were. A sink's bug sits between two of its lines."""
    passed = subject.lines_passed
    struck = {"struck": subject.lines_struck}
    if not subject.contract.is_ours:
        kinds = ("kill",) if subject.contract.kind == "foreach_batch" else KINDS_AT_LINES
        struck = {FAULT_WORDS[kind]: subject.lines_by_kind[kind] for kind in kinds}
    for how, lines in struck.items():
        unstruck = sorted(passed - lines)
        if len(unstruck) > LINES_UNSTRUCK_MOST * len(passed):
            return (
                f"{len(unstruck)} of {len(passed)} executed lines were not {how} in any shell, such as "
                f"{unstruck[0]}; give it a larger --budget: {_budget_for(subject)} should suffice"
            )
    return ""


def _unfailed(subject: SubjectProgress) -> str:
    """Which kinds of calls to the target never failed; empty if each did, before its effect and after it."""
    left = sorted(subject.calls_passed - subject.calls_failed)
    if not left or subject.contract.is_ours or subject.contract.kind != "sink":
        return ""
    point, kind = left[0]
    side = "before" if kind == "error" else "after"
    more = f" and {len(left) - 1} more" if left[1:] else ""
    return (
        f"no error was tried {side} the call at {point}{more}; give it a larger --budget: {_budget_for(subject)} may "
        "suffice"
    )


def _never_struck_code(subject: SubjectProgress) -> str:
    """Which of the classes and functions that the user gave has no line that was a point; empty if each has one."""
    passed = {line.removeprefix("line(").rpartition(":")[0] for line in subject.lines_passed}
    for name, files in subject.own_code.given.items():
        if not files:
            return (
                f"{name} has no Python file that is struck (`not_struck` takes it out, or it is native), so nothing "
                "was injected inside it: between two of its calls only. Name the Python packages that do the work in "
                "`packages`, if there are any"
            )
        if passed.isdisjoint(file.replace(" ", "%20") for file in files):
            return f"none of the lines of {name} ({', '.join(files)}) was a point; run it --on process as well"
    return ""


def _never_run(subject: SubjectProgress) -> str:
    """Which statements that a call can lead to no run has executed; empty if each was."""
    left = statements_never_run(subject, Duty.NORMAL)
    if not left:
        return ""
    first = source_line(left[0], subject.own_code.files)
    where = f"{first.file}:{first.number} ({first.text})" if first is not None else left[0]
    others = f" and {len(left) - 1} more" if left[1:] else ""
    return (
        f"no run has executed {where}{others}, to which calls of the sink can lead: what it does was not examined. Let "
        f"the contract reach it with smaller limits, take its module out by `not_struck`, or mark it `# {MARK}`"
    )


def _code_coverage(subject: SubjectProgress) -> list[CodeCoverage]:
    """Of each file of a user's sink with an executed line, or with a statement that should have been."""
    passed: dict[str, list[str]] = {name: [] for name in subject.own_code.files.values()}
    never_run = {duty: statements_never_run(subject, duty) for duty in Duty}
    found = []
    for file, lines in _by_file(subject.lines_passed, passed).items():
        struck = {kind: len(points.intersection(lines)) for kind, points in subject.lines_by_kind.items()}
        covered = len(subject.lines_covered.intersection(lines))
        left = {duty: _numbers(points, file) for duty, points in never_run.items()}
        if subject.contract.is_ours or not (lines or any(left.values())):
            continue
        found.append(
            CodeCoverage(
                file=file,
                executed=len(lines),
                killed=struck["kill"] - covered,
                covered=covered,
                stopped=struck["stop"],
                paused=struck["pause"],
                never_run=left[Duty.NORMAL],
                handlers_never_run=left[Duty.EXCEPTIONAL],
                excluded=left[Duty.EXCLUDED],
            )
        )
    return found


def _by_file(points: Iterable[str], files: dict[str, list[str]]) -> dict[str, list[str]]:
    for point in points:
        if (match := LINE.fullmatch(point)) is not None:
            files.setdefault(match["file"].replace("%20", " "), []).append(point)
    return dict(sorted(files.items()))


def _numbers(points: Iterable[str], file: str) -> list[int]:
    return sorted(int(point.rpartition(":")[2].rstrip(")")) for point in _by_file(points, {}).get(file, ()))


def statements_never_run(subject: SubjectProgress, duty: Duty) -> list[str]:
    """Points of the first lines."""
    if subject.contract.is_ours or not subject.lines_passed:
        return []
    settles = any("settle.before" in shell.points_known for shell in subject.shells)
    reachable = reachable_in(subject.own_code, settles=settles)
    return [each.point for each in reachable if each.duty is duty and each.lines.isdisjoint(subject.lines_passed)]


def _budget_for(subject: SubjectProgress) -> str:
    """From the rate of the shell with real deaths: for what is left of its bound, and for each line and kind."""
    shell = max(subject.shells, key=lambda shell: (shell.kills > 0, shell.seconds))
    lines = sum(len(subject.lines_passed - struck) for struck in subject.lines_by_kind.values())
    left = lines + shell.schedules_in_bound - shell.schedules_run
    seconds = shell.seconds * (1 + RESERVE * left / max(shell.schedules_run, 1))
    return f"{ceil(seconds / 10) * 10}s"


def _left_over(subject: SubjectProgress) -> str:
    """Why crashes that the simulated shell deferred are still missing. Only real kills can replace them."""
    if not subject.deferred or any(shell.kills for shell in subject.shells):
        return ""
    real = "spark" if subject.contract.kind == "foreach_batch" else "process"
    return f"{subject.deferred[0]}; run it --on {real} as well"


def _struck(shells: Sequence[ShellResult], kinds: frozenset[str]) -> bool:
    outcomes = [outcome for shell in shells for outcome in shell.outcomes]
    return any(outcome.fault in kinds and outcome.runs and outcome.outcome != "unfired" for outcome in outcomes)


def _too_good(grade: Grade, expected: str | None) -> bool:
    return expected is not None and GRADE_ORDER.index(grade) < GRADE_ORDER.index(Grade(expected))


def _why(verdict: Verdict, results: Sequence[ClaimResult], subject: SubjectProgress) -> str:
    decisive = [claim for claim in results if claim.verdict == verdict.value]
    if verdict is Verdict.UPHELD:
        left = len(statements_never_run(subject, Duty.EXCEPTIONAL))
        beside = f"; statements for exceptions that never ran: {left}" if left else ""
        return f"every claim upheld in {subject.schedules:,} schedules{beside}"
    if verdict is Verdict.UNKNOWN and subject.unknowns:
        return "; ".join(subject.unknowns)
    reasons: dict[str, list[str]] = {}
    for claim in decisive:
        reasons.setdefault(claim.why, []).append(claim.claim)
    return "; ".join(f"{', '.join(claims)}: {why}" for why, claims in reasons.items()) or "nothing is claimed"
