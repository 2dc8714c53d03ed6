"""Runs and records schedules, closures and pairs in the simulated shell. The stages are in simulated_plan.py.

Without freeze and thaw in the contract, an attempt that died in this process may still hold locks and threads, which
SIGKILL would have released. Such attempts are killed in the process shell only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from sinkproof.campaign.baseline import first_run, not_copied
from sinkproof.campaign.checkpoint_recovery import try_recoveries
from sinkproof.campaign.exhaustive import ExhaustiveRuns
from sinkproof.campaign.loop import Campaign, ShouldStop
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.workers.simulated_workers import ALONE
from sinkproof.campaign.workers.worker_pool import LateWorkers
from sinkproof.chaos.clock import now
from sinkproof.chaos.crash_closure import ExploredClosure, Explorer
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import COORDINATOR, EVERY_STEP, STANDARD, STEPS, Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.closures import MIXED_SECONDS, SHIFTS, Closures
from sinkproof.exploration.job_world import JobState, JobWorld
from sinkproof.exploration.judged_runs import FROM_COPIES, ending
from sinkproof.exploration.shrinking import smallest
from sinkproof.generators import rare
from sinkproof.generators.fault_sites import DECIDED, places
from sinkproof.judging.oracle import Anomaly
from sinkproof.reference_engine.shells.process.process_status import seconds_without_core
from sinkproof.workload.job_names import JOBS, LARGE_BATCHES_JOB, SPARSE_JOB

STATES_MOST: Final = 20_000
SHRUNK_MOST: Final = 8  # so many findings of one oracle are shortened; a handful of them is kept
RESIDUE_LEAST: Final = 10  # a job with two sinks and three pending checkpoints may hold so many things at once
ORDERS: Final = (*STEPS, EVERY_STEP)
# Lines that handle single rows run a thousand times in a checkpoint; the first turns are crashed.
BULK_TIMES_MOST: Final = 6
FEW: Final = 2  # a schedule of so few faults is not shortened
SLOW_SECONDS: Final = 3.0  # for some 75 runs with a concurrent reader, which take 0.1 s in memory
NO_CODE_DIES: Final = frozenset({"cancel", "decline", "depose", "drain", "expire", "lose", "maintain", *rare.MESSAGES})


class SimulatedCampaign(Campaign):
    """One subject in the simulated shell. `workers`: processes that share the runs at lines and of pairs."""

    def __init__(
        self,
        runner: ScheduleRunner,
        results: CampaignResults,
        *,
        should_stop: ShouldStop = lambda results: False,
        mixed_seconds: float = MIXED_SECONDS,
        workers: LateWorkers = ALONE,
    ) -> None:
        super().__init__(runner, results, should_stop=should_stop)
        self.workers = workers
        self.closures = Closures(runner, close=self.close, may=self.can_inject, mixed_seconds=mixed_seconds)
        self.found_in_closures: Counter[str] = Counter()

    @property
    def traced_baseline(self) -> RunResult:
        return self.runner.run(Schedule(), trace_lines=True)

    def prepare(self) -> bool:
        self.runner.find_own_files()
        self.results.own_code = self.runner.own_code
        first = first_run(self.runner, self.results, play=self.play, take=self.take)
        if first is None:
            return False
        self._baseline = first
        if why := not_copied(self.runner, first):
            self.results.steering.deferred_to_processes = why
        if self.runner.run(Schedule()).trace != first.trace:
            self.results.notes.append("two runs without faults passed different points: some schedules may not fire")
        for schedule in (
            *(Schedule(seed=seed, job=job) for job in JOBS for seed in range(3)),
            *(Schedule(ids=ids) for ids in SHIFTS),
            *(Schedule(orders=(order,)) for order in ORDERS),
        ):
            self.run(schedule)
        return True

    def can_inject(self, fault: Fault) -> bool:
        """Whether a death of this actor in this process is as good as SIGKILL."""
        if self.contract.copies or fault.kind in NO_CODE_DIES:
            return True
        return fault.kind == "kill" and fault.actor == COORDINATOR

    def play(self, schedule: Schedule, *, lines: bool = False, concurrent_reader: bool = False) -> RunResult:
        if len(schedule.faults) > FEW and not lines:
            schedule = self._shortened(schedule)
        result = super().play(schedule, lines=lines, concurrent_reader=concurrent_reader)
        if not lines:
            return result
        named = [passed for passed in result.trace if not is_line(passed[1])]
        return replace(result, trace=named)  # lines that recoveries execute are left to the closures

    def _shortened(self, schedule: Schedule) -> Schedule:
        """Shrinks a convicting schedule of many faults, because a line of ten faults is unreadable."""
        found = next(iter(self.runner.run(schedule).anomalies), None)
        shorter = found and smallest(self.runner, schedule, oracle=found.oracle)
        return shorter.schedule if shorter else schedule

    def can_rescale_after(self, fault: Fault) -> bool:
        return self.contract.copies

    def run_traced(self, schedule: Schedule) -> RunResult:
        return self.runner.run(schedule, trace_lines=True)

    # -- what is more than a list of schedules: stages of the plan ------------------------------------

    def recover_from_each_checkpoint(self) -> None:
        for job in JOBS:
            self.stage.run += try_recoveries(self.runner, self.results, job)

    def crash_at_each_line(self) -> None:
        self.close(self.closures.world(trace_lines=True), depth_most=1)

    def read_concurrently(self) -> None:
        """If a run takes long, rarer faults are injected once at each step instead of three times. That a machine is
        busy is no reason.
        """
        began = now() - seconds_without_core()
        self.run_schedules(rare.with_a_concurrent_reader(self), concurrent_reader=True)
        if self.contract.copies and now() - seconds_without_core() - began > SLOW_SECONDS:
            self.runs_are_slow = True

    def crash_after_message_faults(self) -> None:
        self.crash_job(STANDARD, preludes=rare.message_faults_before_whole_job_crashes(self))

    def crash_in_virtual_jobs(self) -> None:
        for job in rare.virtual_jobs(self):
            self.run_schedules(rare.in_job(self, job))
            self.crash_job(job, preludes=rare.faults_before_whole_job_crashes(self, job))

    def crash_and_rescale(self) -> None:
        """At every named point, and at each line of a recovery in which all subtasks restore states of others."""
        decided = Fault(COORDINATOR, DECIDED, 1, "kill-job")
        for job in self.rescaled_jobs:
            self.crash_job(job)
            recovery = self.closures.world(job=job, preludes=[(decided,)], trace_lines=True, between=lambda *_: ())
            self.close(recovery, depth_most=1)

    def crash_after_unstruck_points(self) -> None:
        """Before closures that random names, or what is left behind, make endless."""
        for job, preludes in self._preludes_to_unstruck_points().items():
            self.crash_job(job, preludes=preludes)

    def crash_in_idle_gaps(self) -> None:
        self.crash_job(SPARSE_JOB)

    def crash_bulk_at_lines(self) -> None:
        """Whole-job crashes while buffers are flushed in the middle of a call."""
        self.close(
            self.closures.world(job=LARGE_BATCHES_JOB, trace_lines=True, times_most=BULK_TIMES_MOST), depth_most=1
        )

    def close_whole_job(self) -> None:
        """Also after each lost notification and each declined vote."""
        messages = [(fault,) for kind in ("decline", "lose") for fault in places(self.baseline, kind)]
        self.closures.whole_job([*messages, *self._preludes_to_unstruck_points().get(STANDARD, ())])

    def close_idle_gaps(self) -> None:
        self.closures.other("in the job with idle gaps", self.closures.world(job=SPARSE_JOB))

    def close_lines(self) -> None:
        self.closures.other("at executed lines", self.closures.world(trace_lines=True))

    def strike_at_lines(self) -> None:
        ExhaustiveRuns(self, self.workers).at_lines()
        self.stop_if_asked()

    def close_with_partial_deaths(self) -> None:
        self.closures.with_partial_deaths()

    def run_pairs(self) -> None:
        ExhaustiveRuns(self, self.workers).pairs()
        self.stop_if_asked()

    def _preludes_to_unstruck_points(self) -> dict[str, list[tuple[Fault, ...]]]:
        """By job: faults that lead to steps without an injected fault, such as the abort of a cancelled attempt. In
        another job than the standard one it may be none.
        """
        found: dict[str, list[tuple[Fault, ...]]] = {}
        for schedule in self.results.steering.to_unstruck_points(self.results.coverage):
            before = schedule.faults[:-1]
            known = found.setdefault(schedule.job, [])
            if schedule.seed or before in known or any(KINDS[fault.kind].is_virtual for fault in schedule.faults):
                continue
            if before or schedule.job != STANDARD:
                known.append(before)
        return {job: preludes for job, preludes in found.items() if preludes}

    # -- closures -------------------------------------------------------------------------------------

    def crash_job(self, job: str, *, preludes: Sequence[tuple[Fault, ...]] = ((),)) -> None:
        """One crash of the whole job at every named point, perhaps after other faults."""
        self.close(self.closures.world(job=job, preludes=preludes), depth_most=1)

    def close(
        self,
        world: JobWorld,
        *,
        depth_most: float = inf,
        keep: Callable[[ExploredClosure[JobState]], None] = lambda closure: None,
        go_on: Callable[[], bool] = lambda: True,
    ) -> ExploredClosure[JobState]:
        """Explores a world. `keep` is given the closure before the campaign may end; `go_on` may end this closure
        alone.
        """
        reported = 0
        coverage = self.results.coverage

        def report(closure: ExploredClosure[JobState]) -> None:
            """Each finding once, and at once: `should_stop` may wait for it."""
            nonlocal reported
            for state, anomaly in closure.findings[reported:]:
                self._find(world, anomaly, state=state)
            reported = len(closure.findings)

        def may_go_on(closure: ExploredClosure[JobState]) -> bool:
            if not go_on():
                return False
            self.results.progress.step(f"closure: {closure.states} states run", 0)
            self._count(closure, world)  # before `should_stop` reads at which steps faults were injected
            report(closure)
            return not self.should_stop(self.results)

        def ran(state: JobState, found: Sequence[Anomaly]) -> None:
            self.results.log.note(FROM_COPIES, world.schedule(state), ending(found))

        closure = Explorer(world, go_on=may_go_on, states_most=STATES_MOST, depth_most=depth_most, ran=ran).explore()
        keep(closure)
        coverage.runs += closure.runs
        coverage.joined += closure.joined
        self.stage.run += closure.runs
        self.stage.cut = self.stage.cut or closure.why
        self._count(closure, world)
        coverage.lines_known |= self.runner.tracer.known()
        report(closure)
        if closure.growing is not None:
            self._accumulates(world, closure.growing)
        self.stop_if_asked()
        return closure

    def _count(self, closure: ExploredClosure[JobState], world: JobWorld) -> None:
        coverage = self.results.coverage
        coverage.saw(world.points)
        coverage.in_threads |= world.in_threads
        coverage.crashed(closure.crashed, covered=closure.covered)
        for counted in (closure.crashed, closure.covered):
            counted.clear()

    def _accumulates(self, world: JobWorld, state: JobState) -> None:
        """There is no end of states. What a contract calls residue must not grow with every crash."""
        crashes, schedule = len(state.path), world.schedule(state)
        world.thaw_target(state.target)
        residue = self.contract.optional("residue")
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
        if few and self.results.would_keep(anomaly, schedule):
            found = smallest(self.runner, schedule, oracle=anomaly.oracle)
            if found is not None:
                self.results.find(found.anomaly, found.schedule, result=found.result, counted=False)
                return
        self.results.find(anomaly, schedule)
