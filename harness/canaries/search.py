"""The campaign of a canary: the usual plan, after a stage that begins where the canary's own sin shows.

Forty whole campaigns would take as long as the certification itself. So the job and the fault kinds of a canary's sin
come first: at each point once, then at every occurrence. The schedule that convicts a canary in the simulated shell is
repeated in the other shells. If this stage convicts no canary, the usual plan follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from sinkproof.campaign.baseline import first_run
from sinkproof.campaign.loop import Campaign, ShouldStop
from sinkproof.campaign.process_campaign import CampaignInProcesses, ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.run import begin, conclude, run_campaign
from sinkproof.campaign.stage import Stage
from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.canaries.catalogue import Canary
from sinkproof.chaos.clock import now
from sinkproof.chaos.points import SINK_POINTS
from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.execution.process_runner import (
    HANG_SECONDS,
    PRELOAD,
    ProcessRunner,
    Servers,
    fork_servers,
    process_runner,
)
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.fault_sites import first_of_each, places
from sinkproof.reports.progress import Progress
from sinkproof.subject.claims import READ_BESIDE
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import locator_of
from sinkproof.workload.jobs import SPARSE_JOB

SPARSE: Final = SPARSE_JOB  # shows what overlapping checkpoints hide
STAGE: Final = "where the canary's sin shows"


class CanaryCampaign(Campaign):
    """In the simulated shell, with a baseline only before the first stage."""

    def prepare(self) -> bool:
        first = first_run(self.runner, self.results, lambda schedule: self.take(self.play(schedule)))
        self._baseline = first
        return first is not None


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
        stage = Stage(name=STAGE, schedules=schedules, concurrent_reader=bool(contract.claims & READ_BESIDE))
        CanaryCampaign(runner, results, should_stop=should_stop).carry_out((stage,))
        runner.reset()
    if should_stop(results):
        return conclude(results, seconds=now() - began, closure=None, stopped=True)
    return run_campaign(contract, task, folder=folder, progress=progress, should_stop=should_stop)


def schedules_of_its_sin(canary: Canary, campaign: Campaign) -> Iterator[Schedule]:
    """Of each kind: each point once, then every effect on the target, and finally every occurrence."""
    kinds = [kind for kind in canary.faults if kind]
    for under in dict.fromkeys((parse(canary.under), Schedule(job=SPARSE))):
        yield under
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


def repeat(
    found: tuple[Servers, Schedule | None],
    contract: Contract,
    task: Task,
    *,
    folder: Path,
    progress: Progress,
    should_stop: ShouldStop,
) -> ShellOutcome:
    """As `run_campaign`, in the process shell, after the schedule that convicted the canary in the simulated one."""
    servers, convicting = found
    results, scratch = begin(contract, task, folder=folder, progress=progress)
    began = now()
    with ProcessRunner(contract, scratch, servers=servers, hang_seconds=HANG_SECONDS) as runner:
        runner.find_own_files()
        first = [] if convicting is None else [convicting]
        ProcessCampaign(runner, results, first=first, should_stop=should_stop).carry_out(PROCESS_PLAN)
    return conclude(results, seconds=now() - began, closure=None, stopped=True)


def run_these(
    schedules: Sequence[str],
    contract: Contract,
    task: Task,
    *,
    folder: Path,
    progress: Progress,
    should_stop: ShouldStop,
) -> ShellOutcome:
    """As `run_campaign`, in the process shell, these schedules only: on a real external system no simulation helps."""
    results, scratch = begin(contract, task, folder=folder, progress=progress, shell="process")
    began = now()
    stage = Stage(
        name=STAGE,
        schedules=lambda _: map(parse, schedules),
        concurrent_reader=bool(contract.claims & READ_BESIDE),
    )
    with process_runner(contract, scratch, hang_seconds=task.hang_seconds) as runner:
        GivenSchedules(
            runner, results, should_stop=lambda results: results.breaks_a_claim and should_stop(results)
        ).carry_out((stage,))
    return conclude(results, seconds=now() - began, closure=None, stopped=True)
