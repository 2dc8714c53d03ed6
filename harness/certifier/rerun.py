"""Runs one schedule on one subject again, in the shell that a task names."""

from __future__ import annotations

import shutil

from sinkproof.campaign.task import Task
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import parse
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.crash_copies import needs_copies, run_with_copies
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.services_in_use import ServicesInUse


def try_again(task: Task, *, progress: Progress = SILENT) -> RunResult:
    schedule, contract = parse(task.schedule), load(task.locator)
    progress.step(task.schedule, 0)
    if contract.kind == "foreach_batch":
        from sinkproof.foreach_batch.certify_function import try_again as try_function_again

        return try_function_again(contract, task, progress=progress)
    folder = fresh_folder()
    try:
        services = ServicesInUse(options=task.services, report=lambda what: progress.step(what, 0))
        scratch = Scratch(name=f"{contract.name}-{task.shell}", path=folder, shell=task.shell, services=services)
        if task.shell == "spark":
            from sinkproof.execution.spark_runner import spark_runner

            with spark_runner(contract, scratch, master=task.master) as spark:
                return spark.run(schedule)
        if task.shell == "process":
            from sinkproof.execution.process_runner import process_runner

            with process_runner(contract, scratch, hang_seconds=task.hang_seconds) as runner:
                return runner.run(schedule, concurrent_reader=True)
        with ScheduleRunner(contract, scratch) as runner:
            runner.find_own_files()
            lines = any(is_line(fault.point) for fault in schedule.faults)
            if needs_copies(runner, schedule):
                return run_with_copies(runner, schedule, trace_lines=lines)
            return runner.run(schedule, trace_lines=lines, concurrent_reader=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
