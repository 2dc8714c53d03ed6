"""What runs with one fault have shown, for schedules that come later."""

from __future__ import annotations

from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult


class ShownByRuns:
    """Schedules, in the order in which they were run."""

    def __init__(self) -> None:
        self.waited_for: dict[Schedule, None] = {}  # zombies that resumed early, as another attempt waited
        self.handled: dict[Schedule, None] = {}  # calls that failed, and no attempt by it

    def note(self, result: RunResult) -> None:
        kinds = [fault.kind for fault in result.schedule.faults]
        if kinds == ["stop"] and result.resumed_early:
            self.waited_for[result.schedule] = None
        if kinds in (["error"], ["unanswered"]) and result.fired and result.finished and not result.restarts:
            self.handled[result.schedule] = None
