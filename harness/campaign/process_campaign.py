"""A campaign with sinks that are processes: how one schedule is run and recorded there. What is tried stands in
process_plan.py.
"""

from __future__ import annotations

from typing import Final

from sinkproof.campaign.baseline import first_run
from sinkproof.campaign.struck_lines import CampaignInProcesses
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.fault_sites import places
from sinkproof.workload.jobs import JOBS, PLAIN_JOBS

STOPS_TRACED: Final = ("open.before", "fence.before", "write.before", "snapshot.before", "notify_complete.before")
DEATHS_TRACED: Final = ("write.after", "pre_commit.after", "snapshot.after", "checkpoint.persist.after", "commit.after")


class ProcessCampaign(CampaignInProcesses):
    """One subject in the process shell."""

    def prepare(self) -> bool:
        for schedule in self.first:  # again and again: in real time a zombie resumes at another moment each time
            self.run(schedule)
        first = first_run(self.runner, self.results, self._run_baseline)
        self.lines_were_traced()
        if first is None:
            return False
        self._baseline = first
        for job in JOBS:
            self.run(Schedule(job=job))
        return True

    def _run_baseline(self, schedule: Schedule) -> RunResult:
        return self.take(self.play(schedule, lines=True))

    def trace_recoveries(self) -> None:
        """Records the lines of recoveries from deaths in every phase of a checkpoint, and those that zombies execute;
        of foreign code also the lines that only many rows, or many checkpoints, lead to.
        """
        for job in PLAIN_JOBS if not self.contract.is_ours else ():
            self.run_traced(Schedule(job=job))
        for kind, points in (("stop", STOPS_TRACED), ("kill-job", DEATHS_TRACED), ("kill", DEATHS_TRACED)):
            for fault in [fault for fault in places(self.baseline, kind, sparse=True) if fault.point in points]:
                self.run_traced(Schedule((fault,)))
        self.lines_were_traced()
