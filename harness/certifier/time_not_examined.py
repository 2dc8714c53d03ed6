"""What passes with time, where no run has reached it: expiries at servers; days and hours, if no clock was moved."""

from __future__ import annotations

from typing import Final

from sinkproof.campaign.stage import WALL_CLOCK_STAGE
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.reports.coverage_text import WALL
from sinkproof.subject.static_analysis.clocks_in_code import reads_of_wall_clock
from sinkproof.subject.static_analysis.expiries_in_code import expiries_beside, expiries_in, retentions_in

CALLED: Final = ("sink", "foreach_batch")  # kinds of subjects of which single calls can fail


def expiring(subject: SubjectProgress) -> str:
    """An expiry that no run has reached, and that no hook of the contract stands for."""
    contract = subject.contract
    if contract.is_ours or contract.kind not in CALLED or contract.offers("maintain"):
        return ""
    if contract.expires_after is not None:
        return ""
    files = subject.own_code.files
    places = [*expiries_in(files, subject.lines_passed), *expiries_beside(files), *retentions_in(files)]
    for place in places:
        return (
            f"{place} sets an expiry at a server, or goes by its clock, which is not moved: no run has reached it. "
            "Let `maintain(scratch)` of the contract remove what has expired by then, see CONTRACT.md"
        )
    return ""


def always_at_true_time(subject: SubjectProgress) -> str:
    """Where its own code reads the wall clock, and no run came to its end that had moved it."""
    if subject.contract.is_ours or subject.contract.kind != "sink":
        return ""
    tried = any(stage.name == WALL_CLOCK_STAGE and stage.run for shell in subject.shells for stage in shell.stages)
    moved = any(each.startswith(WALL) for shell in subject.shells if shell.bounds for each in shell.bounds.clocks)
    for place in reads_of_wall_clock(subject.own_code.files, subject.lines_passed) if tried and not moved else ():
        return (
            f"{place} reads the wall clock, and every run that moved it ended in an error: what a sink does when a day "
            "or an hour has passed was not examined. Where a server of the contract refuses what is dated by another "
            "clock than its own, let it take that"
        )
    return ""
