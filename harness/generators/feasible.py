"""Decides which faults and jobs a contract and a shell allow, with the reason if not."""

from __future__ import annotations

from typing import Final

from sinkproof.chaos.faults import KINDS, POWER_LOSSES
from sinkproof.chaos.faults.fault_kind import HOSTS, PROCESSES, SERVICES
from sinkproof.chaos.points import AROUND_CALLS, COORDINATOR_POINTS, is_system_call
from sinkproof.chaos.requests.socket_points import RAISED
from sinkproof.chaos.schedule import Schedule
from sinkproof.chaos.services.inside_run import is_inside_service
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.contract import Contract
from sinkproof.workload.job_names import (
    FAILING_READS_JOB,
    IDLE_CLOSED_JOB,
    IN_CONTAINERS_JOB,
    LONG_WAITS_JOB,
    ORPHANS_JOB,
    OTHER_HOSTS_JOB,
    OTHER_LISTINGS_JOB,
    PIECES_JOB,
    PLAIN_JOBS,
    RARE_JOBS,
    THREADS_JOBS,
    TOGETHER,
    TWO_SINKS_JOB,
    UNUSED_CLOSED_JOB,
    VIRTUAL_JOBS,
    WALL_CLOCK_JOBS,
)
from sinkproof.workload.made_jobs import MADE

OF_TARGET: Final = ("expire", "maintain", *POWER_LOSSES)
AT_CALLS_OF_FUNCTIONS: Final = ("kill-job", "error", "unanswered", "refused-statement", "land")
BY_THE_WATCH: Final = (
    *("silent", "black-hole", "refused-statement", "lock-timeout", "short-write", "kill-program"),
    *("kill-halfway", "meet", "overlap"),
)
OF_PYTHON: Final = (IN_CONTAINERS_JOB, ORPHANS_JOB, OTHER_HOSTS_JOB, FAILING_READS_JOB, OTHER_LISTINGS_JOB, PIECES_JOB)
OF_PROCESSES: Final = (*OF_PYTHON, *THREADS_JOBS, LONG_WAITS_JOB, IDLE_CLOSED_JOB, UNUSED_CLOSED_JOB)
ENGINE_POINTS: Final = (*AROUND_CALLS, *COORDINATOR_POINTS)  # the engine itself passes them, outside of attempts


def impossible(schedule: Schedule, contract: Contract, shell: str, *, on_hosts: bool = False) -> str:
    """Why this schedule cannot be tried on this subject in this shell; "": it can."""
    for fault in schedule.faults:
        if is_inside_service(fault):
            if shell != "process" or fault.kind != "kill" or not is_system_call(fault.point):
                return f"{fault}: a service is killed inside, before a system call, in the process shell only"
            continue
        kind = KINDS[fault.kind]
        hook, is_call = kind.needs, is_system_call(fault.point)
        if is_call and contract.kind == "foreach_batch":
            if fault.kind not in AT_CALLS_OF_FUNCTIONS or shell != "simulated":
                kinds = ", ".join(AT_CALLS_OF_FUNCTIONS)
                return f"{fault}: calls of a foreachBatch function are struck --on simulated, by {kinds}"
            continue
        if is_call and shell != "process":
            return f"{fault}: system calls are watched where sinks are processes. Replay it with --on process"
        if is_call and not kind.applies(fault.actor, fault.point):
            return f"{fault}: {fault.kind!r} cannot strike there: {kind.sentence}"
        if fault.kind in BY_THE_WATCH and not is_call and contract.kind != "foreach_batch":
            return f"{fault}: {fault.kind!r} strikes at system calls, such as 'syscall(sendto socket)': {kind.sentence}"
        if hook == SERVICES and shell == "simulated":
            return f"{fault}: external systems are broken where sinks are processes. Replay it with --on process"
        if hook == HOSTS and not (shell == "spark" and on_hosts):
            return f"{fault}: hosts are broken in a cluster of them. Replay it with --on spark --master cluster:3"
        if hook == PROCESSES and (shell != "process" or not kind.applies(fault.actor, fault.point)):
            return f"{fault}: attempts of sinks end by SIGTERM where they are processes. Replay it with --on process"
        if fault.kind in ("unanswered", *RAISED) and (contract.marks_points or shell == "spark"):
            return f"{fault}: not where a sink names points itself, nor on Spark. Use an error at an `.after` point"
        is_watched = kind.is_power_loss and shell == "process"  # what was forced is known from system calls
        if hook and hook not in (SERVICES, HOSTS, PROCESSES) and not (is_watched or contract.offers(hook)):
            return f"{fault}: {contract.name} does not offer {hook}, without which this is never injected"
        if contract.kind == "foreach_batch":
            continue  # certify_function.py refuses what strikes no function
        if kind.is_virtual and not kind.applies(fault.actor, fault.point):
            return f"{fault}: {fault.kind!r} strikes elsewhere, if at all: {kind.sentence}"
        inside = fault.actor.startswith("sink[") and fault.point not in ENGINE_POINTS and not is_call
        if kind.is_virtual and (shell == "spark" or (shell == "process" and inside)):
            return f"{fault}: {fault.kind!r} cannot strike there in the {shell} shell. Replay it with --on simulated"
    return _impossible_job(schedule, contract, shell)


def _impossible_job(schedule: Schedule, contract: Contract, shell: str) -> str:
    jobs = {*schedule.job.split(TOGETHER)}
    if shell == "spark" and (schedule.ids or schedule.orders or schedule.job.startswith(MADE)):
        return f"{schedule}: ids, orders and made jobs need an engine that is simulated. Replay it --on simulated"
    if shell == "spark" and not jobs.isdisjoint((*VIRTUAL_JOBS, *PLAIN_JOBS, *RARE_JOBS)):
        return f"job={schedule.job} runs with a simulated engine only. Replay it with --on simulated"
    if not jobs.isdisjoint(WALL_CLOCK_JOBS) and shell != "process":
        return f"job={schedule.job} moves the wall clock of processes. Replay it with --on process"
    if not jobs.isdisjoint(OF_PROCESSES) and shell != "process":
        return f"job={schedule.job} is one of attempts that are processes. Replay it with --on process"
    if not jobs.isdisjoint(OF_PYTHON) and contract.kind == "command":
        return f"job={schedule.job} is one of sinks in Python"
    if TWO_SINKS_JOB in jobs and shell != "simulated":
        return f"job={schedule.job} runs in the simulated shell only. Replay it with --on simulated"
    if TWO_SINKS_JOB in jobs and not contract.offers("second_sink"):
        return f"job={schedule.job}: {contract.name} does not offer second_sink(scratch)"
    return ""


def offered(contract: Contract, *kinds: str) -> list[str]:
    """The kinds that need nothing of the contract, or only what it offers."""
    return [kind for kind in kinds if not KINDS[kind].needs or contract.offers(KINDS[kind].needs)]


def of_target(contract: Contract) -> list[str]:
    """Faults of the target, if the simulated shell cannot copy it and leaves them to the other shells."""
    return [] if contract.copies else offered(contract, *OF_TARGET)


def settles(runner: ScheduleRunner) -> bool:
    """Whether the sink has a `settle` that retries what could not be committed."""
    if runner.contract.kind == "command":
        return True
    return callable(getattr(runner.contract.sink(runner.scratch), "settle", None))
