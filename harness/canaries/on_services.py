"""Canaries on a real external system: each is tried under listed schedules, since no simulation finds them."""

from __future__ import annotations

from typing import NamedTuple

from sinkproof.canaries.catalogue import Canary
from sinkproof.chaos.schedule import parse


class ConvictingSchedules(NamedTuple):
    """A canary, and the schedules that show its sin."""

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
