"""Runs the job without faults, checks that the target can be reset and copied, and lists a subject's other jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import Schedule
from sinkproof.chaos.system_calls.supervisor import UNREADABLE
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.job_world import JobState, JobWorld
from sinkproof.judging.oracle import named
from sinkproof.subject.claims import ORACLE_CLAIMS, Claim
from sinkproof.subject.scratch import FrozenFolder, freeze_folder
from sinkproof.workload.job_names import RESCALED_JOBS

NO_ROW: Final = (
    "no row was committed (committed() runs in another process than the sink, and reads what that left, such as files "
    "in scratch.path)"
)


def first_run(
    runner: ScheduleRunner,
    results: CampaignResults,
    *,
    play: Callable[[Schedule], RunResult],
    take: Callable[[RunResult], RunResult],
) -> RunResult | None:
    """The run without faults that everything is compared with; None, and why, if there is nothing to build on. One that
    comes to nothing is not taken: it is no evidence of lost rows.
    """
    if why := not_empty(runner):
        results.unknowns.append(why)
        return None
    baseline = play(Schedule())
    if baseline.finished and baseline.rows_committed:
        take(baseline)
    results.not_compared = runner.not_compared
    results.unknowns += [runner.doubtful] if runner.doubtful else []
    if why := came_to_nothing(baseline):
        if _is_of_simulation(baseline, results):
            results.steering.deferred_to_processes = why
        else:
            results.unknowns.append(why)
    elif why := not_emptied(runner, baseline):
        results.forget()
        if results.shell == "simulated":
            results.steering.deferred_to_processes = why  # the sink's module may remember: a new process does not
        else:
            results.unknowns.append(why)
    return None if why else baseline


def _is_of_simulation(baseline: RunResult, results: CampaignResults) -> bool:
    """A library may be used once in a process: an error of a sink of a user, where all attempts share one, is none yet
    where each has its own.
    """
    raised = any(what in ("raised", "fails the job") for _, _, _, what, _ in baseline.history)
    return raised and results.shell == "simulated" and not results.contract.is_ours


def rescaled(results: CampaignResults) -> Sequence[str]:
    """The jobs that go on with another parallelism, if the contract does not rule that out."""
    if not results.contract.rescales:
        note = "rescales = False: no checkpoint was restored with another parallelism"
        results.notes += [note] if note not in results.notes else []
        return ()
    return tuple(RESCALED_JOBS)


def came_to_nothing(baseline: RunResult) -> str:
    """Why a run without faults cannot serve as a baseline; empty if it can."""
    raised = [detail for _, _, _, what, detail in baseline.history if what in ("raised", "fails the job")]
    if not baseline.finished or not baseline.rows_committed:
        unread = f"the rows cannot be read: {baseline.unreadable}" if baseline.unreadable else ""
        why = raised[0] if raised else baseline.failure or unread or NO_ROW
        return f"without any fault the job came to nothing: {why}"
    if baseline.doubtful_hook:
        return f"without any fault a hook of the contract fails: {baseline.doubtful_hook}"
    if restarts := baseline.restarts:
        why = raised[0] if raised else "no error was raised"
        times = f"{restarts} times" if restarts > 1 else "once"
        return f"without any fault the job was restarted {times}: {why}"
    return ""


# -- whether the target can be put back ------------------------------------------------------------

RACES_MOST = 6  # runs until one of them ends without a loss
ELSEWHERE = "Keep everything below scratch.path, or remove in teardown(scratch) what is elsewhere"


def not_empty(runner: ScheduleRunner) -> str:
    """Why the target is not empty before the first row is written; empty if it is."""
    rows = runner.committed_rows()
    if not rows:
        return ""
    return f"before the first run there are {len(rows)} rows: {named(rows)}. {ELSEWHERE}"


def not_emptied(runner: ScheduleRunner, first: RunResult) -> str:
    """After a run without faults: why the next one does not begin from nothing, as the first did."""
    runner.reset()
    way = "freeze and thaw" if runner.contract.copies else "teardown, an emptied scratch.path and setup"
    if rows := runner.committed_rows():
        return f"{len(rows)} rows of an earlier run are still there after {way}: {named(rows)}. {ELSEWHERE}"
    again = runner.run(Schedule())
    if _ending(again) == _ending(first) or _is_race(runner, [first, again]):
        return ""
    return (
        f"two runs without faults ended differently ({first.rows_committed} rows, then {again.rows_committed}), "
        f"so something outlives {way}. {ELSEWHERE}"
    )


def _is_race(runner: ScheduleRunner, runs: list[RunResult]) -> bool:
    """Rows that are lost in some runs and not in a later one were not left out because of an earlier run: what that
    had left would still be there. The sink itself loses them now and then; that is for the campaign to show.
    """
    if runner.scratch.shell != "process" or not all(_only_lost(run) for run in runs):
        return False
    while all(run.anomalies for run in runs[1:]):
        if len(runs) > RACES_MOST:
            return False
        runs.append(runner.run(Schedule()))
    return True


def _only_lost(run_result: RunResult) -> bool:
    return run_result.finished and {anomaly.oracle for anomaly in run_result.anomalies} <= {"O1"}


def not_copied(runner: ScheduleRunner, usual: RunResult) -> str:
    """After a run without faults, which ended as `usual`: why a copy of the target does not hold all of it. A server
    goes on with its own files when others have been put in their place.
    """
    world = JobWorld(runner)
    before, full = sorted(runner.committed_rows()), world.freeze_target()
    (beginning,) = world.beginnings()
    world.thaw_target(full)
    brought_back = sorted(runner.committed_rows())
    world.thaw_target(beginning.target)  # also what the last `setup` has noted there, for the next `teardown`
    if brought_back != before:
        return "a copy does not bring back what was committed"
    if runner.committed_rows():
        return "rows that were committed do not go away with what is copied"
    if runner.contract.copies and (lacking := _lacking(world, beginning)):
        return f"what freeze returns and thaw brings back lacks {lacking}"
    first = world.run(beginning, None)
    if first != world.run(beginning, None):
        return "two runs from the same copy ended differently"
    if {anomaly.oracle for anomaly in first.findings} != {anomaly.oracle for anomaly in usual.anomalies}:
        why = next((anomaly.why for anomaly in first.findings), "nothing is wrong there")
        return f"a run from a copy ended otherwise than the first one: {why}"
    return ""


def _lacking(world: JobWorld, beginning: JobState) -> str:
    """A file of the scratch folder that freeze and thaw forget or change, at any point of a run without faults."""
    passed: list[tuple[object, FrozenFolder]] = []

    def visit() -> None:
        files = _files(world)
        if not passed or files != passed[-1][1]:
            passed.append((world.freeze_target(), files))

    world.run(beginning, visit)
    for copy, files in passed:
        world.thaw_target(copy)
        again = _files(world)
        changed = sorted(name for name in files.keys() | again.keys() if files.get(name) != again.get(name))
        if changed:
            return changed[0]
    return ""


def _files(world: JobWorld) -> FrozenFolder:
    folder = freeze_folder(world.scratch.path)
    return {name: contents for name, contents in folder.items() if contents is not None}


def _ending(run_result: RunResult) -> tuple[object, ...]:
    return run_result.finished, run_result.rows_committed, run_result.anomalies


def why_not_watched(recorded: RunResult, *, claims: Claim) -> str:
    """Of a run without faults under the watch. What ends otherwise than it did before says nothing about the sink: it
    may need rights, or programs, that the filter refuses. What breaks no claim of it is no difference.
    """
    unreadable = next((why for why in recorded.unseen if why.startswith(UNREADABLE)), "")
    broken = [anomaly.why for anomaly in recorded.anomalies if ORACLE_CLAIMS[anomaly.oracle] & claims]
    differs = came_to_nothing(recorded) or "".join(broken[:1])
    return (
        recorded.unwatched
        or unreadable
        or (f"under the watch a run without faults fails: {differs}" if differs else "")
    )
