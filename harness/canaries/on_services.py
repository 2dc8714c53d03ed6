"""Canaries on a real external system: each is tried under listed schedules, since no simulation finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sinkproof.canaries.catalogue import Canary
from sinkproof.canaries.conviction import try_canary, try_control
from sinkproof.canaries.search import run_these
from sinkproof.chaos.schedule import parse
from sinkproof.reports.document import CanaryResult
from sinkproof.reports.progress import Progress

CONTROL_SECONDS: Final = 600.0  # no bound: each control runs all of its schedules


class ServiceCanary(NamedTuple):
    """A canary on a real external system, and the schedules that show its sin."""

    name: str
    contract: type
    root_cause: str
    oracles: str
    schedules: tuple[str, ...]

    def canary(self, shell: str) -> Canary:
        kinds = {fault.kind for schedule in self.schedules for fault in parse(schedule).faults[-1:]}
        faults = " ".join(sorted(kinds)) or "none"
        return Canary(self.name, self.contract, self.root_cause, self.oracles, faults, shells=(shell,))


class ServiceTrial(NamedTuple):
    """The canaries and controls of one external system. `shell`: its name in the kill table. `not_for_controls`:
    schedules that a control cannot run.
    """

    shell: str
    canaries: Sequence[ServiceCanary]
    controls: Sequence[tuple[str, type]]
    not_for_controls: Sequence[str] = ()

    def run(self, *, progress: Progress) -> list[CanaryResult]:
        """One node serves nearly all of them; it ends with this process."""
        shell = self.shell
        results = [
            try_canary(each.canary(shell), shell, progress=progress, run_as=run_these(each.schedules))
            for each in self.canaries
        ]
        for name, contract in self.controls:
            run_as = run_these(self.schedules_of_family(contract))
            results.append(
                try_control(name, contract, shell, progress=progress, seconds=CONTROL_SECONDS, run_as=run_as)
            )
        return results

    def schedules_of_family(self, control: type) -> list[str]:
        """The schedules of the canaries that differ from this control by a few lines."""
        of_family = [each for each in self.canaries if issubclass(each.contract, control)]
        schedules = dict.fromkeys(schedule for each in of_family for schedule in each.schedules)
        return [schedule for schedule in schedules if schedule not in self.not_for_controls]
