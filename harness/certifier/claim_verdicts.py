"""Merges the results of the shells into a verdict per claim and per subject, and the grade that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sinkproof.campaign.coverage import CONCURRENT_READER
from sinkproof.certifier.code_coverage import code_coverage
from sinkproof.certifier.not_examined import beside_upheld, not_examined
from sinkproof.certifier.power_examined import power_not_examined, struck
from sinkproof.certifier.root_causes import with_likely_cause
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.judging.verdict_and_exit_codes import Verdict, merge
from sinkproof.reports.document import ClaimResult, ShellResult, SubjectResult
from sinkproof.reports.number_text import judged
from sinkproof.subject.claims import GRADE_ORDER, ORACLE_CLAIMS, Claim, Grade, names
from sinkproof.subject.contract import Contract

REQUIRED: Final = {  # by claim: the method that its examination needs, and what is unknown without it
    Claim.NO_RESIDUE: ("residue", "so residue cannot be seen"),
    Claim.HONEST_MARKERS: ("complete", "so its marker cannot be read"),
}
ABOUT_ROWS: Final = (
    Claim.NO_LOSS
    | Claim.NO_DUPLICATES
    | Claim.NO_EARLY_ROWS
    | Claim.FENCES_ZOMBIES
    | Claim.ATOMIC_CHECKPOINT
    | Claim.ORDER_PER_KEY
    | Claim.INTACT_ROWS
)
ELSEWHERE: Final = "run it --on simulated as well"


def judge_subject(subject: SubjectProgress) -> SubjectResult:
    """The verdict per claim and over all, and the grade that the findings leave."""
    contract = subject.contract
    claimed = _claimed(subject)
    claims = [_judge_claim(Claim[name], subject) for name in names(claimed)]
    verdict = merge(Verdict(result.verdict) for result in claims)
    grade = Grade.of({finding.oracle for finding in subject.findings})
    if (subject.unknowns or not_examined(subject)) and grade is Grade.EXACTLY_ONCE:
        grade = Grade.UNKNOWN  # nothing was found, but not enough was examined
    why = _why(verdict, claims, subject)
    if _too_good(grade, contract.grade) and verdict is Verdict.UPHELD:
        verdict = Verdict.UNKNOWN
        why = f"measured {grade.value}, above the {contract.grade} that is expected: the certifier did not see enough"
    return SubjectResult(
        name=contract.name,
        verdict=verdict.value,
        grade=grade.value,
        seconds=round(subject.seconds, 3),
        why=why,
        expected_grade=Grade(contract.grade).value if contract.grade else None,
        claimed=claimed_names(claimed),
        not_compared=subject.not_compared,
        claims=claims,
        code=code_coverage(subject),
        shells=subject.shells,
        findings=[with_likely_cause(finding) for finding in subject.findings],
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
        doubt = not_examined(subject)
    if doubt or subject.unknowns:
        return ClaimResult(claim=name, verdict=Verdict.UNKNOWN.value, why=doubt or subject.unknowns[0])
    shells = subject.shells
    kills = judged(sum(shell.kills for shell in shells), sum(shell.kills_kept for shell in shells), "real kill")
    why = f"upheld in {subject.schedules}" + (f", with {kills}" if any(shell.kills_judged for shell in shells) else "")
    return ClaimResult(claim=name, verdict=Verdict.UPHELD.value, why=why)


def unknown_from_the_start(contract: Contract) -> list[str]:
    """Which claims no run can show, and why."""
    lacking = [(name, _lacking(Claim[name], contract)) for name in names(contract.claims)]
    return [f"{contract.name}: {name} will stay UNKNOWN: {why}" for name, why in lacking if why]


def _lacking(claim: Claim, contract: Contract) -> str:
    """Why this contract does not let the claim be examined; empty if it does."""
    if claim in REQUIRED and not contract.offers(REQUIRED[claim][0]):
        return f"the contract has no {REQUIRED[claim][0]}(scratch), {REQUIRED[claim][1]}"
    if claim is Claim.ATOMIC_CHECKPOINT and contract.rows != "append":
        return "a row that is replaced does not show which checkpoint it belongs to"
    if claim is Claim.NO_DUPLICATES and contract.rows != "append" and contract.optional("seen") is None:
        return (
            "the committed view does not depend on how often a row was applied; offer `seen` to let repeats be counted"
        )
    return ""


def _doubt(claim: Claim, contract: Contract, shells: Sequence[ShellResult]) -> str:
    """Why this claim was not examined; empty if it was."""
    if lacking := _lacking(claim, contract):
        return lacking
    if claim is Claim.SURVIVES_POWER_LOSS:
        return power_not_examined(contract, shells)
    if claim in (Claim.ATOMIC_CHECKPOINT, Claim.HONEST_MARKERS) and not struck(shells, frozenset({CONCURRENT_READER})):
        return f"no reader ran beside the sinks; {ELSEWHERE}"
    on_spark_only = all(shell.shell == "spark" for shell in shells)
    if claim is Claim.NO_EARLY_ROWS and contract.kind == "foreach_batch" and on_spark_only:
        return f"on Spark no reader reads between a function and the commit of its batch; {ELSEWHERE}"
    if claim is Claim.FENCES_ZOMBIES and not struck(shells, frozenset({"stop"})):
        how = (
            "give it a larger --budget"
            if any(shell.kills_judged for shell in shells)
            else "run it --on process as well"
        )
        return f"no attempt was stopped and continued as a zombie; {how}"
    return ""


def _too_good(grade: Grade, expected: str | None) -> bool:
    return expected is not None and GRADE_ORDER.index(grade) < GRADE_ORDER.index(Grade(expected))


def _why(verdict: Verdict, results: Sequence[ClaimResult], subject: SubjectProgress) -> str:
    decisive = [claim for claim in results if claim.verdict == verdict.value]
    if verdict is Verdict.UPHELD:
        return "; ".join([f"every claim upheld in {subject.schedules}", *beside_upheld(subject)])
    if verdict is Verdict.UNKNOWN and subject.unknowns:
        return "; ".join(subject.unknowns)
    reasons: dict[str, list[str]] = {}
    for claim in decisive:
        reasons.setdefault(claim.why, []).append(claim.claim)
    return "; ".join(f"{', '.join(claims)}: {why}" for why, claims in reasons.items()) or "nothing is claimed"
