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
from sinkproof.campaign.results import Tally
from sinkproof.campaign.run import ShellOutcome, Task, conclude, run_campaign
from sinkproof.canaries.catalogue import Canary
from sinkproof.chaos.clock import now
from sinkproof.chaos.points import SINK_POINTS
from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.execution.process_runner import HANG_SECONDS, PRELOAD, ProcessLaboratory, Servers, fork_servers
from sinkproof.execution.schedule_runner import Laboratory, Trial
from sinkproof.generators.fault_sites import first_of_each, places
from sinkproof.generators.rare import READ_BESIDE
from sinkproof.reports.progress import Progress
from sinkproof.subject.contract import Contract, locator_of
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.source_files import files_of

SPARSE: Final = "sparse"  # the job that shows what overlapping checkpoints hide

Enough = Callable[[Tally], bool]
Run = Callable[[Schedule], Trial]


def search(
    canary: Canary, contract: Contract, task: Task, *, folder: Path, progress: Progress, enough: Enough
) -> ShellOutcome:
    """As `run_campaign`, in the simulated shell."""
    tally = Tally(contract=contract, shell=task.shell, progress=progress)
    began = now()
    with Laboratory(contract, _scratch(contract, task, folder)) as laboratory:
        laboratory.watches = bool(contract.claims & READ_BESIDE)
        _look_where_it_shows(canary, laboratory, tally, enough=enough)
        laboratory.reset()
    if enough(tally):
        return conclude(tally, seconds=now() - began, closure=None, stopped=True)
    return run_campaign(contract, task, folder=folder, progress=progress, enough=enough)


def _scratch(contract: Contract, task: Task, folder: Path) -> Scratch:
    return Scratch(name=f"{contract.name}-{task.shell}", path=folder, shell=task.shell)


def _look_where_it_shows(canary: Canary, laboratory: Laboratory, tally: Tally, *, enough: Enough) -> None:
    def run(schedule: Schedule) -> Trial:
        tally.progress.step(str(schedule), 0)
        trial = laboratory.run(schedule)
        tally.add(trial)
        return trial

    if first_run(laboratory, tally, run) is None or enough(tally):
        return
    for schedule in _telling(canary, run):
        run(schedule)
        if enough(tally):
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
    warm = [("sinkproof.subject.contract:load", locator_of(contract)) for contract in contracts]
    with fork_servers(preload=PRELOAD, warm=warm) as servers:
        yield servers


def repeat(
    told: tuple[Servers, Schedule | None],
    contract: Contract,
    task: Task,
    *,
    folder: Path,
    progress: Progress,
    enough: Enough,
) -> ShellOutcome:
    """As `run_campaign`, in the process shell, after the schedule that told in the simulated one."""
    servers, telling = told
    tally = Tally(contract=contract, shell=task.shell, progress=progress)
    scratch = _scratch(contract, task, folder)
    began = now()
    with ProcessLaboratory(contract, scratch, servers=servers, hang_seconds=HANG_SECONDS) as laboratory:
        laboratory.files = files_of(contract.given, contract.sink(scratch))
        if telling is not None:
            progress.step(str(telling), 0)
            trial = laboratory.run(telling)
            tally.kills += trial.kills
            tally.add(trial)
        if not enough(tally):
            ProcessCampaign(laboratory, tally, enough=enough).run()
    return conclude(tally, seconds=now() - began, closure=None, stopped=True)
