"""The thousands of runs of a campaign in the simulated shell: faults at executed lines, and ordered pairs. Those that
cannot differ are run once (equivalent_faults.py, run_memo.py, fault_pairs.py), and all cores help.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sinkproof.campaign.results import Tally
from sinkproof.campaign.simulated_workers import LanesBeside, briefly
from sinkproof.chaos.lines import LineTracer, known_lines
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.schedule_runner import Laboratory, Trial
from sinkproof.exploration.equivalent_faults import told_apart
from sinkproof.exploration.fault_pairs import AT_NAMED_POINTS, AT_STEPS, Pairs
from sinkproof.exploration.run_memo import Endings, ending_of
from sinkproof.generators.fault_sites import places

LINE_KINDS: Final = ("kill", "stop", "pause")
COMPARED_EVERY: Final = 50  # faults that another one stands for: some dozens of a file sink's


class Thousands:
    """Those of one campaign. `enough` is asked after each run, and ends them."""

    def __init__(
        self,
        laboratory: Laboratory,
        tally: Tally,
        *,
        tracer: LineTracer,
        lanes: LanesBeside,
        enough: Callable[[Tally], bool],
    ) -> None:
        self.laboratory, self.tally, self.tracer, self.lanes, self.enough = laboratory, tally, tracer, lanes, enough

    def at_lines(self) -> None:
        """One death, one stop and one pause at the first, the middle and the last time that each line is executed.

        Where they are alike the last one stands for them; some of the others are run, too, and compared.
        """
        endings = Endings(self.laboratory, confirms=False, tracing=self.tracer)
        traced = endings.run(Schedule(), marked=True)
        faults = [fault for kind in LINE_KINDS for fault in places(traced, kind, lines=True, sparse=True)]
        groups = told_apart(faults, traced, endings.marks)
        stands_for = {fault: group[-1] for group in groups for fault in group}
        compared = [fault for fault, other in stands_for.items() if fault != other][::COMPARED_EVERY]
        found = self._run_at_lines([*(group[-1] for group in groups), *compared], endings)
        if any(found.get(fault) != found.get(stands_for[fault]) for fault in compared) and not self.enough(self.tally):
            self.tally.notes.append("faults at lines between which nothing seemed to happen differ: all were run")
            self._run_at_lines([fault for fault in faults if fault not in found], endings)
        self.tally.lines_known |= known_lines(self.tracer.files, self.tally.lines_passed)

    def _run_at_lines(self, faults: Sequence[Fault], endings: Endings) -> dict[Fault, Any]:
        """How a run with each of them ends."""
        found = {}
        self.tally.announce(len(faults))
        schedules = [Schedule((fault,)) for fault in faults]
        for trial in self.lanes.trials(schedules, traced=True, run=endings.run):
            self.tally.progress.step(str(trial.schedule), 0)
            found[trial.schedule.faults[0]] = ending_of(trial)
            self.tally.add(self._confirmed(trial, endings))
            if self.enough(self.tally):
                break
        return found

    def pairs(self, baseline: Trial, *, may: Callable[[Fault], bool]) -> None:
        """`may`: whether a fault can be shown in this process."""
        endings = Endings(self.laboratory, confirms=False)
        at_steps = Pairs(endings, AT_STEPS, may=may)
        self._run_pairs(baseline, at_steps)
        if not self.enough(self.tally):
            self._run_pairs(baseline, Pairs(endings, AT_NAMED_POINTS, may=may, after=at_steps))

    def _run_pairs(self, baseline: Trial, pairs: Pairs) -> None:
        endings = pairs.endings

        def run(schedule: Schedule) -> Trial:
            self.tally.progress.step(str(schedule), 0)
            return briefly(endings.run(schedule))

        try:
            rests = pairs.prepare(pairs.firsts(baseline), go_on=lambda: not self.enough(self.tally))
            self.tally.announce(pairs.in_bound - pairs.equal)
            for trial in self.lanes.trials(list(pairs.schedules(rests)), traced=False, run=run):
                self.tally.progress.step(str(trial.schedule), 0)
                self.tally.add_one_of_many(self._confirmed(trial, endings))
                pairs.run += 1
                if self.enough(self.tally):
                    break
        finally:
            self.tally.notes.append(pairs.told())
            if why := endings.why_not or self.lanes.remark():
                self.tally.notes.append(f"pairs were run to their ends once this was seen: {why}")

    def _confirmed(self, trial: Trial, endings: Endings) -> Trial:
        """Run in full, if it shows what will be shown."""
        shown = any(self.tally.would_keep(anomaly, trial.schedule) for anomaly in trial.anomalies)
        return endings.in_full(trial) if shown else trial
