"""Campaigns whose sinks are processes: which line of the sink was being executed when a fault struck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sinkproof.campaign.loop import Campaign, ShouldStop
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.worker_pool import RunAll, one_by_one
from sinkproof.chaos.lines import known_lines
from sinkproof.chaos.points import AROUND_CALLS, COORDINATOR_POINTS, is_line
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.reports.document import SourceLine
from sinkproof.subject.source_files import source_line

FINDINGS_LOCATED_MOST: Final = 12  # each takes a second run


class CampaignInProcesses(Campaign):
    """What the campaigns in the process shell and on Spark have in common. `first`: schedules that are tried before
    anything else.
    """

    def __init__(
        self,
        runner: ScheduleRunner,
        results: CampaignResults,
        *,
        first: Sequence[Schedule] = (),
        should_stop: ShouldStop = lambda results: False,
        run_all: RunAll = one_by_one,
    ) -> None:
        super().__init__(runner, results, should_stop=should_stop, run_all=run_all)
        self.first = first

    def take(self, result: RunResult) -> RunResult:
        if result.anomalies and result.struck_line is None and len(self.results.findings) < FINDINGS_LOCATED_MOST:
            result = replace(result, struck_line=self._line_struck(result.schedule))
        return super().take(result)

    def _line_struck(self, schedule: Schedule) -> SourceLine | None:
        """The line of the sink that was being executed when the last fault struck within a call; found by a second run
        that records lines.
        """
        if not schedule.faults or schedule.faults[-1].point in (*AROUND_CALLS, *COORDINATOR_POINTS):
            return None
        again = self.runner.run(schedule, trace_lines=True)
        last, seen, line = schedule.faults[-1], 0, ""
        for actor, point in again.trace:
            if again.names[actor] != last.actor:
                continue
            line = point if is_line(point) else line
            seen += point == last.point
            if seen == last.occurrence:
                break
        return source_line(line, self.runner.files)

    def lines_were_traced(self) -> None:
        coverage = self.results.coverage
        coverage.lines_known = known_lines(self.runner.files, coverage.lines_passed)
