"""Runs and records schedules with sinks in processes. The stages are in process_plan.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final

from sinkproof.campaign.baseline import first_run, why_not_watched
from sinkproof.campaign.loop import CONDITIONS, Campaign, ShouldStop
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Need, Stage
from sinkproof.campaign.workers.worker_pool import RunAll, one_by_one
from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.processes.files_of_hosts import on_own_host
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import ProcessRunner
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators import (
    beside_service,
    high_yield,
    interleavings,
    late_calls,
    lines_never_run,
    native_calls,
    single_faults,
)
from sinkproof.generators.combinations import DECISIONS
from sinkproof.generators.deaths_beside_programs import START_PROGRAMS, deaths_of_programs
from sinkproof.generators.fault_sites import evenly, places
from sinkproof.generators.feasible import settles
from sinkproof.generators.shown_by_runs import ShownByRuns
from sinkproof.subject.heartbeat import heartbeat
from sinkproof.subject.source_files import reachable_in
from sinkproof.subject.static_analysis.names_in_code import has_name, sees_its_host
from sinkproof.subject.static_analysis.reachable_lines import Duty, Statement, handles_timeouts
from sinkproof.subject.user_code import native_modules, own_native_modules
from sinkproof.workload.job_names import (
    FAR_LARGER_DATA_JOB,
    HUNDREDS_OF_CHECKPOINTS_JOB,
    JOBS,
    LARGE_BATCHES_JOB,
    LATE_SETTLING_JOB,
    PLAIN_JOBS,
    SPARSE_JOB,
)

SEARCH_SECONDS_MOST: Final = 6.0  # some dozens of runs take as long each, and a call of ten seconds counts as hung
FAR_LARGER_SECONDS_MOST: Final = 30.0
FAR_LARGER_SECONDS: Final = 9.0, 15.0  # of CPU time: a first run, and a second one, with a death
OF_TRUE_TIME: Final = {
    "programs that it starts": START_PROGRAMS,
    "libraries that it loads": lines_never_run.FOREIGN_LIBRARIES,
}
LONG_JOBS: Final = (HUNDREDS_OF_CHECKPOINTS_JOB, FAR_LARGER_DATA_JOB)
STOPS_TRACED: Final = ("open.before", "fence.before", "write.before", "snapshot.before", "notify_complete.before")
NEW_AMONG_MANY_MOST: Final = 4  # a run takes seconds for each call that only hundreds of checkpoints lead to
LARGE_CALLS_MOST, LARGE_CALLS_SECONDS_MOST = 60, 60.0  # of hundreds of requests, each schedule takes seconds
TIMES_AT_A_CALL: Final = 2  # a run that does not meet the call at its place is void, and is made once more
DEATHS_TRACED: Final = ("write.after", "pre_commit.after", "snapshot.after", "checkpoint.persist.after", "commit.after")


class CampaignInProcesses(Campaign):
    """The common part of campaigns in the process shell and on Spark. `first`: schedules that run before all others."""

    def __init__(
        self,
        runner: ScheduleRunner,
        results: CampaignResults,
        *,
        first: Sequence[Schedule] = (),
        should_stop: ShouldStop = lambda results: False,
        run_all: RunAll = one_by_one,
    ) -> None:
        super().__init__(runner, results, should_stop=should_stop, run_all=run_all)
        self.first = first
        self.results.own_code = runner.own_code
        self.unexecuted = [] if self.contract.is_ours else self._reachable()
        self.errors_of_unknown_calls: Sequence[Schedule] = ()
        self.late_calls: list[Schedule] = []
        self.unanswered_for_long: list[Schedule] = []
        self.shown = ShownByRuns()

    def _reachable(self) -> Sequence[Statement]:
        """Statements of a user's sink that have not run yet. While there are some, lines are traced in every run."""
        return [each for each in reachable_in(self.runner.own_code) if each.duty is Duty.NORMAL]

    @property
    def searches_lines(self) -> bool:
        return bool(self.unexecuted)

    def take(self, result: RunResult) -> RunResult:
        taken = super().take(result)
        passed = self.results.coverage.lines_passed | self.results.coverage.lines_of_children
        self.unexecuted = [statement for statement in self.unexecuted if statement.lines.isdisjoint(passed)]
        self.shown.note(result)
        return taken


class ProcessCampaign(CampaignInProcesses):
    """One subject in the process shell."""

    def prepare(self) -> bool:
        for schedule in self.first:  # repeatedly: in real time a zombie resumes at a different moment each time
            self.run(schedule)
        first = first_run(
            self.runner, self.results, play=lambda schedule: self.play(schedule, lines=True), take=self.take
        )
        self.lines_were_traced()
        if first is None:
            return False
        self._baseline = first
        self._note_unwatched_native_code()
        for job in JOBS:
            self.run(Schedule(job=job))
        return True

    def is_required(self, stage: Stage) -> bool:
        """Beside an external system each run takes a second or more, so whole stages of some hundred are not."""
        return stage.required and (Need.USES_SERVICE in stage.needs or not self.results.services.used)

    def _note_unwatched_native_code(self) -> None:
        """Beside a service no run is watched, so native code of the sink's own is a black box."""
        if self.contract.kind == "command" or self.contract.is_ours or not self.has_breakable_service:
            return
        if own := own_native_modules(map(Path, self.runner.files)):
            outward = self.results.coverage.outward
            outward.is_native, outward.own_modules = True, own
            outward.unwatched = "its calls are not watched beside a service"

    def look_for_native_calls(self) -> None:
        """One watched run: are there outward calls that no line explains?"""
        outward, recorded = self.results.coverage.outward, self.run_watched()
        outward.is_native, outward.unwatched = True, self.why_not_watched(recorded)
        if outward.unwatched:
            outward.own_modules = own_native_modules(map(Path, self.runner.files))
        else:
            self.take(recorded)
            decided = self.run_watched(schedule=Schedule((interleavings.FIRST_DECISION,)))
            errors = native_calls.errors_at_unknown_calls(recorded)
            self.errors_of_unknown_calls = [*errors, *native_calls.errors_in_recovery(decided)]
            restored = self.run_watched(schedule=Schedule((interleavings.death_after_first_commit(recorded),)))
            idle = self.run_watched(schedule=Schedule(job=SPARSE_JOB))
            self.late_calls = late_calls.struck_late(recorded, restored, idle=idle, files=self.runner.files)
            if has_name(self.runner.files, *START_PROGRAMS):
                self.late_calls += deaths_of_programs(recorded)
            if handles_timeouts(self.runner.files):
                self.unanswered_for_long = native_calls.requests_without_reply(recorded)

    def fail_unknown_calls(self) -> None:
        """A full disk, where lines write to files that are open; a lost connection, where a client in C sends. Where no
        attempt fails by it, what was not written may be kept in memory, so that deaths come next, after a checkpoint
        that was taken later.
        """
        for schedule in self.errors_of_unknown_calls:
            for job in (*JOBS, LATE_SETTLING_JOB) if settles(self.runner) else JOBS:
                failed = self.run(replace(schedule, job=job))
                self.stop_if_asked()
                if not failed.fired or failed.restarts or failed.anomalies:
                    break
                self.run_schedules(lines_never_run.faults_next(failed, deaths_only=True))
                if CONDITIONS[Need.WATCHED_POWER](self):
                    self.run_schedules(native_calls.losses_after_failed_forcing(failed))

    def strike_new_calls(self) -> None:
        """Those of much data, and those of a recovery with several checkpoints to commit."""
        usual = self.run_watched()
        self.stage.cut = self.why_not_watched(usual)
        if self.stage.cut:
            return
        for job in lines_never_run.jobs_of_large_writes(self.runner.files, uses_server=bool(usual.peers)):
            began = now()
            new = native_calls.after_new_calls(self.run_watched(schedule=Schedule(job=job)), usual)
            few, each = evenly(new, LARGE_CALLS_MOST), now() - began
            self.run_schedules(self._in_time(few, LARGE_CALLS_SECONDS_MOST, each=each))
        recovery = self.run_watched(schedule=Schedule(interleavings.death_with_several_to_commit(self)))
        self.run_schedules(native_calls.after_new_calls(recovery, usual, kinds=("kill",)))

    def why_not_watched(self, recorded: RunResult) -> str:
        return why_not_watched(recorded, claims=self.contract.claims)

    def _watched(self, schedule: Schedule) -> RunResult:
        return self.run_watched(schedule=schedule)

    def run_watched(self, *, schedule: Schedule = Schedule(), keeps_forced: bool = False) -> RunResult:
        """With its outward calls."""
        assert isinstance(self.runner, ProcessRunner)
        return self.runner.run_watched(schedule, keeps_forced=keeps_forced)

    def kill_before_outward_calls(self) -> None:
        self._strike_all(self.results.coverage.outward.calls)

    def kill_in_native_code(self) -> None:
        """At the first and the last of several calls with one name, one after the other."""
        outward = self.results.coverage.outward
        self._until_struck(outward.calls, outward.edges)

    def kill_before_outward_calls_of_recoveries(self) -> None:
        self._strike_all(self.results.coverage.outward.recoveries)

    def strike_native_code_otherwise(self) -> None:
        """Zombies, late effects, errors and pauses at its calls: the first and the last of each name."""
        kills = [schedule.faults[0] for schedule in self.results.coverage.outward.calls]
        self.run_schedules(single_faults.otherwise_at(kills))

    def restart_on_other_hosts(self) -> None:
        """Only if attempts keep files on their own host, or its name or time zone may be seen. Where a reader sees the
        files, they are the target's, and no run tells what another host would find.
        """
        assert isinstance(self.runner, ProcessRunner)
        recorded = self.runner.run_watched(Schedule(), names_elsewhere=True)
        if recorded.unwatched:
            self.stage.cut = f"files outside of its folder are not known: {recorded.unwatched}"
        keeps_files = on_own_host(recorded.paths_elsewhere, self.runner.scratch.path)
        if not (keeps_files or sees_its_host(self.runner.files)):
            return
        schedules = chain(single_faults.restarts_on_other_hosts(self), interleavings.commits_on_other_hosts(self))
        for schedule in self._chosen(schedules, concurrent_reader=False):
            result = self.play(schedule)
            if self.runner.host_files_are_target:
                self.stage.cut = "its target lies in a folder for temporary files, as if all hosts saw it"
                return
            self.take(result)
            self.stop_if_asked()

    def lose_power_without_help(self) -> None:
        recorded, power = self.run_watched(keeps_forced=True), self.results.coverage.power
        power.unwatched = self.why_not_watched(recorded)
        if not power.unwatched:
            losses = native_calls.power_losses(recorded)
            losses += native_calls.power_losses_at_steps(self.run(Schedule(job=SPARSE_JOB)))
            losses += native_calls.losses_after_faults(self.run(Schedule(DECISIONS[:1])))
            losses += native_calls.power_losses_at_steps(self.run(Schedule(job=LARGE_BATCHES_JOB)), times=2)
            power.losses = dict.fromkeys(losses, False)
            self._strike_all(power.losses)
            self.run_schedules(interleavings.losses_after_deaths(self.traced_baseline, "lose-power"))

    def _strike_all(self, struck: Mapping[Schedule, bool]) -> None:
        self._until_struck(struck, list(struck))

    def _until_struck(self, struck: Mapping[Schedule, bool], schedules: Sequence[Schedule]) -> None:
        for _ in range(TIMES_AT_A_CALL):
            left = [schedule for schedule in schedules if not struck[schedule]]
            self.tried.difference_update(left)
            self.run_schedules(left)

    def pass_midnight(self) -> None:
        """Jumps of the wall clock. Says which code of the sink may have kept the true time."""
        self.run_schedules(high_yield.moved_wall_clocks(self))
        native = [f"native module {name}" for name in native_modules(map(Path, self.runner.files))]
        if kept := native + [what for what, names in OF_TRUE_TIME.items() if has_name(self.runner.files, *names)]:
            self.results.notes.append(f"the wall clock was not moved inside: {', '.join(kept)}")

    def meet_rare_situations_beside_a_service(self) -> None:
        """More data as well, where a number in the code may begin to matter there."""
        self.run_schedules(beside_service.rare_situations(self))
        self._give_up(self._try_more_data())

    def search_unusual_situations(self) -> None:
        """While statements of a user's sink have not run. Where one of them does, faults are tried next: at its lines,
        and at steps of the same job. More data comes also where a number in its code may begin to matter there.
        """
        given_up = []
        if self.unexecuted:
            for schedule in lines_never_run.unusual_situations(self):
                if not self._search(schedule):
                    given_up.append(schedule.job)
                if not self.unexecuted:
                    break
        if not self.has_breakable_service:
            given_up += self._try_more_data()
            for job in lines_never_run.jobs_with_new_calls(self.runner.files):
                if job not in given_up:
                    self._strike_new_calls_in(job)
        self._give_up(given_up)

    def _strike_new_calls_in(self, job: str) -> None:
        """Where only this job leads: what is old is removed, or put together; what is large is written in pieces."""
        usual, many = map(self._watched, (Schedule(), Schedule(job=job)))
        if not (self.why_not_watched(usual) or self.why_not_watched(many)):
            self.run_schedules(evenly(native_calls.after_new_calls(many, usual, kinds=("kill",)), NEW_AMONG_MANY_MOST))

    def _give_up(self, jobs: Sequence[str]) -> None:
        if jobs:
            self.stage.cut = f"given up, as time or memory did not suffice there: job={', job='.join(jobs)}"

    def _try_more_data(self) -> list[str]:
        """Jobs that were given up."""
        tried = lines_never_run.more_data(self.runner.files)
        return [job for schedules in tried for job in self._try_in_turn(schedules())]

    def _try_in_turn(self, schedules: Iterable[Schedule]) -> list[str]:
        """The job, if it was given up. Where a run takes long there is no second one, with a death."""
        deadline = Deadline(FAR_LARGER_SECONDS_MOST)
        for schedule in (each for each in schedules if each not in self.tried):
            if deadline.over:
                return [schedule.job]
            self.stop_if_it_takes_too_long(FAR_LARGER_SECONDS[bool(schedule.faults)])
            with heartbeat(str(schedule), self.results.report):
                result = self.play(schedule)
            if not self._take_unless_it_ran_out(result):
                return [schedule.job]
            self.stop_if_asked()
        return []

    def _take_unless_it_ran_out(self, result: RunResult) -> bool:
        """An error of the sink is judged. What has too little time or memory is not: a call that takes long looks like
        a hung one. Where the same job without faults did finish, a recovery may hang: nothing is upheld.
        """
        assert isinstance(self.runner, ProcessRunner)
        assert self.runner.host is not None
        if result.finished or not self.runner.host.times_run_out:
            self.take(result)
            return True
        if result.schedule.faults and Schedule(job=result.schedule.job) in self.tried:
            why = "the job did not recover: the sink had too little time or memory there, and enough without the faults"
            self.results.unknowns.append(f"{why}. It shows: {self.results.replay_line(result.schedule)}")
        return False

    def _search(self, schedule: Schedule) -> bool:
        """False: it was given up. What is slow is not repeated."""
        left, deadline = len(self.unexecuted), Deadline(SEARCH_SECONDS_MOST)
        result = self.play(schedule, lines=True)
        is_slow = deadline.over
        if not self._take_unless_it_ran_out(result):
            return False
        self.lines_were_traced()
        self.stop_if_asked()
        if is_slow:
            return False
        if result.finished and len(self.unexecuted) < left:
            self.strike_lines_of_recoveries()
            self.run_schedules(lines_never_run.faults_next(result, deaths_only=schedule.job in LONG_JOBS), lines=True)
        return True

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
