"""What happened inside a service in one run: its windows, the outward calls in them, and where it was killed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sinkproof.chaos.points import SYSTEM_CALL
from sinkproof.chaos.schedule import Fault

STEPS: Final = {  # calls of a sink in which it may request that something is pre-committed, committed or aborted
    "open": "settles and aborts what earlier attempts have left",
    "snapshot": "pre-commits",
    "notify_complete": "commits",
    "notify_aborted": "aborts",
    "settle": "settles what is in doubt",
}
RESTART: Final = "restart"
ACTOR: Final = re.compile(r"service-(?P<step>[a-z_]+)\[(?P<number>\d+)\]")


def is_inside_service(fault: Fault) -> bool:
    return ACTOR.fullmatch(fault.actor) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallWindow:
    """`calls`: the points that the service passed in it, in order; the one at which it was killed is the last."""

    step: str  # of STEPS, or RESTART
    number: int  # of the windows with this step, from 1
    calls: Sequence[str]

    @property
    def actor(self) -> str:
        return f"service-{self.step}[{self.number}]"

    def kills(self) -> list[Fault]:
        """Before each of its calls."""
        counted: Counter[str] = Counter()
        found = []
        for point in self.calls:
            counted[point] += 1
            found.append(Fault(self.actor, point, counted[point], "kill"))
        return found

    def kills_of(self, actor: str) -> list[Fault]:
        return self.kills() if actor == self.actor else []


@dataclass(slots=True, kw_only=True)
class InsideRun:
    """What happened inside the service in one run."""

    windows: list[CallWindow] = field(default_factory=list)
    struck: list[Fault] = field(default_factory=list)
    kills: int = 0  # from wait statuses
    windows_before: int = 0  # the first kill
    service: str = ""  # its title and version
    acknowledged: bool = False  # the request within which it was first killed, before it died

    def sentence(self) -> str:
        """Where it died, and what it had acknowledged; empty: it did not."""
        if not self.struck:
            return ""
        first, last = self.struck[0], self.struck[-1]
        match = ACTOR.fullmatch(first.actor)
        assert match is not None
        before = Counter(window.step for window in self.windows[: self.windows_before])
        earlier = ", ".join(f"{times} {step}" for step, times in before.items()) or "none"
        this = "had" if self.acknowledged else "had not"
        restarts = len(self.struck) - 1
        again = f", and in {restarts} restarts, at last before {changed_by(last.point)}" if restarts else ""
        return (
            f"{self.service} was killed before {changed_by(first.point)}{again}. It {this} acknowledged the request of "
            f"{match['step']} number {match['number']}; earlier requests: {earlier}"
        )


def changed_by(point: str) -> str:
    """`the call write of commit.log`."""
    match = SYSTEM_CALL.fullmatch(point)
    return f"its call {match['call']} of {match['about']}" if match else point
