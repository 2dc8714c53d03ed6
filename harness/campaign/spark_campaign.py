"""What is tried in the Spark shell: real jobs, real deaths of attempts, workers, the coordinator, driver and JVM.

1. a baseline without faults, one for each other job, then single faults in the small certifying job: a kill at every
   protocol step, zombies, declined votes, lost notifications, errors, killed workers, the whole job killed;
2. the long job: rows without end, hundreds of deaths one after another, each at the next step in turn, each counted
   from a wait status and followed by a complete checkpoint with more rows; then everything committed is compared
   with everything read;
3. the rest of the single faults, as far as the budget goes. Executed lines are struck in the other shells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Final

from sinkproof.campaign.baseline import first_run
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import CampaignStopped
from sinkproof.campaign.spark_endurance import EnduranceJob, Plan
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.schedule_runner import RunResult
from sinkproof.execution.spark_runner import SparkRunner
from sinkproof.generators.fault_sites import first_of_each
from sinkproof.workload.jobs import JOBS

WORKERS_KILLED_AT: Final = ("write.after", "snapshot.after", "notify_complete.before", "commit.after", "open.after")
JOBS_KILLED_AT: Final = ("notify_complete.before", "checkpoint.persist.before", "snapshot.after")


BEFORE: Final = ("write.after", "snapshot.after", "acknowledge.after", "notify_complete.before", "write.before")
FULL_SECONDS: Final = 60.0  # a budget from which the long job is as long as it ever is
FULL: Final = Plan(attempts=200, coordinators=20, workers=5, jobs=3, rows=1_000_000)
ON_SERVICES: Final = Plan(
    attempts=60,
    coordinators=5,
    workers=1,
    jobs=2,
    services=5,
    rows=10_000,
    pace_ms=40,
    batch_rows=20,  # every record is read back one by one
    interval_ms=50,
    strike_seconds=3.0,
)
SHORT: Final = Plan(attempts=24, coordinators=3, workers=1, jobs=1, rows=100_000)


def plan_for(budget_seconds: float) -> Plan:
    """The long job that a budget allows; none where somebody only looks for one finding."""
    if budget_seconds >= FULL_SECONDS:
        return FULL
    return SHORT if budget_seconds else Plan()


class SparkCampaign(ProcessCampaign):
    """One subject in the Spark shell. `plan`: how long the long job is; `first`: what is tried before all else."""

    runner: SparkRunner  # type: ignore[assignment]

    def __init__(
        self,
        runner: SparkRunner,
        results: CampaignResults,
        *,
        plan: Plan,
        first: Sequence[Schedule] = (),
        should_stop: Callable[[CampaignResults], bool] = lambda results: False,
    ) -> None:
        super().__init__(runner, results, should_stop=should_stop)  # type: ignore[arg-type]
        self.plan, self.first = plan, first

    def run(self) -> None:
        """Fills the tally; stops early when there is enough."""
        try:
            self._run_all(self.first)
            self.runner.reset()
            baseline = self._baseline()
            if baseline is None:
                return
            on_services = bool(self.results.services.breakable())
            if on_services:  # first: there, everything takes longer than a budget may be
                self._long_job(baseline)
            self._run_all(self._named_places_once(baseline))
            self._strike_what_was_missed()
            self._run_all(self._workers(baseline))
            self._run_all(self._lines(baseline))
            if not on_services:
                self._long_job(baseline)
            self._run_all(self._jobs(baseline))
            self._run_all(self._rescales(baseline))
            self._run_all(self._other_faults(baseline))
        except CampaignStopped:
            pass

    def _baseline(self) -> RunResult | None:
        """Lines of a stranger's sink are points in here, too; those of our own adapters are struck in other shells."""
        if not self.runner.contract.marks_points:
            return super()._baseline()
        baseline = first_run(self.runner, self.results, self._run)
        for job in JOBS if baseline is not None else ():
            self._try(Schedule(job=job))
        return baseline

    def _strike_what_was_missed(self) -> None:
        """What a recovery passes depends on the moment of the death, which real time does not bring again: where the
        same death does not lead there any more, others do.
        """
        super()._strike_what_was_missed()
        for point in self.results.never_struck():
            reaching = (*self.results.unreproducible, *(way.schedule for way in self.results.reaching.get(point, ())))
            places = {way.faults[-1] for way in reaching if way.faults[-1].point == point}
            for place, before in product(sorted(places), BEFORE):
                if not self.results.struck[point]:
                    self._run_all([Schedule((Fault(place.actor, before, 1, "kill"), place))])

    def _lines(self, baseline: RunResult) -> Iterator[Schedule]:
        yield from (Schedule((fault,)) for fault in first_of_each(baseline, "kill", lines=True))

    def _workers(self, baseline: RunResult) -> Iterator[Schedule]:
        faults = first_of_each(baseline, "kill-worker", lines=False)
        yield from (Schedule((fault,)) for fault in faults if fault.point in WORKERS_KILLED_AT)

    def _jobs(self, baseline: RunResult) -> Iterator[Schedule]:
        faults = first_of_each(baseline, "kill-job", lines=False)
        yield from (Schedule((fault,)) for fault in faults if fault.point in JOBS_KILLED_AT)

    def _long_job(self, baseline: RunResult) -> None:
        if not self.plan.attempts or self.runner.contract.rows != "append":
            return
        steps = list(dict.fromkeys((baseline.names[actor], point) for actor, point in baseline.trace))
        plan = ON_SERVICES if self.results.services.breakable() else self.plan
        outcome = EnduranceJob(self.runner, plan, steps=steps, progress=self.results.progress).run()
        self.results.kills += outcome.run_result.kills
        self.results.add(outcome.run_result)
        self.results.notes.append(outcome.told)
        if self.should_stop(self.results):
            raise CampaignStopped
