"""What one worker process does: one subject, or all canaries, in one shell. Called in a process of its own.

A subject's code runs in here, so it may hang, exit, or eat all memory without taking the certificate with it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sinkproof.campaign.results import LINES_UNSTRUCK_MOST, CampaignResults
from sinkproof.chaos.clock import now
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.rare import EVERYWHERE, READ_BESIDE, WATCH
from sinkproof.reports.document import CanaryResult, ClosureResult, Finding, ShellResult
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.subject.contract import Contract, ContractError, load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.services_in_use import USED

# A step that was not struck, no zombie, or too many lines make the verdict UNKNOWN: a busy machine gets more time.
LEAST_SECONDS: Final = {"simulated": 90.0, "process": 90.0, "spark": 240.0}  # by then, whatever the budget
# With services: a run takes half a second, and 3 more when a broker has to come back; on Spark the long job alone takes
# two minutes, five if it is crowded.
LEAST_SECONDS_ON_SERVICES: Final = {"simulated": 600.0, "process": 600.0, "spark": 900.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`locator` of a subject; "" for the canaries, whose controls each get the budget."""

    locator: str
    shell: str
    budget_seconds: float
    seed: int = 0
    hang_seconds: float = 10.0  # of one call to a sink in a process of its own
    schedule: str = ""  # to be replayed; "": the whole campaign
    master: str = "local[6,100000]"  # of Spark: slots for the widest certifying job, and one to spare
    soak_seconds: float = 0  # of random schedules, when the campaign in the simulated shell has ended
    alone: bool = False  # no other shell strikes this subject's lines
    cores: int = 1  # that it may use

    @property
    def name(self) -> str:
        return self.locator or "canaries"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellOutcome:
    """What came of one subject in one shell."""

    result: ShellResult
    findings: Sequence[Finding]
    unknowns: Sequence[str]  # the job came to nothing, nothing was committed
    never_struck: Sequence[str]  # protocol steps
    deferred: str = ""  # why this shell has left the deaths of attempts and jobs to the process shell
    lines_passed: frozenset[str] = frozenset()
    lines_struck: frozenset[str] = frozenset()


def explore_subject(task: Task, *, progress: Progress = SILENT, contract: Contract | None = None) -> ShellOutcome:
    """One subject in one shell, until everything in the bound was tried or the budget is spent."""
    contract = contract or load(task.locator)
    if (explore := contract.optional("explore")) is not None:  # a subject that is no sink
        outcome: ShellOutcome = explore(contract, task, progress)
        return outcome
    began = now()

    def should_stop(results: CampaignResults) -> bool:
        spent = now() - began
        if spent < task.budget_seconds:
            return False
        if spent > (LEAST_SECONDS_ON_SERVICES if USED else LEAST_SECONDS)[task.shell]:
            return True
        if results.deferred:
            return True
        return any(finding.claimed for finding in results.findings) or has_least(results, task)

    folder = fresh_folder()
    try:
        return run_campaign(contract, task, folder=folder, progress=progress, should_stop=should_stop)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def has_least(results: CampaignResults, task: Task) -> bool:
    """Whether nothing is left that would make the verdict UNKNOWN."""
    simulated = task.shell == "simulated"
    woken = simulated or any(kind == "stop" and cell[1] for (_, kind), cell in results.cells.items())
    unstruck = sum(not results.struck[line] for line in results.lines_passed)
    ours = results.contract.marks_points  # the simulated shell strikes all of its lines
    elsewhere = task.shell == "spark" and ours
    lines = elsewhere or unstruck <= LINES_UNSTRUCK_MOST * len(results.lines_passed)
    beside = task.shell == "process" and (task.alone or not results.contract.copies)  # else the simulated shell does it
    early = task.shell == "process" and not (results.contract.is_ours or USED or results.first_rounds_done)
    unread = beside and results.contract.claims & READ_BESIDE and (EVERYWHERE, WATCH) not in results.cells
    return woken and lines and not early and not unread and not results.never_struck()


def run_campaign(
    contract: Contract, task: Task, *, folder: Path, progress: Progress, should_stop: Callable[[CampaignResults], bool]
) -> ShellOutcome:
    results = CampaignResults(contract=contract, shell=task.shell, progress=progress)
    scratch = Scratch(name=f"{contract.name}-{task.shell}", path=folder, shell=task.shell)
    began = now()
    closure = CAMPAIGNS[task.shell](results, scratch, should_stop=should_stop, task=task)
    results.progress.done(f"{len(results.findings)} findings")
    return conclude(results, seconds=now() - began, closure=closure, stopped=should_stop(results))


def _simulated(
    results: CampaignResults, scratch: Scratch, *, should_stop: Callable[[CampaignResults], bool], task: Task
) -> ClosureResult | None:
    from sinkproof.campaign.simulated_campaign import SimulatedCampaign
    from sinkproof.campaign.simulated_workers import workers_beside
    from sinkproof.exploration.closures import MIXED_SECONDS

    with (
        ScheduleRunner(results.contract, scratch) as runner,
        workers_beside(runner, task.cores, hang_seconds=task.hang_seconds) as workers,
    ):
        seconds = max(MIXED_SECONDS, task.budget_seconds / 4)
        campaign = SimulatedCampaign(runner, results, should_stop=should_stop, mixed_seconds=seconds, workers=workers)
        campaign.run()
        if task.soak_seconds and not results.deferred and not any(finding.claimed for finding in results.findings):
            from sinkproof.campaign.random_soak import soak

            soak(runner, results, seconds=task.soak_seconds, first_seed=task.seed)
    if not results.contract.is_ours and any(finding.claimed for finding in results.findings):
        from sinkproof.campaign.confirmation import confirm

        confirm(results, hang_seconds=task.hang_seconds)
    return campaign.closures.told()


def _process(
    results: CampaignResults, scratch: Scratch, *, should_stop: Callable[[CampaignResults], bool], task: Task
) -> ClosureResult | None:
    from sinkproof.campaign.process_campaign import ProcessCampaign
    from sinkproof.campaign.process_workers import workers_beside
    from sinkproof.execution.process_runner import process_runner

    if hasattr(results.contract.given, "command"):
        results.notes.append(
            "a command's interior is not explored: it dies and stops between requests and replies only"
        )
    with (
        process_runner(results.contract, scratch, hang_seconds=task.hang_seconds) as runner,
        workers_beside(runner, task.cores) as workers,
    ):
        ProcessCampaign(runner, results, should_stop=should_stop, trials=workers.trials).run()
    return None


def _spark(
    results: CampaignResults, scratch: Scratch, *, should_stop: Callable[[CampaignResults], bool], task: Task
) -> ClosureResult | None:
    from sinkproof.campaign.spark_campaign import SparkCampaign, plan_for
    from sinkproof.execution.spark_runner import spark_runner
    from sinkproof.reference_engine.shells.spark.driver_supervisor import TooFewSlots

    results.progress.step("starting Spark", 0)
    try:
        with spark_runner(results.contract, scratch, master=task.master) as runner:
            SparkCampaign(runner, results, plan=plan_for(task.budget_seconds), should_stop=should_stop).run()
    except TooFewSlots as error:
        raise ContractError(str(error)) from error
    return None


CAMPAIGNS: dict[str, Callable[..., ClosureResult | None]] = {
    "simulated": _simulated,
    "process": _process,
    "spark": _spark,
}


def conclude(results: CampaignResults, *, seconds: float, closure: ClosureResult | None, stopped: bool) -> ShellOutcome:
    """Adds the reasons for which this shell cannot vouch: nothing may be upheld that was not looked at."""
    unknowns = list(results.unknowns)
    if not unknowns and not results.rows_committed:
        unknowns.append(f"no row was committed in the {results.shell} shell")
    if results.unfired:
        results.notes.append(f"{len(results.unfired)} schedules never found their place, such as {results.unfired[0]}")
    if unstruck := sorted(line for line in results.lines_passed if not results.struck[line]):
        some = ", ".join(unstruck[:10])
        results.notes.append(f"{len(unstruck)} of {len(results.lines_passed)} executed lines were not struck: {some}")
    if stopped:
        results.notes.append("the budget ended before everything in the bound was tried")
    deferred = f"the simulated shell could not crash it: {results.deferred}" if results.deferred else ""
    results.notes += [deferred] if deferred else []
    return ShellOutcome(
        result=results.result(seconds=seconds, closure=closure),
        findings=results.findings,
        unknowns=unknowns,
        never_struck=() if deferred else results.never_struck(),
        deferred=deferred,
        lines_passed=frozenset(results.lines_passed),
        lines_struck=frozenset(line for line in results.lines_passed if results.struck[line]),
    )


def try_canaries(task: Task, *, progress: Progress = SILENT) -> Sequence[CanaryResult]:
    """Every canary and every control in one shell."""
    from sinkproof.canaries.try_canaries import try_all

    return try_all(task.shell, progress=progress, control_seconds=task.budget_seconds)


def perform(task: Task, progress: Progress) -> Any:
    if task.schedule:
        from sinkproof.certifier.replay import try_again

        return try_again(task, progress=progress)
    return explore_subject(task, progress=progress) if task.locator else try_canaries(task, progress=progress)
