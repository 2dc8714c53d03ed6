"""Certifies a foreachBatch function, in a simulated query or in real Structured Streaming; replays its schedules."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import chdir, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.land_late_write import LAND
from sinkproof.chaos.faults.refused_statement import REFUSED_STATEMENT
from sinkproof.chaos.points import is_system_call
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.spawn import ForkServer, NoReply
from sinkproof.chaos.schedule import COORDINATOR, STANDARD, Schedule, parse
from sinkproof.chaos.system_calls.place_names import is_sent
from sinkproof.chaos.system_calls.watched_program import NotWatched
from sinkproof.execution.run_result import RunResult
from sinkproof.foreach_batch.certifying_query import AFTER_COMMIT, ERROR, FAIL, KILL, LOSE, UNANSWERED
from sinkproof.foreach_batch.failing_jobs import FAILING
from sinkproof.foreach_batch.followed_schedules import FaultsInside, followed
from sinkproof.foreach_batch.function_campaign import (
    SIMULATED_FUNCTION_PLAN,
    WITHOUT_COPIES,
    SimulatedFunctionCampaign,
)
from sinkproof.foreach_batch.function_canaries import blind_spots, laid_out
from sinkproof.foreach_batch.function_results import FunctionResults, run_result
from sinkproof.foreach_batch.retried_tasks import MASTER, settings
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery, can_be_copied
from sinkproof.foreach_batch.streaming_campaign import STREAMING_FUNCTION_PLAN, StreamingFunctionCampaign
from sinkproof.foreach_batch.streaming_driver_supervisor import StreamingRunner
from sinkproof.foreach_batch.struck_driver import struck_drivers
from sinkproof.foreach_batch.traced_workers import workers_find
from sinkproof.foreach_batch.watched_query import NotRun, watched_query
from sinkproof.reference_engine.shells.spark.java_installation import SparkUnavailable
from sinkproof.reference_engine.shells.spark.spark_session import start_session, stop_session
from sinkproof.reports.document import ClosureResult
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.subject.claims import ORACLE_CLAIMS
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.heartbeat import heartbeat, while_it_moves
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder
from sinkproof.subject.services_in_use import ServicesInUse

Explored = tuple[ClosureResult | None, str]  # and the stage that the budget left out
ENTRY: Final = "sinkproof.foreach_batch.certify_function:show_again"
SHOWN_AGAIN_MOST: Final = 3  # of findings, until one shows again
SHOWN_AGAIN_SECONDS: Final = 300.0
# After this share of the budget no sequence of crashes begins: it would find little more than single crashes do.
SEQUENCES_SHARE: Final = 0.5


def explore(contract: Contract, task: Task, *, progress: Progress) -> ShellOutcome:
    """One shell's part of the certificate. Raises ContractError where there is no Spark."""
    progress.start(task.name, "crashes of batches")
    began = now()
    with prepared_scratch(contract, task, progress=progress) as scratch:
        results = FunctionResults(contract, scratch, progress=progress)
        closure, left_out = SHELLS[task.shell](results, scratch, task=task, progress=progress)
    if task.shell == "simulated" and results.breaks_a_claim:
        with heartbeat("showing a finding again in another process", results.report):
            forget_unless_shown_again(results, task)
    outcome = results.outcome(seconds=now() - began, closure=closure)
    return replace(outcome, ended_before=left_out if task.budget_holds else "")


def forget_unless_shown_again(results: FunctionResults, task: Task, *, entry: str = ENTRY) -> None:
    """All runs share a process, and libraries may keep in it what a new driver would not have. `entry`: of a process
    that makes one run.
    """
    schedules = list(dict.fromkeys(finding.schedule for finding in results.findings if finding.claimed))
    if any(_is_shown_again(replace(task, schedule=each), entry) for each in schedules[:SHOWN_AGAIN_MOST]):
        return
    results.forget()
    results.unknowns.append(
        f"{schedules[0]} breaks a claim in a process that has made other runs before, and not in one of its own: "
        "something of the function, or a library, outlives the driver there, such as a connection that is kept for the "
        "whole process"
    )


def _is_shown_again(task: Task, entry: str) -> bool:
    with ForkServer(preload=[entry.partition(":")[0]]) as server, closing(server.spawn(entry, task)) as child:
        try:
            return bool(pickle.loads(child.receive(Deadline(SHOWN_AGAIN_SECONDS))))
        except NoReply:
            return True  # it is not refuted


def show_again(inside: Inside, task: Task) -> None:
    """The entry of that process."""
    contract = load(task.locator)
    result = try_again(contract, task, progress=SILENT)
    inside.send(pickle.dumps(any(ORACLE_CLAIMS[anomaly.oracle] & contract.claims for anomaly in result.anomalies)))


def try_again(contract: Contract, task: Task, *, progress: Progress) -> RunResult:
    """Runs one schedule from the empty folder. Raises ContractError for a fault of another kind."""
    schedule = parse(task.schedule, kinds=frozenset(KINDS))
    refuse_other_faults(schedule, task.shell)
    with prepared_scratch(contract, task, progress=progress) as scratch:
        if task.shell == "simulated":
            with (
                simulated_query(contract, scratch, progress=progress) as query,
                _watched_if_needed(contract, scratch, schedule, progress=progress) as inside,
                heartbeat(str(schedule), while_it_moves(lambda: query.reached, progress.report)),
            ):
                return followed(query, schedule, inside=inside)[0]
        with closing(StreamingRunner(contract, scratch, hang_seconds=task.hang_seconds, progress=progress)) as runner:
            done = runner.run(schedule.faults)
            if done.no_result:
                raise ContractError(done.no_result)
            return run_result(
                contract,
                schedule,
                done.ending,
                injected=done.injected,
                line=done.line,
                trail=done.trail,
                kills=done.kills,
            )


@contextmanager
def _watched_if_needed(
    contract: Contract, scratch: Scratch, schedule: Schedule, *, progress: Progress
) -> Iterator[FaultsInside | None]:
    """For faults inside calls, if the schedule has any, and for deaths where the target cannot be copied. Raises
    ContractError where they cannot be injected.
    """
    copies = can_be_copied(contract)
    if not any(is_system_call(fault.point) or not (copies or fault.kind in FAILING) for fault in schedule.faults):
        yield None
        return
    fails = any(is_system_call(fault.point) and fault.kind in (*FAILING, LAND.word) for fault in schedule.faults)
    watch = watched_query if copies and not fails else struck_drivers
    try:
        with (
            heartbeat("watching the calls of a driver", progress.report),
            watch(contract, scratch) as inside,
        ):
            yield inside
    except (NotWatched, NotRun) as why:
        raise ContractError(f"no fault inside a call can be shown: {why}") from why


def refuse_other_faults(schedule: Schedule, shell: str) -> None:
    if shell != "simulated" and schedule.job != STANDARD:
        raise ContractError(f"job={schedule.job} runs --on simulated only: a real query has a source of its own")
    for number, fault in enumerate(schedule.faults, 1):
        is_last = number == len(schedule.faults) and shell == "simulated"
        if is_last and (fault.kind in FAILING or (fault.kind == LAND.word and is_sent(fault.point))):
            continue
        if (
            fault.kind not in (KILL, LOSE)
            or fault.actor != COORDINATOR
            or (fault.kind, fault.point == AFTER_COMMIT) == (LOSE, False)
        ):
            raise ContractError(
                f"{fault}: a foreachBatch function is crashed by {KILL} at any point of its query, or by "
                f"{AFTER_COMMIT}#N={LOSE}, which removes the last commits/N; simulated, the last fault may be {ERROR}, "
                f"{FAIL}, {UNANSWERED} or {REFUSED_STATEMENT.word} at a call to the outside, or {LAND.word} at a "
                "system call that sends something"
            )


# -- simulated -------------------------------------------------------------------------------------


def _simulated(results: FunctionResults, scratch: Scratch, *, task: Task, progress: Progress) -> Explored:
    copies = can_be_copied(results.contract)
    if not copies:
        results.deferred = (
            "the simulated shell could not crash it: what setup makes and teardown removes lies outside of the folder, "
            "and its state after a crash cannot be copied"
        )
    canaries = laid_out(scratch.path.parent / "canaries") if task.canaries else {}
    with simulated_query(results.contract, scratch, progress=progress) as query:
        if canaries:
            with heartbeat("trying functions that are wrong on purpose", results.report):
                results.unknowns += blind_spots(scratch, query.session, canaries)
        deadline = Deadline(task.budget_seconds * SEQUENCES_SHARE)  # without the start of Spark, and the canaries
        watch = partial(watched_query, results.contract, scratch)
        drivers = partial(struck_drivers, results.contract, scratch)
        campaign = SimulatedFunctionCampaign(
            *(query, results),
            deadline=deadline,
            copies=copies,
            watch=watch,
            drivers=drivers,
            ends=Deadline(task.budget_seconds) if task.budget_holds else None,
        )
        campaign.carry_out(SIMULATED_FUNCTION_PLAN if copies else WITHOUT_COPIES)
    return campaign.closure() if copies else None, campaign.left_out()


@contextmanager
def simulated_query(contract: Contract, scratch: Scratch, *, progress: Progress) -> Iterator[SimulatedQuery]:
    """In a session of its own. Within the context the working directory is the scratch folder."""
    starting = "starting Spark"  # reported, as a first start also makes the archive of classes, which takes long
    progress.report(starting)
    with heartbeat(starting, progress.report):
        folder = scratch.path.parent / "spark"
        kills_task = folder / "kills-task"
        needed = {**settings(kills_task), **workers_find(contract.given.files)}
        session = start_session(master=MASTER, folder=folder, here=scratch.path, settings=needed)
    try:
        with chdir(scratch.path):
            yield SimulatedQuery(contract, scratch, session, kills_task=kills_task)
    finally:
        stop_session(session)


# -- real ------------------------------------------------------------------------------------------


def _streaming(results: FunctionResults, scratch: Scratch, *, task: Task, progress: Progress) -> Explored:
    deadline = Deadline(task.budget_seconds)
    runner = StreamingRunner(results.contract, scratch, hang_seconds=task.hang_seconds, progress=progress)
    with closing(runner):
        campaign = StreamingFunctionCampaign(runner, results, deadline=deadline, budget_holds=task.budget_holds)
        campaign.carry_out(STREAMING_FUNCTION_PLAN)
    return None, campaign.left_out()


# -- both ------------------------------------------------------------------------------------------

SHELLS: dict[str, Callable[..., Explored]] = {"simulated": _simulated, "spark": _streaming}


@contextmanager
def prepared_scratch(contract: Contract, task: Task, *, progress: Progress) -> Iterator[Scratch]:
    """A fresh folder, with the scratch folder in it; what the last `setup` has made is removed in the end. Within the
    context SparkUnavailable becomes a ContractError.
    """
    shell, services = task.shell, ServicesInUse(options=task.services, report=progress.report)
    if shell not in SHELLS:
        raise ContractError(f"{contract.locator}: a foreachBatch function runs --on {' or '.join(SHELLS)}, not {shell}")
    with scratch_folder() as folder:
        path = folder / "scratch"
        path.mkdir()
        scratch = Scratch(name=f"{contract.name}-{shell}", path=path, shell=shell, services=services)
        try:
            yield scratch
        except SparkUnavailable as error:
            raise ContractError(str(error)) from error
        finally:
            contract.call_if_there("teardown", scratch)
