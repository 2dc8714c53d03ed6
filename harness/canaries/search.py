"""The campaign of a canary: the usual plan, after a stage that begins where the canary's own sin shows.

Forty whole campaigns would take as long as the certification itself. So the job and the fault kinds of a canary's sin
come first: at each point once, then at every occurrence. The schedule that convicts a canary in the simulated shell is
repeated in the other shells. If this stage convicts no canary, the usual plan follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from sinkproof.campaign.baseline import first_run
from sinkproof.campaign.campaign_budget import begin, conclude, run_campaign
from sinkproof.campaign.loop import Campaign, ShouldStop
from sinkproof.campaign.process_campaign import CampaignInProcesses, ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Plan, Stage
from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.canaries.catalogue import Canary
from sinkproof.chaos.clock import now
from sinkproof.chaos.points import SINK_POINTS
from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.execution.fork_servers import Servers, fork_servers
from sinkproof.execution.make_sink import PRELOAD
from sinkproof.execution.process_runner import (
    ProcessRunner,
    process_runner,
)
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.fault_sites import first_of_each, places
from sinkproof.reports.progress import Progress
from sinkproof.subject.claims import READ_BESIDE
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import locator_of
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import SPARSE_JOB

SPARSE: Final = SPARSE_JOB  # shows what overlapping checkpoints hide
CampaignFunction = Callable[..., ShellOutcome]  # what `run_campaign` does, perhaps in another way
CarryOut = Callable[[CampaignResults, Scratch, ShouldStop], None]
STAGE: Final = "where the canary's sin shows"


class CanaryCampaign(Campaign):
    """In the simulated shell, with a baseline only before the first stage."""

    def prepare(self) -> bool:
        first = first_run(self.runner, self.results, play=self.play, take=self.take)
        self._baseline = first
        return first is not None


class WatchedStages(ProcessCampaign):
    """Stages that watch system calls, which need no baseline."""

    def prepare(self) -> bool:
        return True


class GivenSchedules(CampaignInProcesses):
    """In the process shell, without a baseline."""

    def prepare(self) -> bool:
        return True


def search(
    canary: Canary, contract: Contract, task: Task, *, folder: Path, progress: Progress, should_stop: ShouldStop
) -> ShellOutcome:
    """As `run_campaign`, in the simulated shell."""
    results, scratch = begin(contract, task, folder=folder, progress=progress)
    began = now()

    def schedules(campaign: Campaign) -> Iterator[Schedule]:
        return schedules_of_its_sin(canary, campaign)

    with ScheduleRunner(contract, scratch) as runner:
        runner.find_own_files()
        reads = bool(contract.claims & READ_BESIDE)
        stage = Stage(name=STAGE, schedules=schedules, lines=canary.at_lines, concurrent_reader=reads)
        CanaryCampaign(runner, results, should_stop=should_stop).carry_out((stage,))
        runner.reset()
    if should_stop(results):
        return conclude(results, seconds=now() - began, closure=None)
    return run_campaign(contract, task, folder=folder, progress=progress, should_stop=should_stop)


def schedules_of_its_sin(canary: Canary, campaign: Campaign) -> Iterator[Schedule]:
    """Of each kind: each point once, then every effect on the target, and finally every occurrence. Or each line."""
    kinds = [kind for kind in canary.faults if kind]
    for under in dict.fromkeys((parse(canary.under), Schedule(job=SPARSE))):
        yield under
        if canary.at_lines:
            lines = campaign.run_traced(under)
            yield from (
                replace(under, faults=(fault,)) for kind in kinds for fault in first_of_each(lines, kind, lines=True)
            )
            continue
        baseline = campaign.run(under)
        faults: list[Fault] = []
        for kind in kinds:
            effects = [fault for fault in places(baseline, kind) if fault.point in SINK_POINTS]
            faults += [*first_of_each(baseline, kind, lines=False), *effects]
        rest = [fault for kind in kinds for fault in places(baseline, kind)]
        for fault in dict.fromkeys([*faults, *rest]):
            again = [replace(fault, occurrence=fault.occurrence + more) for more in range(canary.times)]
            yield replace(under, faults=tuple(again))


@contextmanager
def servers_of(contracts: Iterable[type]) -> Iterator[Servers]:
    """For all canaries: starting them takes longer than most convictions. They run no sink's code themselves."""
    warm = [("sinkproof.subject.loading:load", locator_of(contract)) for contract in contracts]
    with fork_servers(preload=PRELOAD, warm=warm) as servers:
        yield servers


def campaign_in(carry_out: CarryOut, *, shell: str = "") -> CampaignFunction:
    """As `run_campaign`, but with these runs only. `shell`: where another one than the task's runs it."""

    def run_as(
        contract: Contract, task: Task, *, folder: Path, progress: Progress, should_stop: ShouldStop
    ) -> ShellOutcome:
        results, scratch = begin(contract, task, folder=folder, progress=progress, shell=shell)
        began = now()
        carry_out(results, scratch, should_stop)
        return conclude(results, seconds=now() - began, closure=None)

    return run_as


def repeat(canary: Canary, servers: Servers, convicting: Schedule | None) -> CampaignFunction:
    """In the process shell, after the schedule that convicted the canary in the simulated one, if that one can."""
    if canary.stages:
        return watch_in(canary.stages, servers)
    stage = Stage(name=STAGE, schedules=lambda campaign: schedules_of_its_sin(canary, campaign))
    plan = PROCESS_PLAN if "simulated" in canary.shells else (stage, *PROCESS_PLAN)

    def carry_out(results: CampaignResults, scratch: Scratch, should_stop: ShouldStop) -> None:
        first = [] if convicting is None else [convicting]
        with ProcessRunner(results.contract, scratch, servers=servers) as runner:
            runner.find_own_files()
            ProcessCampaign(runner, results, first=first, should_stop=should_stop).carry_out(plan)

    return campaign_in(carry_out)


def watch_in(stages: Plan, servers: Servers) -> CampaignFunction:
    """In the process shell, these stages only."""

    def carry_out(results: CampaignResults, scratch: Scratch, should_stop: ShouldStop) -> None:
        with ProcessRunner(results.contract, scratch, servers=servers) as runner:
            runner.find_own_files()
            WatchedStages(runner, results, should_stop=should_stop).carry_out(stages)

    return campaign_in(carry_out)


def run_these(schedules: Sequence[str]) -> CampaignFunction:
    """In the process shell, these schedules only: on a real external system no simulation helps."""

    def carry_out(results: CampaignResults, scratch: Scratch, should_stop: ShouldStop) -> None:
        def is_convicted(results: CampaignResults) -> bool:
            return results.breaks_a_claim and should_stop(results)

        reads = bool(results.contract.claims & READ_BESIDE)
        stage = Stage(name=STAGE, schedules=lambda _: map(parse, schedules), concurrent_reader=reads)
        with process_runner(results.contract, scratch) as runner:
            GivenSchedules(runner, results, should_stop=is_convicted).carry_out((stage,))

    return campaign_in(carry_out, shell="process")
