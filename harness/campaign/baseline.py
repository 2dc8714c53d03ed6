"""The run without faults that everything is compared with, where faults can strike in it, and which other jobs a
subject is tried in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sinkproof.campaign.reset_checks import not_emptied, not_empty
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.workload.jobs import RESCALED_JOBS

NO_ROW: Final = "no row was committed (committed() runs in another process than the sink, and reads what that left)"


def first_run(
    runner: ScheduleRunner, results: CampaignResults, run: Callable[[Schedule], RunResult]
) -> RunResult | None:
    """The run without faults that everything is compared with; None, and why, if there is nothing to build on."""
    if why := not_empty(runner):
        results.unknowns.append(why)
        return None
    baseline = run(Schedule())
    if why := came_to_nothing(baseline):
        results.no_basis(baseline, why)
    elif why := not_emptied(runner, baseline):
        results.forget()
        if results.shell == "simulated":
            results.steering.deferred_to_processes = why  # the sink's module may remember: a new process does not
        else:
            results.unknowns.append(why)
    return None if why else baseline


def rescaled(results: CampaignResults) -> Sequence[str]:
    """The jobs that go on with another parallelism, if the contract does not rule that out."""
    if not results.contract.rescales:
        note = "rescales = False: no checkpoint was restored with another parallelism"
        results.notes += [note] if note not in results.notes else []
        return ()
    return tuple(RESCALED_JOBS)


def came_to_nothing(baseline: RunResult) -> str:
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
