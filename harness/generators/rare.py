"""Rarer faults and jobs: what is tried besides deaths, zombies, errors and lost messages, and where.

Places are sparse: of each point the first, the middle and the last time that it is passed. A fault that needs the
contract's help is tried where the contract offers it; deaths of attempts inside this process only where the contract
can copy its target (see simulated_campaign.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sinkproof.campaign.baseline import rescaled
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.faults import KINDS, is_virtual, needs
from sinkproof.chaos.lines import LineTracer
from sinkproof.chaos.points import AROUND_CALLS, COORDINATOR_POINTS
from sinkproof.chaos.schedule import COORDINATOR, STANDARD, Fault, Schedule
from sinkproof.exploration.shrinking import smallest
from sinkproof.generators.fault_sites import DECIDED, spread
from sinkproof.judging.fault_allowances import POWER_LOSSES
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.workload.jobs import (
    JOBS,
    LATE_SETTLING_JOB,
    MADE,
    PERIODIC_CHECKPOINTS_JOB,
    PLAIN_JOBS,
    REUSED_PROCESS_JOB,
    TWO_SINKS_JOB,
    VIRTUAL_JOBS,
)

if TYPE_CHECKING:
    from sinkproof.campaign.results import CampaignResults
    from sinkproof.execution.schedule_runner import RunResult, ScheduleRunner

WATCH: Final = "watch"  # in a tally's cells: not a fault, but runs in which a reader looked beside the sinks
EVERYWHERE: Final = "every step"
MESSAGES: Final = ("late", "repeat")
SERVICES: Final = "services"  # what faults need that break external systems: one that is used, and is ours
HARMLESS: Final = frozenset(
    {"cancel", "decline", "depose", "drain", "expire", "lose", "maintain", *MESSAGES}
)  # nobody dies with sink code on the stack
SLOW_SECONDS: Final = 3.0  # of some 75 watched runs, which take 0.1 s in memory, and a tenth of that more for each file
WATCHED_KINDS: Final = ("kill-job", "kill", "stop")
ELSEWHERE: Final = (*AROUND_CALLS, *COORDINATOR_POINTS)  # where the engine itself stands when attempts are processes
TOLD_ODDLY: Final = ("decline", "lose", *MESSAGES)
TOLD: Final = "notify_complete.before"
VOTE: Final = "acknowledge.before"
OF_TARGET: Final = ("expire", "maintain", *sorted(POWER_LOSSES))
FEW: Final = 2  # faults, in a schedule that is short enough as it is
EACH: Final = 99  # more often than a certifying job passes any point
TWO_DIGITS: Final = 8  # what checkpoint ids begin after: as texts, 10 and 11 come before 9


class RareFaults:
    """The schedules for one subject. `run` is called for each, and for the runs that others are derived from; `close`
    crashes the whole of a job at every named point, perhaps after other faults. Who cannot be copied is struck after an
    abort here, because its closures may never come to that.
    """

    def __init__(
        self,
        runner: ScheduleRunner,
        results: CampaignResults,
        *,
        run: Callable[[Schedule], RunResult],
        close: Callable[..., None],
    ) -> None:
        self.runner, self.results, self.run, self.close = runner, results, run, close
        self.contract: Contract = runner.contract
        self.exact = self.contract.copies
        self.thin = False

    def offered(self, *kinds: str) -> list[str]:
        """Those of the kinds that this contract and this shell allow."""
        return offered(self.contract, *kinds)

    def may(self, fault: Fault) -> bool:
        return self.exact or fault.kind in HARMLESS or (fault.kind == "kill" and fault.actor == COORDINATOR)

    def try_all(self, baseline: RunResult) -> None:
        """Most telling first."""
        deadline = Deadline(SLOW_SECONDS)
        self.watch(baseline)
        if self.exact and deadline.over:
            self.thin = True
            self.results.notes.append("a run takes long: rarer faults were tried once at each step, not three times")
        self._try(self._messages(baseline))
        self._try(Schedule(faults, ids=ids) for faults in several(baseline) for ids in (0, TWO_DIGITS))
        death = "kill-job" if self.exact else "kill"
        self._try(all_at_once(baseline, death))
        self._try(in_plain_jobs(self.run, death))
        if not self.exact:
            one = [(fault,) for kind in TOLD_ODDLY for fault in self._spread(baseline, kind)]
            self.close(STANDARD, preludes=[*one, *several(baseline)])
        self._try(self._of_target(baseline))
        self._try(self._of_power(baseline))
        for job in self.jobs():
            self._try(self._in_job(job))
            self.close(job, preludes=self._preludes(job))
        self._try(self._of_engine(baseline))
        self._try(self._requests(baseline))

    def jobs(self) -> list[str]:
        left_out = set() if self.contract.offers("second_sink") else {TWO_SINKS_JOB}
        left_out.add(REUSED_PROCESS_JOB)  # all attempts are in this process
        left_out |= set() if settles(self.runner) else {LATE_SETTLING_JOB}
        return [job for job in VIRTUAL_JOBS if job not in left_out]

    def _preludes(self, job: str) -> list[tuple[Fault, ...]]:
        """What may strike before everybody dies: to be in doubt, two checkpoints have to become due at once."""
        if job != LATE_SETTLING_JOB:
            return [()]
        alone = self.runner.run(Schedule(job=job))
        return [(), *((fault,) for kind in ("lose", "decline") for fault in self._spread(alone, kind, times=2))]

    def _try(self, schedules: Iterable[Schedule]) -> None:
        chosen = [each for each in dict.fromkeys(schedules) if all(map(self.may, each.faults))]
        self.results.in_bound += len(chosen)
        self.results.progress.start(self.contract.name, self.results.shell, self.results.in_bound)
        for schedule in chosen:
            self.run(schedule if len(schedule.faults) <= FEW else self._shortened(schedule))

    def _shortened(self, schedule: Schedule) -> Schedule:
        """Of many faults those that are needed, if it convicts: nobody reads a line of ten."""
        found = next(iter(self.runner.run(schedule).anomalies), None)
        shorter = found and smallest(self.runner, schedule, oracle=found.oracle, tracer=LineTracer({}))
        return shorter.schedule if shorter else schedule

    # -- a reader beside the sinks -----------------------------------------------------------------

    def watch(self, baseline: RunResult, *, jobs: Iterable[str] = JOBS) -> None:
        """Runs in which somebody reads wherever the target has changed."""
        faults = [fault for kind in WATCHED_KINDS for fault in spread(baseline, kind, times=1)]
        schedules = [*(Schedule(job=job) for job in jobs), *(Schedule((fault,)) for fault in faults if self.may(fault))]
        decided = Fault(COORDINATOR, DECIDED, 1, "kill-job")  # with another parallelism not everybody finishes at once
        schedules += [Schedule((decided,), job=job) for job in rescaled(self.results) if self.may(decided)]
        self.results.in_bound += len(schedules)
        watch(self.runner, self.results, schedules, run=self.run)

    # -- singles, and what follows them ------------------------------------------------------------

    def _spread(self, run_result: RunResult, kind: str, *, times: int = 3) -> Iterator[Fault]:
        return spread(run_result, kind, times=1 if self.thin else times)

    def _messages(self, baseline: RunResult) -> Iterator[Schedule]:
        """Told late, or twice: that a checkpoint is complete, and that one was aborted."""
        for kind in MESSAGES:
            yield from (Schedule((fault,)) for fault in spread(baseline, kind, times=8))
        decline = next(spread(baseline, "decline"), None)
        if decline is None:
            return
        declined = self.run(Schedule((decline,)))
        for kind in MESSAGES:
            faults = (fault for fault in spread(declined, kind, times=4) if fault.point == "checkpoint.abort")
            yield from (Schedule((decline, fault)) for fault in faults)

    def _of_target(self, baseline: RunResult) -> Iterator[Schedule]:
        """Time limits and maintenance, by themselves, between a death and the recovery from it, one after the other."""
        kinds = self.offered("expire", "maintain")
        for kind in kinds:
            yield from (Schedule((fault,)) for fault in self._spread(baseline, kind))
            yield from self._after_deaths(baseline, kind)
        if len(kinds) > 1:
            for fault in self._spread(baseline, "expire"):
                then = Fault(fault.actor, fault.point, fault.occurrence + 1, "maintain")
                yield Schedule((fault, then))
            yield from both_before_commits(baseline)
            yield from both_after(self._spread(baseline, "kill-job", times=2))

    def _after_deaths(self, baseline: RunResult, kind: str) -> Iterator[Schedule]:
        """While nobody runs: right before the next generation begins."""
        for death in self._spread(baseline, "kill-job", times=2):
            yield Schedule((death, Fault(COORDINATOR, "generation.before", 2, kind)))

    def _of_power(self, baseline: RunResult) -> Iterator[Schedule]:
        for kind in self.offered(*sorted(POWER_LOSSES)):
            yield from (Schedule((fault,)) for fault in self._spread(baseline, kind))

    def _of_engine(self, baseline: RunResult) -> Iterator[Schedule]:
        """A job that is cancelled or stopped and goes on, two coordinators, older checkpoints."""
        for kind, times in (("cancel", 3), ("drain", 3), ("depose", 3), ("rewind", 2), ("forget", 2)):
            yield from (Schedule((fault,)) for fault in self._spread(baseline, kind, times=times))

    def _requests(self, baseline: RunResult) -> Iterator[Schedule]:
        """Requests that outlive their sender, and calls that fail again and again."""
        for kind, times in (("land", 3), ("fail", 5)):
            yield from (Schedule((fault,)) for fault in self._spread(baseline, kind, times=times))

    # -- jobs --------------------------------------------------------------------------------------

    def _in_job(self, job: str) -> Iterator[Schedule]:
        """What a restart does in this job: after deaths of everybody and of one, and for those who wake up later."""
        alone = self.run(Schedule(job=job))
        for kind, times in (("kill", 2), ("stop", 2), ("rewind", 1)):
            yield from (Schedule((fault,), job=job) for fault in self._spread(alone, kind, times=times))
        if job == PERIODIC_CHECKPOINTS_JOB:
            refused = [fault for fault in spread(alone, "decline", times=EACH) if fault.actor == "sink[0]"]
            by_two = [replace(refused[0], actor=f"source[{number}]") for number in (0, 1)]
            yield from (Schedule(tuple(faults), job=job) for faults in (refused[:1], refused[:2], refused[1:3], by_two))


def watch(
    runner: ScheduleRunner,
    results: CampaignResults,
    schedules: Sequence[Schedule],
    *,
    run: Callable[[Schedule], RunResult],
) -> None:
    """Tries them while a reader looks wherever the target has changed."""
    runner.watches = True
    try:
        for schedule in schedules:
            run(schedule)
            cell = results.cells.setdefault((EVERYWHERE, WATCH), [0, 0, 0])
            cell[0] += 1
            cell[1] += 1
    finally:
        runner.watches = False


def impossible(schedule: Schedule, contract: Contract, shell: str) -> str:
    """Why this schedule cannot be tried on this subject in this shell; "": it can."""
    for fault in schedule.faults:
        hook = needs(fault.kind)
        if hook == SERVICES and shell == "simulated":
            return f"{fault}: external systems are broken where sinks are processes. Replay it with --on process"
        if fault.kind == "unanswered" and (contract.marks_points or shell == "spark"):
            return f"{fault}: not where a sink names points itself, nor on Spark. Use an error at an `.after` point"
        if hook and hook != SERVICES and not contract.offers(hook):
            return f"{fault}: {contract.name} does not offer {hook}, without which this is never injected"
        if is_virtual(fault.kind) and not KINDS[fault.kind].applies(fault.actor, fault.point):
            return f"{fault}: {fault.kind!r} strikes elsewhere, if at all: {KINDS[fault.kind].SENTENCE}"
        inside = fault.actor.startswith("sink[") and fault.point not in ELSEWHERE
        if is_virtual(fault.kind) and (shell == "spark" or (shell == "process" and inside)):
            return f"{fault}: {fault.kind!r} cannot strike there in the {shell} shell. Replay it with --on simulated"
    if shell == "spark" and (schedule.ids or schedule.orders or schedule.job.startswith(MADE)):
        return f"{schedule}: ids, orders and made jobs need an engine that is simulated. Replay it --on simulated"
    if schedule.job in (*VIRTUAL_JOBS, *PLAIN_JOBS) and shell == "spark":
        return f"job={schedule.job} runs with a simulated engine only. Replay it with --on simulated"
    if schedule.job == TWO_SINKS_JOB and shell != "simulated":
        return f"job={schedule.job} runs in the simulated shell only. Replay it with --on simulated"
    if schedule.job == TWO_SINKS_JOB and not contract.offers("second_sink"):
        return f"job={schedule.job}: {contract.name} does not offer second_sink(scratch)"
    return ""


def refuse_impossible(schedule: Schedule, contract: Contract, shell: str) -> None:
    if why := impossible(schedule, contract, shell):
        raise ContractError(why)


def offered(contract: Contract, *kinds: str) -> list[str]:
    return [kind for kind in kinds if not needs(kind) or contract.offers(needs(kind))]


def of_target(contract: Contract) -> list[str]:
    """What can be done to the target of a contract that the simulated shell cannot copy, and so leaves to others."""
    return [] if contract.copies else offered(contract, *OF_TARGET)


def settles(runner: ScheduleRunner) -> bool:
    """Whether this sink is ever asked again about what it could not settle."""
    if hasattr(runner.contract.given, "command"):
        return True
    return callable(getattr(runner.contract.sink(runner.scratch), "settle", None))


def both_before_commits(baseline: RunResult) -> Iterator[Schedule]:
    """Time limits pass and maintenance runs between the last vote and the commit."""
    expired = (fault for fault in spread(baseline, "expire", times=EACH) if fault.point == "checkpoint.persist.before")
    yield from (Schedule((fault, replace(fault, point=DECIDED, kind="maintain"))) for fault in expired)


def both_after(deaths: Iterable[Fault]) -> Iterator[Schedule]:
    """The same between a death of everybody and the recovery from it."""
    expired = Fault(COORDINATOR, "generation.before", 2, "expire")
    maintained = Fault(COORDINATOR, "generation.after", 2, "maintain")
    yield from (Schedule((death, expired, maintained)) for death in deaths)


def unheard(baseline: RunResult) -> list[Fault]:
    """Nobody hears of any checkpoint but the last."""
    sinks = sum(name.startswith("sink[") for name in baseline.names)
    told = [fault for fault in spread(baseline, "lose", times=EACH) if fault.point == "checkpoint.notify"]
    return told[:-sinks]


def several(baseline: RunResult) -> Iterator[tuple[Fault, ...]]:
    """Nothing heard of any checkpoint but the last: for each sink, for all of them; and all but the last refused."""
    sinks, lost = sum(name.startswith("sink[") for name in baseline.names), unheard(baseline)
    for first in range(sinks):
        yield tuple(lost[first::sinks])
    yield tuple(lost)
    refused = [fault for fault in spread(baseline, "decline", times=EACH) if fault.actor == "sink[0]"]
    yield tuple(refused[:-1])


def all_at_once(baseline: RunResult, death: str) -> Iterator[Schedule]:
    """Who comes back has every checkpoint to commit, with ids of one digit, and of one and of two."""
    last = [fault for fault in spread(baseline, death) if fault.point == DECIDED][-1:]
    unheard = [faults for faults in several(baseline) if {fault.kind for fault in faults} == {"lose"}]
    yield from (Schedule((*faults, *last), ids=ids) for faults in unheard for ids in (0, TWO_DIGITS))


def in_plain_jobs(run: Callable[[Schedule], RunResult], kind: str) -> Iterator[Schedule]:
    """Deaths when something was decided, and everything heard too late."""
    for job in PLAIN_JOBS:
        alone = run(Schedule(job=job))
        yield from (Schedule((fault,), job=job) for fault in spread(alone, kind) if fault.point == DECIDED)
    yield from (Schedule(unheard, job=job) for unheard in several(alone))
