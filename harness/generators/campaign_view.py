"""The part of a campaign that generators of schedules may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.contract import Contract


class CampaignView(Protocol):
    """A campaign in progress. `run` and `run_traced` run one schedule, count it, and return its result; they raise when
    the campaign must end.
    """

    @property
    def runner(self) -> ScheduleRunner: ...

    @property
    def contract(self) -> Contract: ...

    @property
    def baseline(self) -> RunResult:
        """The run without faults."""

    @property
    def traced_baseline(self) -> RunResult:
        """The same with every executed line of the sink in its trace."""

    @property
    def rescaled_jobs(self) -> Sequence[str]:
        """Jobs that restart with another parallelism; empty if the contract rules that out."""

    @property
    def has_breakable_service(self) -> bool:
        """Whether the sink writes to an external system that this certification may break: a run takes seconds."""

    @property
    def occurrences_most(self) -> int:
        """The most occurrences of one point at which a rare fault is injected: one, if a run takes long."""

    def can_inject(self, fault: Fault) -> bool:
        """Whether this shell can inject the fault."""

    def can_rescale_after(self, fault: Fault) -> bool:
        """Whether attempts that a rescale cancels leave nothing behind in this shell."""

    def run(self, schedule: Schedule) -> RunResult: ...

    def run_traced(self, schedule: Schedule) -> RunResult:
        """The same with every executed line of the sink as a point."""

    def points_passed(self) -> frozenset[str]:
        """Named points that any run has passed so far."""

    def shortest_ways_to(self) -> Mapping[str, tuple[Schedule, Fault]]:
        """For each point without an injected fault: a schedule after which it is passed, and the fault there."""
