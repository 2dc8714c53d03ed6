"""What one worker process does: one subject, or all canaries, or one schedule again, in one shell.

A subject's code runs in here, so it may hang, exit, or use up all memory without taking the certificate with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sinkproof.campaign.baseline import not_copied
from sinkproof.campaign.campaign_budget import begin, run_campaign, within_budget
from sinkproof.campaign.task import RunAgain, ShellOutcome, Task
from sinkproof.chaos.clock import now
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.crash_copies import needs_copies, run_with_copies
from sinkproof.exploration.judged_runs import ALONE, JudgedRun, ending, run_once_more, schedule_of
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import scratch_folder


def perform(task: Task, progress: Progress) -> Any:
    if task.schedule:
        return try_again(task, progress=progress)
    if task.locator:
        return run_again(task, progress=progress) if task.again else explore_subject(task, progress=progress)
    from sinkproof.canaries.try_canaries import try_all

    only = frozenset(judged.name for judged in task.again)
    return try_all(task.shell, progress=progress, control_seconds=task.budget_seconds, only=only)


def explore_subject(task: Task, *, progress: Progress = SILENT, contract: Contract | None = None) -> ShellOutcome:
    """One subject in one shell, until everything in the bound was tried or the budget is spent."""
    contract = contract or load(task.locator)
    if contract.kind == "foreach_batch":
        from sinkproof.foreach_batch.certify_function import explore

        return explore(contract, task, progress=progress)
    with scratch_folder() as folder:
        return run_campaign(contract, task, folder=folder, progress=progress, should_stop=within_budget(task))


def run_again(task: Task, *, progress: Progress = SILENT) -> RunAgain:
    """The runs of the task, which a kept result has named."""
    contract, began, kills = load(task.locator), now(), 0
    with scratch_folder() as folder, runner_of(contract, task, folder=folder, progress=progress) as runner:
        runner.run(Schedule())  # what the reader shows of each row is known from then on
        progress.step(task.again[0].name, kills)
        for judged, result in _once_more(runner, task):
            progress.step(judged.name, kills)
            kills += result.kills
            if ending(result.anomalies) != judged.ending:
                return RunAgain(seconds=now() - began, kills=kills, differing=judged.name)
    return RunAgain(seconds=now() - began, kills=kills)


def _once_more(runner: ScheduleRunner, task: Task) -> Iterator[tuple[JudgedRun, RunResult]]:
    """Real deaths on all cores; what a reader looks on at, or copies, one after the other."""
    alone = [judged for judged in task.again if task.shell == "process" and judged.how == ALONE]
    if alone:
        from sinkproof.campaign.workers.process_workers import workers_beside
        from sinkproof.execution.process_runner import ProcessRunner

        assert isinstance(runner, ProcessRunner)
        with workers_beside(runner, task.cores) as workers:
            schedules = [schedule_of(judged) for judged in alone]
            yield from zip(alone, workers.run_all(schedules, trace_lines=False, run=runner.run), strict=True)
    for judged in task.again:
        if judged not in alone:
            yield judged, run_once_more(runner, judged)


@contextmanager
def runner_of(contract: Contract, task: Task, *, folder: Path, progress: Progress) -> Iterator[ScheduleRunner]:
    """In the simulated shell or the process shell."""
    _, scratch = begin(contract, task, folder=folder, progress=progress)
    if task.shell == "process":
        from sinkproof.execution.process_runner import process_runner

        with process_runner(contract, scratch, hang_seconds=task.hang_seconds) as runner:
            yield runner
        return
    with ScheduleRunner(contract, scratch) as runner:
        runner.find_own_files()
        yield runner


def try_again(task: Task, *, progress: Progress = SILENT) -> RunResult:
    """The schedule of the task on its subject."""
    schedule, contract = parse(task.schedule), load(task.locator)
    progress.step(task.schedule, 0)
    if contract.kind == "foreach_batch":
        from sinkproof.foreach_batch.certify_function import try_again as try_function_again

        return try_function_again(contract, task, progress=progress)
    with scratch_folder() as folder:
        if task.shell == "spark":
            from sinkproof.execution.spark_runner import spark_runner

            _, scratch = begin(contract, task, folder=folder, progress=progress)
            with spark_runner(contract, scratch, master=task.master) as spark:
                return spark.run_alone(schedule)
        with runner_of(contract, task, folder=folder, progress=progress) as runner:
            if task.shell == "process":
                return runner.run_alone(schedule, concurrent_reader=True)
            lines = any(is_line(fault.point) for fault in schedule.faults)
            if needs_copies(runner, schedule):
                return _run_with_copies(runner, schedule, trace_lines=lines)
            return runner.run_alone(schedule, trace_lines=lines, concurrent_reader=True)


def _run_with_copies(runner: ScheduleRunner, schedule: Schedule, *, trace_lines: bool) -> RunResult:
    """Raises ContractError where something is wrong because a copy does not hold all of the target."""
    result = run_with_copies(runner, schedule, trace_lines=trace_lines)
    if result.anomalies:
        runner.reset()
        if why := not_copied(runner, runner.run(Schedule())):
            raise ContractError(f"the simulated shell cannot copy this target ({why}). Replay it with --on process")
    return result
