"""The run without faults that everything is compared with, where faults can strike in it, and which other jobs a
subject is tried in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from sinkproof.campaign.reset_checks import not_emptied, not_empty
from sinkproof.campaign.results import Tally
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.schedule_runner import Laboratory, Trial
from sinkproof.workload.jobs import RESCALED_JOBS

NO_ROW: Final = "no row was committed (committed() runs in another process than the sink, and reads what that left)"


def first_run(laboratory: Laboratory, tally: Tally, run: Callable[[Schedule], Trial]) -> Trial | None:
    """The run without faults that everything is compared with; None, and why, if there is nothing to build on."""
    if why := not_empty(laboratory):
        tally.unknowns.append(why)
        return None
    baseline = run(Schedule())
    if why := came_to_nothing(baseline):
        tally.no_basis(baseline, why)
    elif why := not_emptied(laboratory, baseline):
        tally.forget()
        if tally.shell == "simulated":
            tally.left_over = why  # the sink's module may remember: a new process does not
        else:
            tally.unknowns.append(why)
    return None if why else baseline


def rescaled(tally: Tally) -> Iterable[str]:
    """The jobs that go on with another parallelism, if the contract does not rule that out."""
    if not tally.contract.rescales:
        note = "rescales = False: no checkpoint was restored with another parallelism"
        tally.notes += [note] if note not in tally.notes else []
        return ()
    return RESCALED_JOBS


def came_to_nothing(baseline: Trial) -> str:
    """Why a run without faults is no basis to judge from; empty if it is one."""
    raised = [detail for _, _, _, what, detail in baseline.history if what in ("raised", "fails the job")]
    if not baseline.finished or not baseline.rows_committed:
        unread = f"committed() raised {baseline.unreadable}" if baseline.unreadable else ""
        why = raised[0] if raised else baseline.failure or unread or NO_ROW
        return f"without any fault the job came to nothing: {why}"
    restarts = sum(what == "generation" for _, _, _, what, _ in baseline.history) - 1
    if restarts:
        why = raised[0] if raised else "nobody said why"
        times = f"{restarts} times" if restarts > 1 else "once"
        return f"without any fault the job was restarted {times}: {why}"
    return ""
