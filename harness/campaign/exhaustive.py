"""The thousands of runs of a simulated campaign: faults at executed lines, and ordered pairs of faults. Runs that cannot
differ are run once (exploration/equivalent_faults.py, run_memo.py, fault_pairs.py), and all cores share the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sinkproof.campaign.loop import Campaign
from sinkproof.campaign.simulated_workers import SimulatedWorkers, without_trace
from sinkproof.chaos.lines import known_lines
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.exploration.equivalent_faults import equivalence_classes
from sinkproof.exploration.fault_pairs import AT_NAMED_POINTS, AT_STEPS, FaultPairs
from sinkproof.exploration.run_memo import MemoizedRuns, outcome_of
from sinkproof.generators.fault_sites import places

LINE_KINDS: Final = ("kill", "stop", "pause")
COMPARED_EVERY: Final = 50  # faults that another one stands for: some dozens of a file sink's


class ExhaustiveRuns:
    """Those of one campaign."""

    def __init__(self, campaign: Campaign, workers: SimulatedWorkers) -> None:
        self.campaign, self.workers = campaign, workers
        self.runner, self.results = campaign.runner, campaign.results

    def should_stop(self) -> bool:
        return self.campaign.should_stop(self.results)

    def at_lines(self) -> None:
        """One death, one stop and one pause at the first, the middle and the last time that each line is executed.

        Of equivalent faults the last one stands for all; some of the others are run, too, and compared.
        """
        memo = MemoizedRuns(self.runner, confirms=False, trace_lines=True)
        traced = memo.run(Schedule(), marked=True)
        faults = [fault for kind in LINE_KINDS for fault in places(traced, kind, lines=True, sparse=True)]
        groups = equivalence_classes(faults, traced, memo.marks)
        stands_for = {fault: group[-1] for group in groups for fault in group}
        compared = [fault for fault, other in stands_for.items() if fault != other][::COMPARED_EVERY]
        found = self._run_at_lines([*(group[-1] for group in groups), *compared], memo)
        differs = any(found.get(fault) != found.get(stands_for[fault]) for fault in compared)
        if differs and not self.should_stop():
            self.results.notes.append("faults at lines between which nothing seemed to happen differ: all were run")
            self._run_at_lines([fault for fault in faults if fault not in found], memo)
        coverage = self.results.coverage
        coverage.lines_known |= known_lines(self.runner.files, coverage.lines_passed)

    def _run_at_lines(self, faults: Sequence[Fault], memo: MemoizedRuns) -> dict[Fault, Any]:
        """How a run with each of them ends."""
        found = {}
        self._announce(len(faults))
        schedules = [Schedule((fault,)) for fault in faults]
        for result in self.workers.run_all(schedules, trace_lines=True, run=memo.run):
            self.results.progress.step(str(result.schedule), 0)
            found[result.schedule.faults[0]] = outcome_of(result)
            self.results.add(self._confirmed(result, memo))
            self.campaign.stage.run += 1
            if self.should_stop():
                break
        return found

    def pairs(self) -> None:
        memo = MemoizedRuns(self.runner, confirms=False)
        at_steps = FaultPairs(memo, AT_STEPS, may=self.campaign.can_inject)
        self._run_pairs(at_steps)
        if not self.should_stop():
            self._run_pairs(FaultPairs(memo, AT_NAMED_POINTS, may=self.campaign.can_inject, after=at_steps))

    def _run_pairs(self, pairs: FaultPairs) -> None:
        memo = pairs.memo

        def run(schedule: Schedule) -> RunResult:
            self.results.progress.step(str(schedule), 0)
            return without_trace(memo.run(schedule))

        try:
            second = pairs.prepare(pairs.firsts(self.campaign.baseline), go_on=lambda: not self.should_stop())
            self._announce(pairs.in_bound - pairs.equal)
            for result in self.workers.run_all(list(pairs.schedules(second)), trace_lines=False, run=run):
                self.results.progress.step(str(result.schedule), 0)
                self.results.add_one_of_many(self._confirmed(result, memo))
                self.campaign.stage.run += 1
                pairs.run += 1
                if self.should_stop():
                    break
        finally:
            self.results.notes.append(pairs.summary())
            if why := memo.why_not or self.workers.remark():
                self.results.notes.append(f"pairs were run to their ends once this was seen: {why}")

    def _announce(self, schedules: int) -> None:
        self.campaign.stage.planned += schedules
        self.results.announce(schedules)

    def _confirmed(self, result: RunResult, memo: MemoizedRuns) -> RunResult:
        """Run in full, if it shows what the report will show."""
        shown = any(self.results.would_keep(anomaly, result.schedule) for anomaly in result.anomalies)
        return memo.in_full(result) if shown else result
