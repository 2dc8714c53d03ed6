"""What is tried in the process shell: real SIGKILLs, at every protocol step and every executed line of the sink.

1. a baseline without faults that records every point and every executed line, and one for each other job;
2. one death in each kind of job; a kill at the first occurrence of every named point, so that rows are still to be
   committed after it; errors, the last ones too, notifications lost, votes refused; then a kill at the steps that
   only those recoveries have passed; pauses in the middle of a commit, the last one too, and of a recovery, while
   another subtask is in the same, or pauses there as well, and zombies from there; zombies that nobody replaces, and
   errors after which the next attempt is in the process of the one that failed (with an external system not, and
   later); a reader beside the sinks, if claims ask for one; where there is an external system, its messages lost, late
   and repeated, and itself killed, stopped and paused;
3. whole-job kills from which another job goes on; deaths in a commit, and a loss of power later; errors, and a
   whole-job kill later; notifications that are late, twice, or never heard; external systems that are killed, stopped
   and paused;
4. a kill at every executed line; whole-job kills while another job takes over; a kill at the
   lines that only recoveries have executed;
5. zombies by SIGSTOP, kills of the whole job, errors at every named point; pauses at all other lines, a zombie from
   every line, then a kill at every line that only zombies have executed;
6. whole-job kills at lines, and kills at later occurrences, as far as the budget goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from sinkproof.campaign.baseline import first_run, rescaled
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import CampaignStopped
from sinkproof.campaign.worker_pool import Trials, one_by_one
from sinkproof.chaos.lines import known_lines
from sinkproof.chaos.points import AROUND_CALLS, COORDINATOR_POINTS, is_line
from sinkproof.chaos.schedule import STANDARD, Fault, Schedule
from sinkproof.execution.process_runner import ProcessRunner
from sinkproof.execution.schedule_runner import RunResult
from sinkproof.generators.fault_sites import (
    first_of_each,
    first_of_each_call,
    last_before_votes,
    last_decision,
    places,
    spread,
)
from sinkproof.generators.high_yield import at_first, in_processes
from sinkproof.generators.interleavings import (
    LEAVES,
    both_in_commits,
    in_commits,
    in_files_not_forced,
    in_full_commits,
    in_recoveries,
    in_rescaled_recoveries,
    leaving_in_commits,
    zombies_in_commits,
)
from sinkproof.generators.rare import READ_BESIDE, watch
from sinkproof.generators.service_faults import message_faults, node_faults
from sinkproof.reports.document import SourceLine
from sinkproof.subject.source_files import source_line
from sinkproof.workload.jobs import FEWER_JOB, JOBS, LATE_JOB, OVERSLEPT_JOB, PLAIN_JOBS, REUSED_JOB, UNNOTICED_JOB

FINDINGS_LOCATED_MOST: Final = 12  # each takes a second run
ROUNDS_MOST: Final = 3  # of striking what a recovery passed, and what the recovery from that passed, ...
ZOMBIES_FIRST: Final = ("open.before", "open.after", "write.after", "notify_complete.before")
ZOMBIES_LATE: Final = (*ZOMBIES_FIRST, "snapshot.before")  # what the first one spoils, a later flush makes up for
STOPS_TRACED: Final = ("open.before", "fence.before", "write.before", "snapshot.before", "notify_complete.before")
DEATHS_TRACED: Final = ("write.after", "pre_commit.after", "snapshot.after", "checkpoint.persist.after", "commit.after")
RESCALED_AT: Final = ("checkpoint.persist.after", "checkpoint.notify")


class ProcessCampaign:
    """One subject in the process shell. `enough` is asked after every schedule."""

    def __init__(
        self,
        runner: ProcessRunner,
        results: CampaignResults,
        *,
        should_stop: Callable[[CampaignResults], bool] = lambda results: False,
        trials: Trials = one_by_one,
    ) -> None:
        self.runner, self.results, self.should_stop, self.trials = runner, results, should_stop, trials
        self.tried: set[Schedule] = set()

    def run(self) -> None:
        """Fills the tally; stops early when there is enough."""
        try:
            baseline = self._baseline()
            if baseline is None:
                return
            self._run_all(at_first(self.runner, "kill-job", rescaled=rescaled(self.results)))
            self._run_all(self._named_places_once(baseline))
            self._strike_what_was_missed()
            self._run_all(in_commits(self._traced))
            if not self.results.services.breakable():  # where there is a service, each takes seconds
                self._run_all(in_full_commits(self._traced))
                self._run_all(both_in_commits(self._traced))
            self._run_all(
                zombies_in_commits(
                    baseline, jobs=[STANDARD] if self.results.services.breakable() else [STANDARD, UNNOTICED_JOB]
                )
            )
            if not self.results.services.breakable():
                self._run_all(leaving_in_commits(baseline) if FEWER_JOB in rescaled(self.results) else ())
                self._run_all(in_recoveries(self._traced, baseline))
            if not self.results.services.breakable():
                self._run_all(self._outliving(baseline))
            if self.runner.contract.claims & READ_BESIDE:
                jobs = () if self.results.services.breakable() else rescaled(self.results)
                unfinished = in_rescaled_recoveries(self._traced, jobs)
                watched = [*(Schedule(job=job) for job in JOBS), *unfinished]
                watch(self.runner, self.results, watched, run=self._try)
            self.runner.run(Schedule())
            self._run_all(message_faults(self.runner))
            self._run_all(node_faults(baseline, self.results, near_only=True))
            self._strike_what_was_missed()
            self._run_all(self._rescales(baseline))
            if not self.runner.contract.copies:  # else the simulated shell does it
                self._run_all(in_files_not_forced(baseline, self.runner.contract))
            self._run_all(in_processes(baseline, self.runner, slow=bool(self.results.services.breakable())))
            self.results.first_rounds_done = True
            self._run_all(Schedule((fault,)) for fault in first_of_each(baseline, "kill", lines=True))
            if self.results.services.breakable():
                self._run_all(in_recoveries(self._traced, baseline))
            else:
                self._run_all(in_rescaled_recoveries(self._traced, rescaled(self.results)))
            self._look_at_recoveries(baseline)
            self._strike_what_was_missed()
            self._run_all(node_faults(baseline, self.results))
            self._run_all(self._other_faults(baseline))
            self._stop_at_lines(baseline)
            self._strike_what_was_missed()
            self._run_all(both_in_commits(self._traced))
            self._run_all(self._rest(baseline))
        except CampaignStopped:
            pass

    def _run_all(self, schedules: Iterable[Schedule]) -> None:
        chosen = [schedule for schedule in dict.fromkeys(schedules) if schedule not in self.tried]
        self.results.announce(len(chosen))
        for run_result in self.trials(chosen, traced=self.runner.trace_lines, run=self._play):
            self._take(run_result)
            if self.should_stop(self.results):
                raise CampaignStopped

    def _strike_what_was_missed(self) -> None:
        """Steps and lines of recovery, which no run without faults passes."""
        for _ in range(ROUNDS_MOST):
            self._run_all(self.results.to_strike())

    def _baseline(self) -> RunResult | None:
        self.runner.trace_lines = True
        baseline = first_run(self.runner, self.results, self._run)
        self.runner.trace_lines = False
        self.results.lines_known = known_lines(self.runner.files, self.results.lines_passed)
        if baseline is None:
            return None
        for job in JOBS:
            self._try(Schedule(job=job))
        return baseline

    def _try(self, schedule: Schedule) -> RunResult:
        run_result = self._run(schedule)
        if self.should_stop(self.results):
            raise CampaignStopped
        return run_result

    def _run(self, schedule: Schedule) -> RunResult:
        return self._take(self._play(schedule))

    def _play(self, schedule: Schedule) -> RunResult:
        self.results.progress.step(str(schedule), self.results.kills)
        return self.runner.run(schedule)

    def _take(self, run_result: RunResult) -> RunResult:
        schedule = run_result.schedule
        self.tried.add(schedule)
        self.results.kills += run_result.kills
        if (
            run_result.anomalies
            and run_result.struck_line is None
            and len(self.results.findings) < FINDINGS_LOCATED_MOST
        ):
            run_result = replace(run_result, struck_line=self._line_struck(schedule))
        self.results.add(run_result)
        return run_result

    def _line_struck(self, schedule: Schedule) -> SourceLine | None:
        """The line of the sink that was being executed when the last fault struck within a call; found by a second run
        that records lines.
        """
        if not schedule.faults or schedule.faults[-1].point in (*AROUND_CALLS, *COORDINATOR_POINTS):
            return None
        traced, self.runner.trace_lines = self.runner.trace_lines, True
        again = self.runner.run(schedule)
        self.runner.trace_lines = traced
        last, seen, line = schedule.faults[-1], 0, ""
        for actor, point in again.trace:
            if again.names[actor] != last.actor:
                continue
            line = point if is_line(point) else line
            seen += point == last.point
            if seen == last.occurrence:
                break
        return source_line(line, self.runner.files)

    def _named_places_once(self, baseline: RunResult) -> Iterator[Schedule]:
        """Few and telling ones first."""
        yield from (Schedule((fault,)) for fault in first_of_each(baseline, "kill", lines=False))
        zombies = first_of_each(baseline, "stop", lines=False)
        yield from (Schedule((fault,)) for fault in zombies if fault.point in ZOMBIES_FIRST)
        late = (fault for fault in spread(baseline, "stop") if fault.point in ZOMBIES_LATE)
        yield from (Schedule((fault,), job=LATE_JOB) for fault in late)
        if not self.results.services.breakable():
            slept = first_of_each(baseline, "stop", lines=False)
            yield from (Schedule((fault,), job=OVERSLEPT_JOB) for fault in slept if fault.point in ZOMBIES_LATE)
        last = last_decision(baseline)
        voted = (fault for fault in last_before_votes(baseline, "error") if fault.point not in AROUND_CALLS)
        errors = (*self._errors(baseline), *self._errors(baseline, since=last), *voted)
        yield from (Schedule((fault,)) for fault in errors)
        if not self.runner.contract.marks_points:
            yield from (
                Schedule((fault,)) for at in (0, last) for fault in first_of_each_call(baseline, "unanswered", since=at)
            )
        yield from (Schedule((fault,)) for fault in places(baseline, "lose"))
        declines = [Schedule((fault,)) for fault in places(baseline, "decline")]
        yield from declines[:4]
        yield from self._after_decline(declines[0])
        yield from declines[4:]

    def _errors(self, baseline: RunResult, *, since: int = 0) -> list[Fault]:
        faults = first_of_each_call(baseline, "error", since=since)
        return [fault for fault in faults if fault.point not in AROUND_CALLS]

    def _outliving(self, baseline: RunResult) -> Iterator[Schedule]:
        """Zombies that nobody replaces, for the job goes on with fewer sinks; errors, where the next attempt is in the
        process of the one that failed.
        """
        if FEWER_JOB in rescaled(self.results):
            leaving = [fault for fault in places(baseline, "stop", sparse=True) if fault.actor == LEAVES]
            yield from (Schedule((fault,), job=FEWER_JOB) for fault in leaving if fault.point in ZOMBIES_FIRST)
        if not self.runner.contract.is_ours:  # ours remember nothing
            yield from (Schedule((fault,), job=REUSED_JOB) for fault in self._errors(baseline))

    def _after_decline(self, decline: Schedule) -> Iterator[Schedule]:
        declined = self.runner.run(decline)
        for kind in ("lose", "kill", "stop"):
            faults = (fault for fault in places(declined, kind) if "abort" in fault.point)
            yield from (Schedule((*decline.faults, fault)) for fault in faults)

    def _rescales(self, baseline: RunResult) -> Iterator[Schedule]:
        """Whole-job kills from which the job goes on with another parallelism."""
        jobs = rescaled(self.results)
        faults = [fault for fault in places(baseline, "kill-job", sparse=True) if fault.point in RESCALED_AT]
        yield from (Schedule((fault,), job=job) for fault in faults for job in jobs)

    def _other_faults(self, baseline: RunResult) -> Iterator[Schedule]:
        """In turn, so that a short budget has seen something of each."""
        of_kind = {kind: list(first_of_each(baseline, kind, lines=False)) for kind in ("stop", "error", "kill-job")}
        turns = [[Schedule((fault,)) for fault in faults] for faults in of_kind.values()]
        turns.insert(1, [Schedule((fault,), job=LATE_JOB) for fault in of_kind["stop"]])
        yield from (schedule for turn in zip_longest(*turns) for schedule in turn if schedule is not None)

    def _look_at_recoveries(self, baseline: RunResult) -> None:
        """Records the lines of recoveries from deaths in every phase of a checkpoint, and what zombies run into; of a
        stranger's sink also what only many rows, or many checkpoints, lead to.
        """
        self.runner.trace_lines = True
        for job in PLAIN_JOBS if not self.runner.contract.is_ours else ():
            self._try(Schedule(job=job))
        for kind, points in (("stop", STOPS_TRACED), ("kill-job", DEATHS_TRACED), ("kill", DEATHS_TRACED)):
            faults = [fault for fault in places(baseline, kind, sparse=True) if fault.point in points]
            for fault in faults:
                self._try(Schedule((fault,)))
        self.runner.trace_lines = False
        self.results.lines_known = known_lines(self.runner.files, self.results.lines_passed)

    def _traced(self, schedule: Schedule) -> RunResult:
        self.runner.trace_lines = True
        run_result = self._try(schedule)
        self.runner.trace_lines = False
        return run_result

    def _stop_at_lines(self, baseline: RunResult) -> None:
        """Pauses at every line, and zombies from within it; what they run into is recorded, too."""
        self.runner.trace_lines = True
        for kind in ("pause", "stop"):
            self._run_all(Schedule((fault,)) for fault in first_of_each(baseline, kind, lines=True))
        self.runner.trace_lines = False
        self.results.lines_known = known_lines(self.runner.files, self.results.lines_passed)

    def _rest(self, baseline: RunResult) -> Iterator[Schedule]:
        for kind in ("kill", "stop", "kill-job", "error"):
            yield from (Schedule((fault,)) for fault in places(baseline, kind, sparse=True))
        yield from (Schedule((fault,)) for fault in first_of_each(baseline, "kill-job", lines=True))
        for kind in ("kill", "stop"):
            yield from (Schedule((fault,)) for fault in places(baseline, kind, lines=True, sparse=True))
