"""`make soak-hosts`: one job on a Spark cluster of three hosts, which die and are cut off in turn; exact in the end.

Each fault strikes at the next step of the commit protocol; the next one comes when the job has committed more rows than
before. Exit status: 0 if every row is there once, and no process is left; else 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

from sinkproof.campaign.spark_campaign import ON_HOSTS
from sinkproof.campaign.spark_endurance import EnduranceJob
from sinkproof.chaos.clock import now
from sinkproof.chaos.faults.faults_of_hosts import CUT, KILL_HOST
from sinkproof.chaos.processes.process_table import descendants, parents_of_all
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.spark_runner import spark_runner
from sinkproof.reports.progress import Progress
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder


class Lines(Progress):
    """One line a fault."""

    def step(self, what: str, kills: int, *, schedules: int = 1) -> None:
        print(f"{now():9.1f}  {what}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subject", default="files/two-phase")
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--dead", type=int, default=20)
    parser.add_argument("--rows", type=int, default=10_000)
    chosen = parser.parse_args()
    plan = replace(ON_HOSTS, of_hosts={CUT: chosen.cuts, KILL_HOST: chosen.dead}, rows=chosen.rows)
    with scratch_folder() as folder:
        scratch = Scratch(name="failing-hosts", path=folder, shell="spark")
        with spark_runner(load(chosen.subject), scratch, master="cluster:3") as runner:
            first = runner.run(Schedule())
            steps = list(dict.fromkeys((first.names[actor], point) for actor, point in first.trace))
            outcome = EnduranceJob(runner, plan, steps=steps, progress=Lines()).run()
    left = descendants(os.getpid(), parents_of_all())
    for anomaly in outcome.run_result.anomalies:
        print(f"{anomaly.oracle}: {anomaly.why}")
    print(f"{outcome.summary}; {outcome.run_result.restarts} restarts; processes left: {left or 'none'}")
    return 1 if outcome.run_result.anomalies or left else 0


if __name__ == "__main__":
    sys.exit(main())
