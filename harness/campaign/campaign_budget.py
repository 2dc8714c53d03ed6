"""Runs the campaign of one subject in one shell, and concludes which claims this shell can uphold."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from sinkproof.campaign.coverage import CONCURRENT_READER, EVERY_STEP, LINES_UNSTRUCK_MOST
from sinkproof.campaign.found_again.close_ups import look_closer
from sinkproof.campaign.inside_service.inside_campaign import SECONDS_MOST as INSIDE_SECONDS_MOST
from sinkproof.campaign.loop import ShouldStop
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Plan
from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.campaign.workers.idle_cores import runnable_per_core
from sinkproof.campaign.workers.worker_pool import PoolNotes
from sinkproof.chaos.clock import Deadline, now
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.reports.document import ClosureResult
from sinkproof.reports.progress import Progress
from sinkproof.subject.claims import ORACLE_CLAIMS, READ_BESIDE, Claim
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.services_in_use import ServicesInUse
from sinkproof.subject.static_analysis.reachable_lines import lines_of_handlers

# A step without an injected fault, no zombie, or too many such lines make the verdict UNKNOWN: a slow sink gets more
# time whatever its budget, and more of it on a busy machine. By then the campaign ends.
SLOW_SECONDS: Final = 600.0  # some two hundred runs of a JVM, six hundred of a large library
CONFIRMING_SECONDS: Final = 3.0  # findings of the simulated shell are run again in processes
CONFIRMING_SHARE: Final = 0.25  # of a budget that holds, confirming takes at most this share
SHARE_IF_VIOLATED: Final = 0.5  # further findings of one bug add little
# Eight other processes on two cores make a run take so many times as long; for more of them no time is added.
BUSY_MOST: Final = 5.0
# With services: a run takes half a second, and 3 more when a broker has to come back; on Spark the endurance job alone
# takes two minutes, five if it is crowded.
SECONDS_ON_SERVICES: Final = {"simulated": 600.0, "process": 600.0, "spark": 900.0}
NEVER_READ: Final = "committed() failed whenever it was called before the end of a job: early rows were not looked for"
SECONDS_ON_HOSTS: Final = 3600.0  # a host that is cut off, or dies, costs fifteen seconds, at each step


def within_budget(task: Task) -> ShouldStop:
    """Stops a campaign when its budget is spent and nothing is left that would make the verdict UNKNOWN; a sink that is
    not convicted may have time for the whole plan, too. A budget that holds stops it in any case.
    """
    began = now()
    plan_seconds = task.plan_seconds if task.shell == "process" else 0.0  # simulations would go on and on

    def should_stop(results: CampaignResults) -> bool:
        spent = now() - began
        if task.budget_holds:
            confirms = task.shell == "simulated" and results.breaks_a_claim and not results.contract.is_ours
            left = min(CONFIRMING_SECONDS, CONFIRMING_SHARE * task.budget_seconds) if confirms else 0
            return spent >= task.budget_seconds - left
        is_convicted = results.breaks_a_claim or results.progress.is_convicted_elsewhere()
        if spent < task.budget_seconds * (SHARE_IF_VIOLATED if is_convicted else 1):
            return False
        least = SECONDS_ON_SERVICES[task.shell] if results.services.used else 0.0
        least += SECONDS_ON_HOSTS if results.steering.on_hosts else 0.0
        least += INSIDE_SECONDS_MOST if results.services.options.inside_service else 0.0
        if spent > max(least, seconds_if_slow(runnable_per_core())):
            return True
        if results.steering.deferred_to_processes:
            return True
        return is_convicted or (spent >= plan_seconds and has_least(results, task))

    return should_stop


def seconds_if_slow(busy: float) -> float:
    """`busy`: runnable processes for each core."""
    return SLOW_SECONDS * min(max(busy, 1.0), BUSY_MOST)


def has_least(results: CampaignResults, task: Task) -> bool:
    """Whether nothing is left that would make the verdict UNKNOWN."""
    coverage, contract = results.coverage, results.contract
    simulated, process = task.shell == "simulated", task.shell == "process"
    resumed = simulated or any(kind == "stop" and cell[1] for (_, kind), cell in coverage.cells.items())
    # The simulated shell injects faults at all lines of our own adapters.
    lines_elsewhere = task.shell == "spark" and contract.marks_points
    lines = lines_elsewhere or len(coverage.lines_unstruck()) <= LINES_UNSTRUCK_MOST * len(coverage.lines_passed)
    if not contract.is_ours and not simulated:
        lines = lines_elsewhere or coverage.enough_lines_struck(lines_of_handlers(results.own_code.files))
    reads_beside = process and (task.alone or not contract.copies)  # else the simulated shell does it
    early = lacks_required_stages(results)
    unread = reads_beside and contract.claims & READ_BESIDE and (EVERY_STEP, CONCURRENT_READER) not in coverage.cells
    outward = bool(coverage.outward.unwatched or coverage.outward.is_enough())
    inside = not (process and coverage.inside.service and coverage.inside.calls_left())
    return resumed and lines and outward and inside and not early and not unread and not coverage.never_struck()


def lacks_required_stages(results: CampaignResults) -> bool:
    """Whether stages have not been run without which no sink of a user is upheld, or none on several hosts."""
    if results.steering.on_hosts:
        return not results.steering.required_stages_done
    if results.shell != "process" or results.contract.is_ours:
        return False
    return not results.steering.required_stages_done


def begin(
    contract: Contract, task: Task, *, folder: Path, progress: Progress, shell: str = ""
) -> tuple[CampaignResults, Scratch]:
    """The empty results of a campaign, and its scratch. `shell`: where another one than the task's runs it."""
    shell = shell or task.shell
    services = ServicesInUse(options=task.services, report=progress.report)
    scratch = Scratch(name=f"{contract.name}-{task.shell}", path=folder, shell=shell, services=services)
    return CampaignResults(contract=contract, shell=shell, progress=progress, services=services), scratch


def run_campaign(
    contract: Contract, task: Task, *, folder: Path, progress: Progress, should_stop: ShouldStop
) -> ShellOutcome:
    results, scratch = begin(contract, task, folder=folder, progress=progress)
    results.steering.budget_ends = Deadline(task.budget_seconds) if task.budget_holds else None
    began = now()
    try:
        closure = CAMPAIGNS[task.shell](results, scratch, should_stop=should_stop, task=task)
    except Exception:
        if results.coverage.runs:  # what was run until then is not lost with the contract that has failed
            progress.keep(results.outcome(seconds=now() - began))
        raise
    outcome = conclude(results, seconds=now() - began, closure=closure)
    if not lacks_required_stages(results):
        return outcome
    return replace(outcome, ended_before=results.coverage.stage_left_out())


def _simulated(
    results: CampaignResults, scratch: Scratch, *, should_stop: ShouldStop, task: Task
) -> ClosureResult | None:
    from sinkproof.campaign.fan_out.spark_workers import simulated_on_executors
    from sinkproof.campaign.simulated_campaign import SimulatedCampaign
    from sinkproof.campaign.simulated_plan import SIMULATED_PLAN
    from sinkproof.campaign.workers.simulated_workers import workers_beside
    from sinkproof.exploration.closures import MIXED_SECONDS

    with ExitStack() as stack:
        runner = stack.enter_context(ScheduleRunner(results.contract, scratch))
        hang = task.hang_seconds
        if task.fan_out is not None:
            notes = _pool_notes(results)
            workers = stack.enter_context(simulated_on_executors(runner, task.fan_out, hang_seconds=hang, notes=notes))
        else:
            workers = stack.enter_context(workers_beside(runner, task.cores, hang_seconds=hang))
        seconds = max(MIXED_SECONDS, task.budget_seconds / 4)
        campaign = SimulatedCampaign(runner, results, should_stop=should_stop, mixed_seconds=seconds, workers=workers)
        campaign.carry_out(SIMULATED_PLAN)
        results.closures += campaign.closures.other_summaries()
        if task.soak_seconds and not results.steering.deferred_to_processes and not results.breaks_a_claim:
            from sinkproof.campaign.random_soak import soak

            soak(runner, results, seconds=task.soak_seconds, first_seed=task.seed)
        look_closer(results, runner)
    if not results.contract.is_ours and results.breaks_a_claim and not results.progress.is_interrupted():
        from sinkproof.campaign.found_again.confirmation import confirm

        confirm(results, hang_seconds=task.hang_seconds)
    return campaign.closures.summary()


def _process(
    results: CampaignResults, scratch: Scratch, *, should_stop: ShouldStop, task: Task
) -> ClosureResult | None:
    from sinkproof.campaign.fan_out.spark_workers import processes_on_executors
    from sinkproof.campaign.process_campaign import ProcessCampaign
    from sinkproof.campaign.process_plan import PROCESS_PLAN
    from sinkproof.campaign.workers.process_workers import workers_beside
    from sinkproof.execution.process_runner import process_runner

    notes = _pool_notes(results)
    with ExitStack() as stack:
        runner = stack.enter_context(process_runner(results.contract, scratch, hang_seconds=task.hang_seconds))
        if task.fan_out is not None:
            workers = stack.enter_context(processes_on_executors(runner, task.fan_out, notes=notes))
        else:
            workers = stack.enter_context(workers_beside(runner, task.cores, notes=notes))
        campaign = ProcessCampaign(runner, results, should_stop=should_stop, run_all=workers.run_all)
        campaign.carry_out(PROCESS_PLAN)
        look_closer(results, runner)
    return None


def _pool_notes(results: CampaignResults) -> PoolNotes:
    """What breaks no claim of the contract is no reason for UNKNOWN, confirmed or not."""
    return PoolNotes(
        lost=results.notes,
        unconfirmed=results.unknowns,
        counts=lambda oracle: bool(ORACLE_CLAIMS[oracle] & results.contract.claims),
        report=results.report,
        say=results.progress.say,
    )


def _spark(results: CampaignResults, scratch: Scratch, *, should_stop: ShouldStop, task: Task) -> ClosureResult | None:
    from sinkproof.campaign.spark_campaign import SparkCampaign, endurance_for
    from sinkproof.campaign.spark_plan import SPARK_PLAN
    from sinkproof.execution.spark_runner import spark_runner
    from sinkproof.reference_engine.shells.spark.driver_supervisor import TooFewSlots

    results.report("starting Spark")
    try:
        with spark_runner(results.contract, scratch, master=task.master) as runner:
            results.notes += [runner.cluster.lacks] if runner.cluster.lacks else []
            endurance = endurance_for(task.budget_seconds)
            campaign = SparkCampaign(runner, results, endurance=endurance, should_stop=should_stop)
            campaign.carry_out(SPARK_PLAN)
            campaign.doubt_kinds_that_never_struck()
    except TooFewSlots as error:
        raise ContractError(str(error)) from error
    return None


CAMPAIGNS: Final[dict[str, Callable[..., ClosureResult | None]]] = {
    "simulated": _simulated,
    "process": _process,
    "spark": _spark,
}


def plan_of(shell: str) -> Plan:
    """Imports no other one: that of Spark's takes most of a second."""
    if shell == "simulated":
        from sinkproof.campaign.simulated_plan import SIMULATED_PLAN

        return SIMULATED_PLAN
    if shell == "process":
        from sinkproof.campaign.process_plan import PROCESS_PLAN

        return PROCESS_PLAN
    from sinkproof.campaign.spark_plan import SPARK_PLAN

    return SPARK_PLAN


def conclude(results: CampaignResults, *, seconds: float, closure: ClosureResult | None) -> ShellOutcome:
    """Adds the reasons why this shell cannot uphold claims: a claim that was not examined is never upheld."""
    coverage = results.coverage
    unknowns, deferred = list(results.unknowns), results.steering.deferred_to_processes
    if not (unknowns or deferred or coverage.rows_committed):
        unknowns.append(f"no row was committed in the {results.shell} shell")
    if not (unknowns or deferred or coverage.readings) and Claim.NO_EARLY_ROWS in results.contract.claims:
        unknowns += [NEVER_READ] if results.shell != "spark" else []  # there, drivers read
    if coverage.unfired:
        results.notes.append(
            f"{len(coverage.unfired)} schedules never found their place, such as {coverage.unfired[0]}"
        )
    if unstruck := coverage.lines_unstruck():
        some = ", ".join(unstruck[:10])
        results.notes.append(f"{len(unstruck)} of {len(coverage.lines_passed)} executed lines were not struck: {some}")
    if coverage.outward.unwatched:
        what = "native code dies" if coverage.outward.is_native else "the command dies"
        results.notes.append(f"{what} and stops between its calls only: {coverage.outward.unwatched}")
    why_deferred = f"the simulated shell could not crash it: {deferred}" if deferred else ""
    if not deferred and (points := coverage.only_in_threads()):
        why_deferred = f"no crash was simulated at {', '.join(points)}, which only threads of the sink's own pass"
    results.notes += [why_deferred] if why_deferred else []
    outcome = replace(results.outcome(seconds=seconds, closure=closure), unknowns=unknowns, deferred=why_deferred)
    return replace(outcome, never_struck=()) if deferred else outcome
