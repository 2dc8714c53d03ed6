"""A campaign on Spark: real jobs, real deaths of attempts, workers, the coordinator, driver and JVM. The stages
are in spark_plan.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from sinkproof.campaign.baseline import first_run
from sinkproof.campaign.loop import Campaign, ShouldStop
from sinkproof.campaign.process_campaign import CampaignInProcesses
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.spark_endurance import (
    EnduranceJob,
    EnduranceOutcome,
    EndurancePlan,
    StepsOfHosts,
    steps_of_hosts,
)
from sinkproof.chaos.faults.faults_of_hosts import CUT, CUTS, HEAL, KILL_HOST, SENTENCES, SLOW_LINK
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.spark_runner import SparkRunner
from sinkproof.generators import host_schedules
from sinkproof.workload.job_names import JOBS

BEFORE: Final = ("write.after", "snapshot.after", "acknowledge.after", "notify_complete.before", "write.before")
FULL_SECONDS: Final = 60.0  # from this budget on the endurance job is as long as it ever is
FULL: Final = EndurancePlan(attempts=200, coordinators=20, workers=5, jobs=3, rows=1_000_000)
ON_SERVICES: Final = EndurancePlan(
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
HEALED_EARLY: Final = 5
DEAD_MORE: Final = 4  # so many more die than are wanted, as the wait status of a few attempts is not found
CUTS_LEAST, DEAD_LEAST = 50, 20  # hosts cut off, and dead, that an endurance job on several hosts has
ON_HOSTS: Final = EndurancePlan(rows=10_000, pace_ms=200, batch_rows=20, interval_ms=50, strike_seconds=3.0)
SECONDS_PER_HOST: Final = 12.0  # from one fault of a host to the next, in an endurance job
SHORT: Final = EndurancePlan(attempts=24, coordinators=3, workers=1, jobs=1, rows=100_000)


def endurance_for(budget_seconds: float) -> EndurancePlan:
    """The endurance job that a budget allows; none if the campaign ends with its first finding."""
    if budget_seconds >= FULL_SECONDS:
        return FULL
    return SHORT if budget_seconds else EndurancePlan()


def on_hosts(steps: StepsOfHosts, *, kinds: Sequence[str] = tuple(SENTENCES)) -> EndurancePlan:
    """Each kind as often as it has steps, so that it strikes at each, and in all as many cuts as there must be."""
    of_hosts = {kind: HEALED_EARLY if kind == HEAL else len(steps.of(kind)) for kind in kinds}
    more = CUTS_LEAST - sum(of_hosts[kind] for kind in kinds if kind in CUTS)
    of_hosts |= {CUT: of_hosts[CUT] + max(0, more), KILL_HOST: max(of_hosts[KILL_HOST], DEAD_LEAST + DEAD_MORE)}
    return replace(ON_HOSTS, of_hosts=of_hosts)


def too_few(outcome: EnduranceOutcome) -> list[str]:
    """Why this job shows too little, although nothing was found."""
    if outcome.run_result.anomalies or not outcome.run_result.finished:
        return []
    cuts, dead = sum(outcome.kinds.get(kind, 0) for kind in CUTS), outcome.kinds.get(KILL_HOST, 0)
    if cuts >= CUTS_LEAST and dead >= DEAD_LEAST:
        return []
    wanted = f"{CUTS_LEAST} and {DEAD_LEAST} are wanted"
    return [f"in the endurance job {cuts} hosts were cut off and {dead} seen to die: {wanted}. Run it once more"]


class SparkCampaign(CampaignInProcesses):
    """One subject in the Spark shell. `endurance`: how long the endurance job is."""

    def __init__(
        self,
        runner: SparkRunner,
        results: CampaignResults,
        *,
        endurance: EndurancePlan,
        first: Sequence[Schedule] = (),
        should_stop: ShouldStop = lambda results: False,
    ) -> None:
        super().__init__(runner, results, first=first, should_stop=should_stop)
        self.spark_runner, self.endurance = runner, endurance
        results.steering.on_hosts = self.has_breakable_hosts

    @property
    def has_breakable_hosts(self) -> bool:
        return self.spark_runner.hosts is not None

    def can_inject(self, fault: Fault) -> bool:
        """A kind that this kernel, or its tools, cannot carry out is left out, and named beside the stage."""
        hosts = self.spark_runner.hosts
        why = hosts.why_not(fault.kind) if hosts is not None else ""
        if why:
            self.stage.cut = self.stage.cut or f"these hosts cannot have all of its faults, such as {fault.kind}: {why}"
        return not why and super().can_inject(fault)

    def doubt_kinds_that_never_struck(self) -> None:
        """A fault of hosts may come to nothing: its stage ran then, and examined nothing."""
        struck = {kind for (_, kind), (_, fired, _, _) in self.results.coverage.cells.items() if fired}
        hosts, left = self.spark_runner.hosts, sorted({kind for kind, _ in host_schedules.FIRST} - struck)
        if hosts is None:
            return
        for kind in [kind for kind in left if hosts.why_not(kind)]:  # a slow link shows no more than a cut
            where = self.results.notes if kind == SLOW_LINK else self.results.unknowns
            where.append(
                f"no host had a {kind}, because this kernel, or its tools, cannot do that: {hosts.why_not(kind)}"
            )
            left.remove(kind)
        if self.results.steering.required_stages_done and left:
            self.results.unknowns.append(
                f"none of the schedules with {', '.join(left)} struck a host. Run it again on a less busy machine"
            )

    def prepare(self) -> bool:
        """Lines of a user's sink are points here, too; those of our own adapters are covered by other shells."""
        for schedule in self.first:  # again and again: in real time a zombie resumes at another moment each time
            self.run(schedule)
        self.runner.reset()
        lines = not self.contract.marks_points
        first = first_run(
            self.runner, self.results, play=lambda schedule: self.play(schedule, lines=lines), take=self.take
        )
        if lines:
            self.lines_were_traced()
        if first is None:
            return False
        self._baseline = first
        for job in JOBS:
            self.run(Schedule(job=job))
        return True

    def strike_unstruck_points(self) -> None:
        """The points of a recovery depend on the moment of the death, which real time does not repeat. If a death does
        not lead to a point any more, others are tried.
        """
        super().strike_unstruck_points()
        steering, coverage = self.results.steering, self.results.coverage
        for point in coverage.never_struck():
            ways = (*steering.unreproducible, *(way.schedule for way in steering.reaching.get(point, ())))
            places = {way.faults[-1] for way in ways if way.faults[-1].point == point}
            for place, before in product(sorted(places), BEFORE):
                if not coverage.examined(point):
                    self.run_schedules([Schedule((Fault(place.actor, before, 1, "kill"), place))])

    def run_endurance_job(self) -> None:
        plan = ON_SERVICES if self.has_breakable_service and self.endurance.attempts else self.endurance
        if plan not in (FULL, ON_SERVICES):
            wanted = f"{len(FULL.kinds)} deaths and {FULL.rows:,} rows"
            self.stage.cut = f"{len(plan.kinds)} deaths and {plan.rows:,} rows; {FULL_SECONDS:.0f} s would do {wanted}"
        if plan.attempts:
            self._endure(plan)

    def run_endurance_job_on_hosts(self) -> None:
        """Every kind that these hosts can have, at every step."""
        steps = StepsOfHosts(steps_of_hosts(self._steps()))
        kinds = [kind for kind in SENTENCES if self.can_inject(Fault(*steps.every[0], 1, kind))]
        plan = on_hosts(steps, kinds=kinds)
        self.stop_if_it_takes_too_long(len(plan.kinds) * SECONDS_PER_HOST)
        job, outcome = self._endure(plan)
        self.results.unknowns += too_few(outcome)
        for fault in job.faults[:-1]:  # the last one is counted with the run
            self.results.coverage.count(fault.point, fault.kind)
        if left := job.of_hosts.left_out([kind for kind in kinds if kind != HEAL]):
            self.stage.cut = self.stage.cut or f"{len(left)} steps were not passed in time, such as {left[0]}"

    def _steps(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((self.baseline.names[actor], point) for actor, point in self.baseline.trace))

    def _endure(self, plan: EndurancePlan) -> tuple[EnduranceJob, EnduranceOutcome]:
        job = EnduranceJob(self.spark_runner, plan, steps=self._steps(), progress=self.results.progress)
        outcome = job.run()
        self.results.coverage.bounds.note_rows(outcome.run_result)
        Campaign.take(self, outcome.run_result)  # its schedule is no replay: no second run locates a line
        self.results.long_jobs.append(outcome.summary)
        self.stop_if_asked()
        return job, outcome
