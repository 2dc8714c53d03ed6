"""From what the shells found to verdicts: per claim, per subject, and the grade that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sinkproof.campaign.coverage import CONCURRENT_READER
from sinkproof.campaign.results import LINES_UNSTRUCK_MOST
from sinkproof.judging.fault_allowances import POWER_LOSSES
from sinkproof.judging.verdict import Verdict, merge
from sinkproof.reports.document import ClaimResult, Finding, ShellResult, SubjectResult
from sinkproof.subject.claims import GRADE_ORDER, ORACLE_CLAIMS, Claim, Grade, names
from sinkproof.subject.contract import Contract

MEANS: Final = {  # what a contract must offer for a claim to be examined, and what that is for
    Claim.NO_RESIDUE: ("residue", "so what lingers cannot be seen"),
    Claim.SURVIVES_POWER_LOSS: ("lose_power", "so nothing that was not forced to disk can be lost"),
    Claim.HONEST_MARKERS: ("complete", "so what its marker says cannot be read"),
}
ELSEWHERE: Final = "run it --on simulated as well"


@dataclass(slots=True)
class SubjectProgress:
    """What is known of one subject so far. `unknowns`: why the shells cannot vouch; violations stand all the same."""

    contract: Contract
    shells: list[ShellResult] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unknowns: list[str] = field(default_factory=list)
    deferred: list[str] = field(default_factory=list)  # what one shell has left to the process shell
    lines_passed: set[str] = field(default_factory=set)  # executed lines of the sink's own code, in any shell
    lines_struck: set[str] = field(default_factory=set)

    @property
    def schedules(self) -> int:
        return sum(shell.schedules_run for shell in self.shells)


def judge_subject(progress_of_subject: SubjectProgress) -> SubjectResult:
    """The verdict per claim and over all, and the grade that the findings leave."""
    contract = progress_of_subject.contract
    claimed = _claimed(progress_of_subject)
    claims = [_judge_claim(claim, progress_of_subject) for claim in _single(claimed)]
    verdict = merge(Verdict(result.verdict) for result in claims)
    grade = Grade.of({finding.oracle for finding in progress_of_subject.findings})
    if (progress_of_subject.unknowns or _left_over(progress_of_subject)) and grade is Grade.EXACTLY_ONCE:
        grade = Grade.UNKNOWN  # nothing found, because not enough was looked at
    why = _why(verdict, claims, progress_of_subject)
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
        claims=claims,
        shells=progress_of_subject.shells,
        findings=progress_of_subject.findings,
    )


def _claimed(progress_of_subject: SubjectProgress) -> Claim:
    """Some of our own pairs' claims can be examined in the simulated shell only, or in all but the Spark shell, in
    which nobody looks beside the sinks: they are made only there.
    """
    contract, shells = progress_of_subject.contract, {shell.shell for shell in progress_of_subject.shells}
    claims = contract.claims
    if "simulated" not in shells:
        claims &= ~contract.claims_simulated
    return claims & ~contract.claims_beside if shells == {"spark"} else claims


def claimed_names(claims: Claim) -> list[str]:
    """The claims as people say them: a combination by its own name where it is whole."""
    words, left = [], claims
    for combination in (Claim.EXACTLY_ONCE, Claim.EFFECTIVELY_ONCE):
        if combination in left:
            words.append(combination.name or "")
            left &= ~combination
    if left & Claim.NO_LOSS:
        words.append("AT_LEAST_ONCE")
        left &= ~Claim.NO_LOSS
    return words + names(left)


def _single(claims: Claim) -> list[Claim]:
    return [Claim[name] for name in names(claims)]


def _judge_claim(claim: Claim, progress_of_subject: SubjectProgress) -> ClaimResult:
    name = claim.name or ""
    against = [finding for finding in progress_of_subject.findings if ORACLE_CLAIMS[finding.oracle] is claim]
    if against:
        first = min(against, key=lambda finding: len(finding.schedule.split()))
        why = f"{first.oracle}: {first.why} [{first.schedule}]"
        return ClaimResult(claim=name, verdict=Verdict.VIOLATED.value, why=why)
    doubt = (
        _doubt(claim, progress_of_subject.contract, progress_of_subject.shells)
        or _left_over(progress_of_subject)
        or _unstruck(progress_of_subject)
    )
    if doubt or progress_of_subject.unknowns:
        return ClaimResult(claim=name, verdict=Verdict.UNKNOWN.value, why=doubt or progress_of_subject.unknowns[0])
    kills = sum(shell.kills for shell in progress_of_subject.shells)
    why = f"upheld in {progress_of_subject.schedules:,} schedules" + (
        f", {kills:,} of them real kills" if kills else ""
    )
    return ClaimResult(claim=name, verdict=Verdict.UPHELD.value, why=why)


def _doubt(claim: Claim, contract: Contract, shells: Sequence[ShellResult]) -> str:
    """Why this claim was not really tested; empty if it was."""
    if claim in MEANS and not contract.offers(MEANS[claim][0]):
        return f"the contract has no {MEANS[claim][0]}(scratch), {MEANS[claim][1]}"
    if claim is Claim.SURVIVES_POWER_LOSS and not _struck(shells, POWER_LOSSES):
        return f"no power was lost; {ELSEWHERE}"
    if claim in (Claim.ATOMIC_CHECKPOINT, Claim.HONEST_MARKERS) and not _struck(shells, frozenset({CONCURRENT_READER})):
        return f"nobody looked while the sinks ran; {ELSEWHERE}"
    if claim is Claim.ATOMIC_CHECKPOINT and contract.rows != "append":
        return "of rows that are replaced it cannot be told which checkpoint they belong to"
    if claim is Claim.NO_DUPLICATES and contract.rows != "append" and contract.optional("seen") is None:
        return "what is read cannot depend on how often a row was applied; offer `seen` to let repeats be counted"
    if claim is Claim.FENCES_ZOMBIES and not _struck(shells, frozenset({"stop"})):
        how = "give it a larger --budget" if any(shell.kills for shell in shells) else "run it --on process as well"
        return f"no attempt was stopped and continued as a zombie; {how}"
    return ""


def _unstruck(progress_of_subject: SubjectProgress) -> str:
    """A sink's bug sits between two of its lines: a budget that did not get there has shown nothing."""
    unstruck = sorted(progress_of_subject.lines_passed - progress_of_subject.lines_struck)
    if len(unstruck) <= LINES_UNSTRUCK_MOST * len(progress_of_subject.lines_passed):
        return ""
    return (
        f"{len(unstruck)} of {len(progress_of_subject.lines_passed)} executed lines were not struck in any shell, such as "
        + (f"{unstruck[0]}; give it a larger --budget")
    )


def _left_over(progress_of_subject: SubjectProgress) -> str:
    """Only real kills make up for what the simulated shell could not do."""
    if not progress_of_subject.deferred or any(shell.kills for shell in progress_of_subject.shells):
        return ""
    return f"{progress_of_subject.deferred[0]}; run it --on process as well"


def _struck(shells: Sequence[ShellResult], kinds: frozenset[str]) -> bool:
    outcomes = [outcome for shell in shells for outcome in shell.outcomes]
    return any(outcome.fault in kinds and outcome.runs and outcome.outcome != "unfired" for outcome in outcomes)


def _too_good(grade: Grade, expected: str | None) -> bool:
    return expected is not None and GRADE_ORDER.index(grade) < GRADE_ORDER.index(Grade(expected))


def _why(verdict: Verdict, results: Sequence[ClaimResult], progress_of_subject: SubjectProgress) -> str:
    decisive = [claim for claim in results if claim.verdict == verdict.value]
    if verdict is Verdict.UPHELD:
        return f"every claim upheld in {progress_of_subject.schedules:,} schedules"
    if verdict is Verdict.UNKNOWN and progress_of_subject.unknowns:
        return "; ".join(progress_of_subject.unknowns)
    reasons: dict[str, list[str]] = {}
    for claim in decisive:
        reasons.setdefault(claim.why, []).append(claim.claim)
    return "; ".join(f"{', '.join(claims)}: {why}" for why, claims in reasons.items()) or "nothing is claimed"
