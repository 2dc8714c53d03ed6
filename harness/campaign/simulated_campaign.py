"""What is tried in the simulated shell, cheapest and most telling first.

1. a baseline without faults, twice: it must finish, commit rows, and pass the same points both times;
2. a recovery from every checkpoint alone, with no further rows: what was acknowledged must be recoverable (O10);
3. one death in each kind of job, and one crash of the whole job at every named point and every executed line;
4. every single fault at every named point that the baseline passes. Where the contract cannot copy its target (no
   `freeze`/`thaw`), an attempt that died in this process may still hold locks and threads, which SIGKILL would have
   released: then attempts die in the process shell only;
5. deaths in a commit, and a loss of power later; one crash of the whole job at every named point, from which it goes
   on with another parallelism, and one at every line while it does; then the closures (closures.py): any number of
   whole-job crashes, with ids shifted and orders branched; in the job with idle gaps; at executed lines, too; and one
   crash at every line of the job with many rows;
6. single deaths and stops at executed lines: on this, and on all before, the verdict rests;
7. as far as the budget goes: partial deaths between whole-job crashes, then every ordered pair of faults (fault_pairs.py):
   deaths, zombies and errors at protocol steps, then all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from sinkproof.campaign.baseline import first_run, rescaled
from sinkproof.campaign.checkpoint_recovery import try_recoveries
from sinkproof.campaign.exhaustive import Thousands
from sinkproof.campaign.reset_checks import not_copied
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_workers import ALONE, SimulatedWorkers, tracer_of
from sinkproof.chaos.explorer import Closure, Explorer
from sinkproof.chaos.faults import is_virtual
from sinkproof.chaos.lines import LineTracer
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import COORDINATOR, EVERY_STEP, STANDARD, STEPS, Fault, Schedule
from sinkproof.execution.schedule_runner import RunResult, ScheduleRunner, Tracing, no_tracing
from sinkproof.exploration.closures import MIXED_SECONDS, SHIFTS, Closures
from sinkproof.exploration.job_world import JobState, JobWorld
from sinkproof.exploration.shrinking import smallest
from sinkproof.generators.fault_sites import DECIDED, first_of_each, places
from sinkproof.generators.high_yield import at_first
from sinkproof.generators.interleavings import in_files_not_forced
from sinkproof.generators.rare import RareFaults
from sinkproof.judging.oracle import Anomaly
from sinkproof.workload.jobs import JOBS, ZOMBIE_LATE_JOB, ZOMBIE_VERY_LATE_JOB

# Few and telling ones first; kill-job is the closure's.
ORDER_OF_KINDS: Final = ("decline", "lose", "kill", "stop", "pause", "error")
COMPARED_EVERY: Final = 50  # faults that another one stands for: some dozens of a file sink's
STATES_MOST: Final = 20_000
SHRUNK_MOST: Final = 8  # findings of one oracle; a handful is kept
RESIDUE_LEAST: Final = 10  # things that a job with two sinks and three pending checkpoints may hold at once
ORDERS: Final = (*STEPS, EVERY_STEP)
BULK_TIMES_MOST: Final = 6  # what is done for each row is done a thousand times a checkpoint


class CampaignStopped(Exception):
    """The campaign was asked to stop: what was looked for is found, or the time is up."""


class SimulatedCampaign:
    """One subject in the simulated shell. `enough` is asked after every schedule. `lanes`: who helps, where there are
    thousands of them.
    """

    def __init__(
        self,
        runner: ScheduleRunner,
        results: CampaignResults,
        *,
        should_stop: Callable[[CampaignResults], bool] = lambda results: False,
        mixed_seconds: float = MIXED_SECONDS,
        workers: SimulatedWorkers = ALONE,
    ) -> None:
        self.runner, self.results, self.should_stop = runner, results, should_stop
        self.workers = workers
        self.exact = runner.contract.copies
        self.closures = Closures(runner, close=self._close, may=self._may, mixed_seconds=mixed_seconds)
        self.tracer = LineTracer({})
        self.found_in_closures: Counter[str] = Counter()

    def run(self) -> None:
        """Fills the tally; stops early when there is enough."""
        try:
            baseline = self._baseline()
            if baseline is None:
                return
            for job in JOBS if not self.results.deferred else ():
                try_recoveries(self.runner, self.results, job)
            if not self.results.deferred:
                # Where attempts cannot die, one that was cancelled may still hold what a third one waits for.
                for schedule in at_first(self.runner, "kill", rescaled=rescaled(self.results) if self.exact else ()):
                    self._try(schedule)
                self._close(self.closures.world(tracing=self.tracer), depth_most=1)
            self._singles(baseline)
            if self.results.deferred:
                return
            RareFaults(self.runner, self.results, run=self._try, close=self._crash_job).try_all(baseline)
            if self.exact:
                self._deaths_before_losses()
            for job in rescaled(self.results):
                self._close(self.closures.world(job=job), depth_most=1)
                self._close(self._recovery_in(job), depth_most=1)
            self._before_endless_closures()
            self.closures.whole_job([*self._messages(baseline), *self._missed()])
            self.closures.other("in the job with idle gaps", self.closures.world(job="sparse"))
            self.closures.other("at executed lines", self.closures.world(tracing=self.tracer))
            if self.exact:
                self._close(self._bulk_at_lines(), depth_most=1)
                self._thousands(baseline)
        except CampaignStopped:
            pass
        self.results.closures += self.closures.others_told()

    # -- 1 -----------------------------------------------------------------------------------------

    def _baseline(self) -> RunResult | None:
        self.tracer = tracer_of(self.runner)
        self.results.files = self.tracer.files
        first = first_run(self.runner, self.results, self._run)
        if first is None:
            return None
        if why := not_copied(self.runner):
            self.results.deferred = why
        again = self.runner.run(Schedule())
        if again.trace != first.trace:
            self.results.notes.append("two runs without faults passed different points: some schedules may not fire")
        for job in JOBS:
            for seed in range(3):
                self._try(Schedule(seed=seed, job=job))
        for schedule in (*(Schedule(ids=ids) for ids in SHIFTS), *(Schedule(orders=(order,)) for order in ORDERS)):
            self._try(schedule)
        return first

    # -- 3 -----------------------------------------------------------------------------------------

    def _singles(self, baseline: RunResult) -> None:
        schedules = [*self._named_singles(baseline), *self._after_decline(baseline)]
        self.results.announce(len(schedules))
        for schedule in schedules:
            self._try(schedule)

    def _named_singles(self, baseline: RunResult) -> Iterator[Schedule]:
        for kind in ORDER_OF_KINDS:
            yield from (Schedule((fault,)) for fault in places(baseline, kind) if self._may(fault))
        late = (fault for fault in places(baseline, "stop", sparse=True) if self._may(fault))
        yield from (Schedule((fault,), job=ZOMBIE_LATE_JOB) for fault in late)
        slept = (fault for fault in first_of_each(baseline, "stop", lines=False) if self._may(fault))
        yield from (Schedule((fault,), job=ZOMBIE_VERY_LATE_JOB) for fault in slept)

    def _after_decline(self, baseline: RunResult) -> Iterator[Schedule]:
        """Steps that only an aborted checkpoint makes them pass."""
        decline = next(places(baseline, "decline"))
        declined = self.runner.run(Schedule((decline,)))
        for kind in ("lose", "kill", "stop"):
            faults = (fault for fault in places(declined, kind) if "abort" in fault.point and self._may(fault))
            yield from (Schedule((decline, fault)) for fault in faults)

    def _crash_job(self, job: str, *, preludes: Sequence[tuple[Fault, ...]] = ((),)) -> None:
        self._close(self.closures.world(job=job, preludes=preludes), depth_most=1)

    def _recovery_in(self, job: str) -> JobWorld:
        """Crashes at each line once everybody has been given the states of others."""
        decided = Fault(COORDINATOR, DECIDED, 1, "kill-job")
        return self.closures.world(job=job, preludes=[(decided,)], tracing=self.tracer, between=lambda *_: ())

    def _bulk_at_lines(self) -> JobWorld:
        """Crashes where buffers are flushed in the middle of something."""
        return self.closures.world(job="large-batches", tracing=self.tracer, times_most=BULK_TIMES_MOST)

    def _before_endless_closures(self) -> None:
        """Names drawn at random, or what is left behind, make the closures of some folders endless."""
        if missed := self._missed():
            self._crash_job(STANDARD, preludes=missed)
        if not self.exact:
            self._crash_job("sparse")
            self._close(self._bulk_at_lines(), depth_most=1)

    def _may(self, fault: Fault) -> bool:
        """Whether a death of this actor in this process is as good as SIGKILL."""
        return self.exact or fault.actor == COORDINATOR or fault.kind == "decline"

    def _try(self, schedule: Schedule, *, tracing: Tracing = no_tracing) -> RunResult:
        run_result = self._run(schedule, tracing=tracing)
        if self.should_stop(self.results):
            raise CampaignStopped
        return run_result

    def _run(self, schedule: Schedule, *, tracing: Tracing = no_tracing) -> RunResult:
        self.results.progress.step(str(schedule), 0)
        run_result = self.runner.run(schedule, tracing=tracing)
        self.results.add(run_result)
        return run_result

    # -- 4 -----------------------------------------------------------------------------------------

    def _messages(self, baseline: RunResult) -> list[tuple[Fault, ...]]:
        """Each lost notification and each declined vote, after which everything may die."""
        return [(fault,) for kind in ("decline", "lose") for fault in places(baseline, kind)]

    def _missed(self) -> list[tuple[Fault, ...]]:
        """What leads to steps that were passed, but never struck: a cancelled attempt's abort, for one."""
        found = (each for each in self.results.to_strike() if not any(is_virtual(fault.kind) for fault in each.faults))
        schedules = [schedule for schedule in found if not schedule.seed and schedule.job == STANDARD]
        return list(dict.fromkeys(schedule.faults[:-1] for schedule in schedules if schedule.faults[1:]))

    def _close(
        self,
        world: JobWorld,
        *,
        depth_most: float = inf,
        keep: Callable[[Closure[JobState]], None] = lambda closure: None,
        go_on: Callable[[], bool] = lambda: True,
    ) -> Closure[JobState]:
        """`keep` is given the closure before the campaign may end; `go_on` may end this closure alone."""
        told = 0

        def tell(closure: Closure[JobState]) -> None:
            """Each finding once, and at once: `enough` may wait for it."""
            nonlocal told
            for state, anomaly in closure.findings[told:]:
                self._find(world, anomaly, state=state)
            told = len(closure.findings)

        def may_go_on(closure: Closure[JobState]) -> bool:
            if not go_on():
                return False
            self.results.progress.step(f"closure: {closure.runs} states run, {closure.crashes} crashes", 0)
            self.results.crashed(world.points)  # at once: `enough` may ask which steps were struck
            world.points.clear()
            tell(closure)
            return not self.should_stop(self.results)

        explorer = Explorer(world, go_on=may_go_on, states_most=STATES_MOST, depth_most=depth_most)
        closure = explorer.explore()
        keep(closure)
        self.results.runs += closure.runs
        self.results.in_bound += closure.runs
        self.results.crashed(world.points)
        self.results.lines_known |= self.tracer.known()
        tell(closure)
        if closure.growing is not None:
            self._accumulates(world, closure.growing)
        if self.should_stop(self.results):
            raise CampaignStopped
        return closure

    def _accumulates(self, world: JobWorld, state: JobState) -> None:
        """There is no end of states. What a contract calls residue must not grow with every crash."""
        crashes, schedule = len(state.path), world.schedule(state)
        world.thaw_target(state.target)
        residue = self.runner.contract.optional("residue")
        left = list(residue(self.runner.scratch)) if residue is not None else []
        why = f"{STATES_MOST:,} crashes leave {STATES_MOST:,} different states: something accumulates with every crash"
        if len(left) > max(RESIDUE_LEAST, crashes):
            why += f"; after {crashes} of them {len(left)} things linger, such as {left[0]}"
            self.results.find(Anomaly(oracle="O7", why=why), schedule)
        else:
            self.results.notes.append(f"{why}. One path that grows: {schedule}")

    def _find(self, world: JobWorld, anomaly: Anomaly, *, state: JobState) -> None:
        """Keeps the smallest schedule that shows the same."""
        schedule = world.schedule(state)
        self.found_in_closures[anomaly.oracle] += 1
        few = self.found_in_closures[anomaly.oracle] <= SHRUNK_MOST
        if not (few and self.results.would_keep(anomaly, schedule)):
            self.results.find(anomaly, schedule)
            return
        found = smallest(self.runner, schedule, oracle=anomaly.oracle, tracer=self.tracer)
        if found is not None:
            self.results.find(found.anomaly, found.schedule, run_result=found.run_result, counted=False)
        else:
            self.results.find(anomaly, schedule)

    # -- 5 -----------------------------------------------------------------------------------------

    def _deaths_before_losses(self) -> None:
        """Deaths in a commit, and a loss of power when the next attempt has taken over what was there."""
        if not self.runner.contract.offers("lose_power"):
            return
        traced = self._traced(Schedule())
        schedules = list(in_files_not_forced(traced, self.runner.contract))
        self.results.announce(len(schedules))
        for schedule in schedules:
            run_result = self._traced(schedule)
            named = [passed for passed in run_result.trace if not is_line(passed[1])]
            self.results.add(replace(run_result, trace=named))  # lines of recoveries are the closures' to strike
            if self.should_stop(self.results):
                raise CampaignStopped

    def _traced(self, schedule: Schedule) -> RunResult:
        self.results.progress.step(str(schedule), 0)
        return self.runner.run(schedule, tracing=self.tracer)

    # -- 6, 7 --------------------------------------------------------------------------------------

    def _thousands(self, baseline: RunResult) -> None:
        tracer, workers, should_stop = self.tracer, self.workers, self.should_stop
        thousands = Thousands(self.runner, self.results, tracer=tracer, workers=workers, should_stop=should_stop)
        thousands.at_lines()
        if self.should_stop(self.results):
            raise CampaignStopped
        self.closures.with_partial_deaths()
        thousands.pairs(baseline, may=self._may)
