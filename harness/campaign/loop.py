"""Runs the stages of a plan in order, until the plan is done or the campaign must stop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property
from math import inf
from typing import Final

from sinkproof.campaign.baseline import rescaled
from sinkproof.campaign.coverage import KINDS_AT_LINES
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Need, Plan, Stage, StageCoverage
from sinkproof.campaign.workers.idle_cores import times_as_long
from sinkproof.campaign.workers.worker_pool import RunAll, one_by_one
from sinkproof.chaos.clock import now
from sinkproof.chaos.lines import known_lines
from sinkproof.chaos.processes.given_up import GivenUp, given_up_on_signal
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators import single_faults
from sinkproof.generators.fault_sites import EACH, evenly
from sinkproof.subject.claims import READ_BESIDE, Claim
from sinkproof.subject.contract import Contract
from sinkproof.subject.heartbeat import heartbeat

ShouldStop = Callable[[CampaignResults], bool]
REQUIRED_SECONDS: Final = 450.0  # until the last required stage has begun: three quarters of a slow sink's time
STAGE_SECONDS_LEAST: Final = 10.0
PART_AT_FIRST: Final = 4  # runs
SLOW_SECONDS: Final = 0.3  # of a run, on an idle machine
ROUNDS_MOST: Final = 3  # in each round faults strike at points that only recoveries of the round before pass


class CampaignStopped(Exception):
    """The campaign must stop: the finding searched for was made, or the budget is spent."""


class Campaign(ABC):
    """One subject in one shell. `should_stop` is called after every run; `run_all` may use other processes."""

    def __init__(
        self,
        runner: ScheduleRunner,
        results: CampaignResults,
        *,
        should_stop: ShouldStop = lambda results: False,
        run_all: RunAll = one_by_one,
    ) -> None:
        self.runner, self.results, self.should_stop, self.run_all = runner, results, should_stop, run_all
        self.contract: Contract = runner.contract
        self.tried: set[Schedule] = set()
        self.began = now()
        self.stage = StageCoverage(name="")
        self.share = self.stage_seconds = inf
        self.stage_began = self.began
        self._baseline: RunResult | None = None
        self.runs_are_slow = False

    def carry_out(self, plan: Plan) -> None:
        """Fills the results; returns early when the campaign is to stop."""
        self.results.coverage.stages = [StageCoverage(name=stage.name) for stage in plan]
        with suppress(CampaignStopped, GivenUp), given_up_on_signal():
            if self.prepare():
                for number, (stage, coverage) in enumerate(zip(plan, self.results.coverage.stages, strict=True)):
                    later = plan[number + 1 :]
                    self.share = self.share_of_time(plan[number:])
                    self._carry_out(stage, coverage)
                    self._keep_so_far()
                    self.results.steering.required_stages_done = not any(map(self.is_required, later))
        for stage, coverage in zip(plan, self.results.coverage.stages, strict=True):
            if coverage.planned and coverage.run >= coverage.planned:  # the budget ended with its last schedule
                coverage.finished = not coverage.cut
            elif not (coverage.run or coverage.finished):  # whatever the budget: what does not apply is no gap
                coverage.skipped = self._unmet(stage)

    def _keep_so_far(self) -> None:
        """Where it is interrupted, and its last run does not end in time, no more than a stage is lost."""
        if self.results.shell != "simulated" and not self.contract.is_ours:
            self.results.progress.keep(self.results.outcome(seconds=now() - self.began))

    def _unmet(self, stage: Stage) -> str:
        return next((need.value for need in stage.needs if not CONDITIONS[need](self)), "")

    def is_required(self, stage: Stage) -> bool:
        return stage.required

    def share_of_time(self, stages: Plan) -> float:
        """Seconds, on an idle machine, that the first of these stages may take, so that slow runs come to the last one
        that is required: three times its part of what is left, as most stages take less.
        """
        required = [number for number, stage in enumerate(stages) if self.is_required(stage)]
        if self.results.shell != "process" or self.contract.is_ours or not required:
            return inf
        ends = self.results.steering.budget_ends
        left = max(REQUIRED_SECONDS - (now() - self.began) / times_as_long(), ends.left if ends else 0.0)
        return max(STAGE_SECONDS_LEAST, 3 * left / (required[-1] + 1))

    @abstractmethod
    def prepare(self) -> bool:
        """Runs the job without faults first; False: there is no baseline."""

    def _carry_out(self, stage: Stage, coverage: StageCoverage) -> None:
        self.stage, self.stage_began = coverage, now()
        self.stage_seconds = stage.seconds_most if stage.whole else min(stage.seconds_most, self.share)
        coverage.skipped = self._unmet(stage)
        if coverage.skipped:
            return
        self.results.progress.start(self.contract.name, stage.name)
        if stage.explore is not None:
            stage.explore(self)
        else:
            found = self._chosen(stage.schedules(self), concurrent_reader=stage.concurrent_reader)
            chosen = self._in_time(found, self.stage_seconds)
            coverage.planned = coverage.run + len(chosen)
            self.run_schedules(chosen, lines=stage.lines, concurrent_reader=stage.concurrent_reader)
        coverage.finished = not coverage.cut

    def run_schedules(
        self, schedules: Iterable[Schedule], *, lines: bool = False, concurrent_reader: bool = False
    ) -> None:
        """Each once in a campaign, and once more with a concurrent reader. Schedules with a fault that this shell
        cannot inject are left out.
        """
        found = self._chosen(schedules, concurrent_reader=concurrent_reader)
        chosen = self._in_time(found, self.stage_seconds - self._seconds_of_stage())
        self._run_all(chosen, lines=lines, concurrent_reader=concurrent_reader)

    def _run_all(self, schedules: Sequence[Schedule], *, lines: bool, concurrent_reader: bool) -> None:
        """Slow ones in parts, each twice as large: where they take far longer than before, the stage is cut between."""
        lines = lines or self.searches_lines
        is_slow = self._each() >= SLOW_SECONDS * times_as_long()
        began, done, size = now(), 0, PART_AT_FIRST if is_slow else len(schedules)
        while schedules:
            part, schedules = schedules[:size], schedules[size:]
            self._run_part(part, lines=lines, concurrent_reader=concurrent_reader)
            done, size = done + len(part), 2 * size
            schedules = self._still_in_time(schedules, done=done, each=(now() - began) / done)
        if lines:
            self.lines_were_traced()

    def _run_part(self, schedules: Sequence[Schedule], *, lines: bool, concurrent_reader: bool) -> None:
        def play(schedule: Schedule) -> RunResult:
            return self.play(schedule, lines=lines, concurrent_reader=concurrent_reader)

        beside = one_by_one if concurrent_reader else self.run_all
        for result in beside(schedules, trace_lines=lines, run=play):
            self.take(result)
            if concurrent_reader:
                self.results.coverage.read_concurrently()
            self.stop_if_asked()

    def _each(self) -> float:
        """Seconds that a run has taken so far."""
        return (now() - self.began) / max(1, self.results.coverage.runs)

    def _seconds_of_stage(self) -> float:
        """So far, as if the machine were idle."""
        return (now() - self.stage_began) / times_as_long()

    def _still_in_time(self, schedules: Sequence[Schedule], *, done: int, each: float) -> Sequence[Schedule]:
        """What fits into twice the time of the stage, if half of it is over. `done`: so many have been run."""
        seconds = self._seconds_of_stage()
        if seconds < self.stage_seconds / 2:
            return schedules
        fitting = self._in_time(schedules, max(0.0, 2 * self.stage_seconds - seconds), each=each)
        if left_out := len(schedules) - len(fitting):
            self.stage.planned = max(0, self.stage.planned - left_out)
            self.stage.cut = f"a run takes {each:.1g} s: {done + len(fitting)} of {done + len(schedules)} schedules"
        return fitting

    def _chosen(self, schedules: Iterable[Schedule], *, concurrent_reader: bool) -> list[Schedule]:
        tried = () if concurrent_reader else self.tried
        return [each for each in dict.fromkeys(schedules) if each not in tried and self.can_run(each)]

    def _in_time(
        self, schedules: Sequence[Schedule], seconds: float, *, each: float | None = None
    ) -> Sequence[Schedule]:
        """What fits into so many seconds, evenly, if a run takes `each`, or as long as those so far; more on a busy
        machine.
        """
        each = each or self._each()
        most = max(1.0, seconds * times_as_long() / each)
        if len(schedules) <= most:
            return schedules
        chosen = evenly(schedules, int(most))
        self.stage.cut = f"a run takes {each:.1g} s: {len(chosen)} of {len(schedules)} schedules"
        return chosen

    @property
    def searches_lines(self) -> bool:
        """Whether lines are traced in every run, because some that calls can lead to have not run yet."""
        return False

    def lines_were_traced(self) -> None:
        """Called after runs with executed lines as points: records which lines those files have."""
        coverage = self.results.coverage
        coverage.lines_known |= known_lines(self.runner.files, coverage.lines_passed)

    def can_run(self, schedule: Schedule) -> bool:
        return all(map(self.can_inject, schedule.faults))

    def can_inject(self, fault: Fault) -> bool:
        """Whether this shell can inject the fault."""
        return True

    def play(self, schedule: Schedule, *, lines: bool = False, concurrent_reader: bool = False) -> RunResult:
        self.results.report(str(schedule))
        is_command = self.contract.kind == "command"  # its calls and its reader have limits, a run of many has none
        with heartbeat(str(schedule), self.results.report) if is_command else nullcontext():
            return self.runner.run(schedule, trace_lines=lines, concurrent_reader=concurrent_reader)

    def take(self, result: RunResult) -> RunResult:
        """Counts a result, and keeps its findings."""
        self.tried.add(result.schedule)
        self.stage.run += 1
        self.results.coverage.kills += result.kills
        self.results.progress.step(str(result.schedule), self.results.coverage.kills)
        self.results.add(result)
        return result

    def stop_if_asked(self) -> None:
        if self.results.progress.is_interrupted() or self.should_stop(self.results):
            raise CampaignStopped

    def stop_if_it_takes_too_long(self, seconds: float) -> None:
        """Before a run that takes so long: a budget that holds is not exceeded. The stage is then not done."""
        ends = self.results.steering.budget_ends
        if ends is not None and ends.left < seconds:
            raise CampaignStopped
        self.stop_if_asked()

    def strike_unstruck_points(self) -> None:
        """Kills at steps and lines that only recoveries pass."""
        for _ in range(ROUNDS_MOST):
            self.run_schedules(self.results.steering.to_unstruck_points(self.results.coverage))

    def strike_lines_of_recoveries(self) -> None:
        """Each kind at lines that the run without faults does not execute."""
        for kind in KINDS_AT_LINES:
            self.run_schedules(self.results.steering.to_lines_without(kind, self.results.coverage), lines=True)

    def fail_calls_of_recoveries(self) -> None:
        """Errors before and after calls to the target in recoveries, and at calls that only rarer faults lead to."""
        self.run_schedules(single_faults.errors_in_recoveries(self))
        for _ in range(ROUNDS_MOST):
            self.run_schedules(self.results.steering.to_calls_without_errors(self.results.coverage))

    # -- what generators may use: see generators/campaign_view.py -----------------------------------

    @property
    def baseline(self) -> RunResult:
        assert self._baseline is not None
        return self._baseline

    @property
    def traced_baseline(self) -> RunResult:
        return self.baseline

    @cached_property
    def rescaled_jobs(self) -> Sequence[str]:
        return rescaled(self.results)

    @property
    def has_breakable_service(self) -> bool:
        return bool(self.runner.scratch.services.breakable())

    @property
    def has_breakable_hosts(self) -> bool:
        return False

    @property
    def occurrences_most(self) -> int:
        if not self.runs_are_slow:
            return EACH
        self.stage.cut = "a run takes long: each fault was injected once at each step, not three times"
        return 1

    def can_rescale_after(self, fault: Fault) -> bool:
        return True

    def run(self, schedule: Schedule) -> RunResult:
        return self._run_now(schedule, lines=False)

    def run_traced(self, schedule: Schedule) -> RunResult:
        return self._run_now(schedule, lines=True)

    def _run_now(self, schedule: Schedule, *, lines: bool) -> RunResult:
        result = self.take(self.play(schedule, lines=lines))
        self.stop_if_asked()
        return result

    def points_passed(self) -> frozenset[str]:
        return frozenset(self.results.coverage.passed)

    def shortest_ways_to(self) -> Mapping[str, tuple[Schedule, Fault]]:
        reaching = self.results.steering.reaching
        return {point: (ways[0].before, ways[0].last) for point, ways in reaching.items() if ways}


def _has_outward_calls(campaign: Campaign) -> bool:
    return bool(campaign.results.coverage.outward.calls)


CONDITIONS: Final[dict[Need, Callable[[Campaign], bool]]] = {
    Need.NO_SERVICE: lambda campaign: not campaign.has_breakable_service,
    Need.SERVICE: lambda campaign: campaign.has_breakable_service,
    Need.USES_SERVICE: lambda campaign: bool(campaign.results.services.used),
    Need.RESCALES: lambda campaign: bool(campaign.rescaled_jobs),
    Need.COPIES: lambda campaign: campaign.contract.copies,
    Need.NO_COPIES: lambda campaign: not campaign.contract.copies,
    Need.FOREIGN_CODE: lambda campaign: not campaign.contract.is_ours,
    Need.NO_NAMED_POINTS: lambda campaign: not campaign.contract.marks_points,
    Need.WALL_CLOCK: lambda campaign: campaign.runner.moves_wall_clock,
    Need.CONCURRENT_READER: lambda campaign: bool(campaign.contract.claims & READ_BESIDE),
    Need.CRASHABLE_HERE: lambda campaign: not campaign.results.steering.deferred_to_processes,
    Need.POWER_LOSS: lambda campaign: campaign.contract.offers("lose_power"),
    Need.ENDURANCE: lambda campaign: campaign.contract.rows == "append",
    Need.HANDLES_SIGTERM: lambda campaign: campaign.results.coverage.handles_sigterm,
    Need.HOSTS: lambda campaign: campaign.has_breakable_hosts,
    Need.INSIDE_SERVICE: lambda campaign: campaign.results.services.options.inside_service,
    Need.OUTWARD_CALLS: lambda campaign: campaign.contract.kind == "command" and _has_outward_calls(campaign),
    Need.NATIVE_CALLS: lambda campaign: campaign.contract.kind != "command" and _has_outward_calls(campaign),
    Need.PYTHON: lambda campaign: campaign.contract.kind != "command",
    Need.WATCHED_POWER: lambda campaign: (
        Claim.SURVIVES_POWER_LOSS in campaign.contract.claims and not campaign.contract.offers("lose_power")
    ),
}
