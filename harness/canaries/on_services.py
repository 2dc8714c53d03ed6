"""Canaries on a real external system: each is tried under the schedules that tell its sin, and no simulation helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.run import ShellOutcome, Task, conclude
from sinkproof.canaries.catalogue import Canary
from sinkproof.chaos.clock import now
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.rare import READ_BESIDE
from sinkproof.reports.progress import Progress
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.services_in_use import ServicesInUse


class Told(NamedTuple):
    """A canary, and the schedules that tell its sin."""

    name: str
    contract: type
    root_cause: str
    oracles: str
    schedules: tuple[str, ...]

    def canary(self, shell: str) -> Canary:
        kinds = {fault.kind for schedule in self.schedules for fault in parse(schedule).faults[-1:]}
        return Canary(
            name=self.name,
            contract=self.contract,
            root_cause=self.root_cause,
            oracles=frozenset(self.oracles.split()),
            faults=tuple(sorted(kinds)) or ("",),
            shells=(shell,),
        )


def run_these(
    schedules: Sequence[str],
    contract: Contract,
    task: Task,
    *,
    folder: Path,
    progress: Progress,
    should_stop: Callable[[CampaignResults], bool],
) -> ShellOutcome:
    """As `run_campaign`, in processes, and these only."""
    results = CampaignResults(contract=contract, shell="process", progress=progress)
    services = ServicesInUse(options=task.services, report=lambda what: progress.step(what, 0))
    scratch = Scratch(name=f"{contract.name}-{task.shell}", path=folder, shell="process", services=services)
    began = now()
    with process_runner(contract, scratch, hang_seconds=task.hang_seconds) as runner:
        runner.watches = bool(contract.claims & READ_BESIDE)
        for schedule in map(parse, schedules):
            progress.step(str(schedule), results.kills)
            run_result = runner.run(schedule)
            results.kills += run_result.kills
            results.add(run_result)
            if any(finding.claimed for finding in results.findings) and should_stop(results):
                break
    return conclude(results, seconds=now() - began, closure=None, stopped=True)
