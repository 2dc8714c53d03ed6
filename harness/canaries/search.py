"""The campaign of a canary: what everybody goes through, beginning where its own sin shows.

Forty campaigns from front to back would take as long as what they vouch for. So the job and the kinds of faults that a
canary's sin is about come first: the first time that each point is passed, then every time. What tells in the simulated
shell is repeated in the others by the same one-line schedule. What none of this finds, the usual campaign has to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from sinkproof.campaign.baseline import first_run
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.run import ShellOutcome, Task, conclude, run_campaign
from sinkproof.canaries.catalogue import Canary
from sinkproof.chaos.clock import now
from sinkproof.chaos.points import SINK_POINTS
from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.execution.process_runner import HANG_SECONDS, PRELOAD, ProcessRunner, Servers, fork_servers
from sinkproof.execution.schedule_runner import RunResult, ScheduleRunner
from sinkproof.generators.fault_sites import first_of_each, places
from sinkproof.reports.progress import Progress
from sinkproof.subject.claims import READ_BESIDE
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import locator_of
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.source_files import files_of

SPARSE: Final = "sparse"  # the job that shows what overlapping checkpoints hide

CampaignStopped = Callable[[CampaignResults], bool]
Run = Callable[[Schedule], RunResult]


def search(
    canary: Canary, contract: Contract, task: Task, *, folder: Path, progress: Progress, should_stop: CampaignStopped
) -> ShellOutcome:
    """As `run_campaign`, in the simulated shell."""
    results = CampaignResults(contract=contract, shell=task.shell, progress=progress)
    began = now()
    with ScheduleRunner(contract, _scratch(contract, task, folder)) as runner:
        runner.watches = bool(contract.claims & READ_BESIDE)
        _look_where_it_shows(canary, runner, results, should_stop=should_stop)
        runner.reset()
    if should_stop(results):
        return conclude(results, seconds=now() - began, closure=None, stopped=True)
    return run_campaign(contract, task, folder=folder, progress=progress, should_stop=should_stop)


def _scratch(contract: Contract, task: Task, folder: Path) -> Scratch:
    return Scratch(name=f"{contract.name}-{task.shell}", path=folder, shell=task.shell)


def _look_where_it_shows(
    canary: Canary, runner: ScheduleRunner, results: CampaignResults, *, should_stop: CampaignStopped
) -> None:
    def run(schedule: Schedule) -> RunResult:
        results.progress.step(str(schedule), 0)
        run_result = runner.run(schedule)
        results.add(run_result)
        return run_result

    if first_run(runner, results, run) is None or should_stop(results):
        return
    for schedule in _telling(canary, run):
        run(schedule)
        if should_stop(results):
            return


def _telling(canary: Canary, run: Run) -> Iterator[Schedule]:
    """Of each kind: each point once, then every effect on the target, and in the end everything.

    The next job's baseline is a trial, too: whoever stops here in time never runs it.
    """
    kinds = [kind for kind in canary.faults if kind]
    for under in dict.fromkeys((parse(canary.under), Schedule(job=SPARSE))):
        yield under
        baseline = run(under)
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
    told: tuple[Servers, Schedule | None],
    contract: Contract,
    task: Task,
    *,
    folder: Path,
    progress: Progress,
    should_stop: CampaignStopped,
) -> ShellOutcome:
    """As `run_campaign`, in the process shell, after the schedule that told in the simulated one."""
    servers, telling = told
    results = CampaignResults(contract=contract, shell=task.shell, progress=progress)
    scratch = _scratch(contract, task, folder)
    began = now()
    with ProcessRunner(contract, scratch, servers=servers, hang_seconds=HANG_SECONDS) as runner:
        runner.files = files_of(contract.given, contract.sink(scratch))
        if telling is not None:
            progress.step(str(telling), 0)
            run_result = runner.run(telling)
            results.kills += run_result.kills
            results.add(run_result)
        if not should_stop(results):
            ProcessCampaign(runner, results, should_stop=should_stop).run()
    return conclude(results, seconds=now() - began, closure=None, stopped=True)
