"""Runs the thousands of schedules of a simulated campaign on all cores: faults at executed lines, and ordered pairs.

Of equivalent faults at lines only one is run (exploration/equivalent_faults.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sinkproof.campaign.loop import Campaign
from sinkproof.campaign.workers.worker_pool import LateWorkers
from sinkproof.chaos.lines import known_lines
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.exploration.equivalent_faults import equivalence_classes
from sinkproof.exploration.fault_pairs import AT_NAMED_POINTS, AT_STEPS, FaultPairs
from sinkproof.exploration.run_memo import MemoizedRuns, outcome_of
from sinkproof.generators.fault_sites import places

LINE_KINDS: Final = ("kill", "stop", "pause")
# Of the faults that an equivalent one stands for, one in so many is run all the same: some dozens for a file sink.
COMPARED_EVERY: Final = 50


class ExhaustiveRuns:
    """The exhaustive runs of one campaign."""

    def __init__(self, campaign: Campaign, workers: LateWorkers) -> None:
        self.campaign, self.workers = campaign, workers
        self.runner, self.results = campaign.runner, campaign.results

    def should_stop(self) -> bool:
        return self.campaign.should_stop(self.results)

    def at_lines(self) -> None:
        """One death, one stop and one pause at the first, the middle and the last time that each line is executed.

        Of equivalent faults the last one is run; some of the others are run, too, as an audit.
        """
        memo = MemoizedRuns(self.runner, confirms=False, trace_lines=True)
        traced = memo.run(Schedule(), marked=True)
        faults = [fault for kind in LINE_KINDS for fault in places(traced, kind, lines=True, sparse=True)]
        groups = equivalence_classes(faults, traced, memo.marks)
        stands_for = {fault: group[-1] for group in groups for fault in group}
        compared = [fault for fault, other in stands_for.items() if fault != other][::COMPARED_EVERY]
        found = self._run_at_lines([*(group[-1] for group in groups), *compared])
        differs = any(found.get(fault) != found.get(stands_for[fault]) for fault in compared)
        if differs and not self.should_stop():
            self.results.notes.append("faults at lines between which nothing seemed to happen differ: all were run")
            self._run_at_lines([fault for fault in faults if fault not in found])
        coverage = self.results.coverage
        coverage.lines_known |= known_lines(self.runner.files, coverage.lines_passed)

    def _run_at_lines(self, faults: Sequence[Fault]) -> dict[Fault, Any]:
        """How a run with each of them ends. All are run in full: what a memo joins depends on the process."""
        found = {}
        schedules = [Schedule((fault,)) for fault in faults]
        for result in self.workers.run_all(schedules, trace_lines=True, run=self._run_traced):
            self.results.progress.step(str(result.schedule), 0)
            found[result.schedule.faults[0]] = outcome_of(result)
            self.results.add(result)
            self.campaign.stage.run += 1
            if self.should_stop():
                break
        return found

    def pairs(self) -> None:
        for scope in (AT_STEPS, AT_NAMED_POINTS):
            if not self.should_stop():
                self._run_pairs(FaultPairs(scope, self._run, can_inject=self.campaign.can_inject))

    def _run_pairs(self, pairs: FaultPairs) -> None:
        is_done = False
        try:
            is_done = self._run_rounds(pairs)
        finally:
            self.results.notes.append(pairs.summary(is_done=is_done))

    def _run_rounds(self, pairs: FaultPairs) -> bool:
        """False: the campaign must stop before all pairs were run."""
        for schedules in pairs.rounds(self.campaign.baseline):
            for result in self.workers.run_all(schedules, trace_lines=False, run=self._run):
                self.results.progress.step(str(result.schedule), 0)
                self.results.add_one_of_many(self._shown(result))
                self.campaign.stage.run += 1
                pairs.tried += 1
                if self.should_stop():
                    return False
        return True

    def _run(self, schedule: Schedule) -> RunResult:
        self.results.report(str(schedule))
        return self.runner.run(schedule)

    def _run_traced(self, schedule: Schedule) -> RunResult:
        return self.runner.run(schedule, trace_lines=True)

    def _shown(self, result: RunResult) -> RunResult:
        """Run again, with its trace, if the report will show it."""
        keeps = any(self.results.would_keep(anomaly, result.schedule) for anomaly in result.anomalies)
        return self._run(result.schedule) if keeps else result
