"""The thousands of runs of a campaign in the simulated shell: faults at executed lines, and ordered pairs. Those that
cannot differ are run once (equivalent_faults.py, run_memo.py, fault_pairs.py), and all cores help.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_workers import SimulatedWorkers, briefly
from sinkproof.chaos.lines import LineTracer, known_lines
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.schedule_runner import RunResult, ScheduleRunner
from sinkproof.exploration.equivalent_faults import equivalence_classes
from sinkproof.exploration.fault_pairs import AT_NAMED_POINTS, AT_STEPS, Pairs
from sinkproof.exploration.run_memo import MemoizedRuns, outcome_of
from sinkproof.generators.fault_sites import places

LINE_KINDS: Final = ("kill", "stop", "pause")
COMPARED_EVERY: Final = 50  # faults that another one stands for: some dozens of a file sink's


class Thousands:
    """Those of one campaign. `enough` is asked after each run, and ends them."""

    def __init__(
        self,
        runner: ScheduleRunner,
        results: CampaignResults,
        *,
        tracer: LineTracer,
        workers: SimulatedWorkers,
        should_stop: Callable[[CampaignResults], bool],
    ) -> None:
        self.runner, self.results, self.tracer, self.workers, self.should_stop = (
            runner,
            results,
            tracer,
            workers,
            should_stop,
        )

    def at_lines(self) -> None:
        """One death, one stop and one pause at the first, the middle and the last time that each line is executed.

        Where they are alike the last one stands for them; some of the others are run, too, and compared.
        """
        memo = MemoizedRuns(self.runner, confirms=False, tracing=self.tracer)
        traced = memo.run(Schedule(), marked=True)
        faults = [fault for kind in LINE_KINDS for fault in places(traced, kind, lines=True, sparse=True)]
        groups = equivalence_classes(faults, traced, memo.marks)
        stands_for = {fault: group[-1] for group in groups for fault in group}
        compared = [fault for fault, other in stands_for.items() if fault != other][::COMPARED_EVERY]
        found = self._run_at_lines([*(group[-1] for group in groups), *compared], memo)
        if any(found.get(fault) != found.get(stands_for[fault]) for fault in compared) and not self.should_stop(
            self.results
        ):
            self.results.notes.append("faults at lines between which nothing seemed to happen differ: all were run")
            self._run_at_lines([fault for fault in faults if fault not in found], memo)
        self.results.lines_known |= known_lines(self.tracer.files, self.results.lines_passed)

    def _run_at_lines(self, faults: Sequence[Fault], memo: MemoizedRuns) -> dict[Fault, Any]:
        """How a run with each of them ends."""
        found = {}
        self.results.announce(len(faults))
        schedules = [Schedule((fault,)) for fault in faults]
        for run_result in self.workers.trials(schedules, traced=True, run=memo.run):
            self.results.progress.step(str(run_result.schedule), 0)
            found[run_result.schedule.faults[0]] = outcome_of(run_result)
            self.results.add(self._confirmed(run_result, memo))
            if self.should_stop(self.results):
                break
        return found

    def pairs(self, baseline: RunResult, *, may: Callable[[Fault], bool]) -> None:
        """`may`: whether a fault can be shown in this process."""
        memo = MemoizedRuns(self.runner, confirms=False)
        at_steps = Pairs(memo, AT_STEPS, may=may)
        self._run_pairs(baseline, at_steps)
        if not self.should_stop(self.results):
            self._run_pairs(baseline, Pairs(memo, AT_NAMED_POINTS, may=may, after=at_steps))

    def _run_pairs(self, baseline: RunResult, pairs: Pairs) -> None:
        memo = pairs.memo

        def run(schedule: Schedule) -> RunResult:
            self.results.progress.step(str(schedule), 0)
            return briefly(memo.run(schedule))

        try:
            rests = pairs.prepare(pairs.firsts(baseline), go_on=lambda: not self.should_stop(self.results))
            self.results.announce(pairs.in_bound - pairs.equal)
            for run_result in self.workers.trials(list(pairs.schedules(rests)), traced=False, run=run):
                self.results.progress.step(str(run_result.schedule), 0)
                self.results.add_one_of_many(self._confirmed(run_result, memo))
                pairs.run += 1
                if self.should_stop(self.results):
                    break
        finally:
            self.results.notes.append(pairs.told())
            if why := memo.why_not or self.workers.remark():
                self.results.notes.append(f"pairs were run to their ends once this was seen: {why}")

    def _confirmed(self, run_result: RunResult, memo: MemoizedRuns) -> RunResult:
        """Run in full, if it shows what will be shown."""
        shown = any(self.results.would_keep(anomaly, run_result.schedule) for anomaly in run_result.anomalies)
        return memo.in_full(run_result) if shown else run_result
