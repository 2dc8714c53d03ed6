"""The endurance job on Spark: one job over millions of rows, in which one process after another is killed.

Each fault is injected at the next step of the commit protocol in turn, at the first actor that passes it. The next one
is armed when the job has completed a checkpoint with more rows than before. In the end the job is stopped with a
checkpoint, and what an independent reader sees is compared with what the sources have read: every row once, none more.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.faults.faults_of_hosts import CUT, HEAL, KILL_HOST, SENTENCES
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule, parse
from sinkproof.chaos.shared.event_log import Happening
from sinkproof.chaos.shared.point_counts import read_counts
from sinkproof.execution.run_result import RunResult, restarts_in
from sinkproof.execution.spark_row_difference import Difference
from sinkproof.execution.spark_runner import SparkRunner, deaths, history_of, trace_of
from sinkproof.judging.oracle import Anomaly, named
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import covered
from sinkproof.reference_engine.shells.spark.driver_supervisor import Execution, SparkFailed
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.reports.progress import Progress
from sinkproof.subject.service_outages import Outages

SECONDS_STILL: Final = 120.0  # without a row more than before, until a job that does not recover is given up
SECONDS_PER_SESSION: Final = 240.0  # the same where Spark itself starts anew: 6 s, and 60 where the machine is crowded
SERVICE_KILL, SERVICE = "service-kill", "the external system"
EVENTS_SHOWN_MOST: Final = 200
OPENING: Final = ("open.before", "fence.before", "fence.after", "open.after", "generation.before", "generation.after")
ATTEMPT_AGAIN, COORDINATOR_AGAIN = "acknowledge.before", "checkpoint.trigger"
HEALED_AT: Final = "generation.before"  # the coordinator has noticed the silence by then, and has replaced nothing yet
STRIKE_SECONDS: Final = 300.0  # until some step is passed, while one after the other is armed
REPORT_SECONDS: Final = 10.0
NOTICED_SECONDS: Final = 20.0  # until the coordinator has noticed the silence of a host; it takes three
BEFORE_COMMIT: Final = ("open.", "fence.", "begin.", "write.")
INSIDE_STEPS: Final = ("file.", "socket.", "client.")
ONLY_AT_THE_END: Final = ("end_of_input", "settle", "notify_aborted", "checkpoint.abort")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndurancePlan:
    """How many deaths of each kind, and how many rows there must be in the end."""

    attempts: int = 0
    coordinators: int = 0
    workers: int = 0
    jobs: int = 0
    services: int = 0  # of external systems: killed and started again, at any moment
    of_hosts: Mapping[str, int] = field(default_factory=dict)  # kind -> how often, where the job runs on several
    rows: int = 0
    pace_ms: int = 4
    batch_rows: int = 250
    interval_ms: int = 10
    strike_seconds: float = 0.5  # after which a step that is not passed is skipped

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """(kind of fault, its victim), mixed evenly."""
        wanted = {
            ("kill", "attempt"): self.attempts,
            ("kill", COORDINATOR): self.coordinators,
            ("kill-worker", "attempt"): self.workers,
            ("kill-job", "attempt"): self.jobs,
            (SERVICE_KILL, SERVICE): self.services,
            **{(kind, "attempt"): times for kind, times in self.of_hosts.items()},
        }
        every = [((at + 0.5) / times, kind) for kind, times in wanted.items() for at in range(times)]
        return [kind for _, kind in sorted(every)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnduranceResult(RunResult):
    """Its schedule names the last fault only: hundreds could be neither read nor replayed."""

    @property
    def fired(self) -> bool:
        return bool(self.struck)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnduranceOutcome:
    run_result: RunResult
    summary: str
    kinds: Mapping[str, int]  # faults that struck; deaths are counted from wait statuses


class StepsOfHosts:
    """Of the steps, where each kind struck least often so far; of these, where it was tried least often."""

    def __init__(self, steps: Sequence[tuple[str, str]]) -> None:
        self.every = steps
        self.of_commit = [step for step in steps if not step[1].startswith(BEFORE_COMMIT)]
        self.struck: Counter[tuple[str, str]] = Counter()  # by kind and point
        self.tried: Counter[tuple[str, str]] = Counter()

    def of(self, kind: str) -> Sequence[tuple[str, str]]:
        """(actor, point) of those at which the kind is to strike: the commonest kinds also where no commit is near."""
        return self.every if kind in (CUT, KILL_HOST) else self.of_commit

    def next(self, kind: str) -> tuple[str, str]:
        at = min(self.of(kind), key=lambda step: (self.struck[kind, step[1]], self.tried[kind, step[1]]))
        self.tried[kind, at[1]] += 1
        return at

    def note(self, fault: Fault) -> None:
        self.struck[fault.kind, fault.point] += 1

    def left_out(self, kinds: Sequence[str]) -> list[str]:
        return [f"{kind} {point}" for kind in kinds for _, point in self.of(kind) if not self.struck[kind, point]]


class EnduranceJob:
    def __init__(
        self, runner: SparkRunner, plan: EndurancePlan, *, steps: Sequence[tuple[str, str]], progress: Progress
    ) -> None:
        self.runner, self.plan, self.progress = runner, plan, progress
        self.places = {victim: cycle(_in_turn(victim, steps)) for victim in ("attempt", COORDINATOR)}
        self.of_hosts = StepsOfHosts(steps_of_hosts(steps))
        self.story: list[Happening] = []
        self.rows, self.services_killed, self.now = 0, 0, "its start"
        self.faults: list[Fault] = []  # that struck
        self.struck: Counter[str] = Counter()  # the same, by kind
        self.names: tuple[str, ...] = ()
        self.silence = Deadline(REPORT_SECONDS)
        self.outages = Outages(runner.scratch.services)
        self.note: Callable[[Happening], None] = self.story.append  # replaced while the job runs

    def run(self) -> EnduranceOutcome:
        runner = self.runner
        runner.reset()
        plan = self.plan
        run = runner.new_run(
            "sinkproof.execution.spark_recipes:long_running",
            pace_ms=plan.pace_ms,
            batch_rows=plan.batch_rows,
            interval_ms=plan.interval_ms,
        )
        self.folder = RunFolder(run.folder)
        self.armed = self.folder.armed()
        self.names = run.deployment().job.widest.names
        execution = runner.cluster.begin(run, tasks=len(self.names) - 1)
        failure = ""
        try:
            with runner.faults_of_hosts(run) as self.note:
                self._strike_all(execution)
        except SparkFailed as error:
            failure = str(error)
            runner.cluster.close()
        try:
            return self._outcome(failure)
        finally:
            shutil.rmtree(run.folder, ignore_errors=True)

    # -- deaths ------------------------------------------------------------------------------------

    def _strike_all(self, execution: Execution) -> None:
        self._await_rows(execution, seconds=SECONDS_PER_SESSION)
        for kind, victim in self.plan.kinds:
            self.now = f"{kind} of {victim}"
            self._report()
            if kind == SERVICE_KILL:
                self._kill_services(execution)
            else:
                self._strike(execution, kind, victim)
        while self.rows < self.plan.rows:  # a slow machine is no standstill
            self._await_rows(execution)
        execution.stop()
        self._until(execution, lambda: execution.over)

    def _strike(self, execution: Execution, kind: str, victim: str) -> None:
        """Arms the next point until an actor passes it; then waits until more rows than before are complete."""
        before, deadline = self.struck[kind], Deadline(STRIKE_SECONDS)
        while self.struck[kind] == before:
            if deadline.over:
                raise SparkFailed(f"no step was passed in {STRIKE_SECONDS:.0f} s; last: {list(execution.recent)}")
            cuts = self.struck[CUT]
            self._try(execution, self._next_faults(kind, victim), seconds=self.plan.strike_seconds)
            if kind == HEAL and self.struck[CUT] > cuts:  # the next restart is the one of which this is the cause
                self._try(execution, [self._fault(COORDINATOR, HEALED_AT, HEAL)], seconds=NOTICED_SECONDS)
        of_session = kind == "kill-job" or kind in SENTENCES
        self._await_rows(execution, seconds=SECONDS_PER_SESSION if of_session else SECONDS_STILL)

    def _kill_services(self, execution: Execution) -> None:
        """At any moment of the job. On return, all nodes answer again and the job has made progress."""
        self.outages.begin("kill")
        self.services_killed += 1
        self._await_rows(execution, seconds=SECONDS_PER_SESSION)
        self.outages.await_end()

    def _next_faults(self, kind: str, victim: str) -> list[Fault]:
        """The next place in turn. A step of opening is passed only after a death, which is then injected first. What is
        to be healed is cut first.
        """
        actor, point = self.of_hosts.next(kind) if kind in SENTENCES else next(self.places[victim])
        faults = [self._fault(actor, point, CUT if kind == HEAL else kind)]
        if point in OPENING:
            faults.insert(0, self._fault(actor, COORDINATOR_AGAIN if actor == COORDINATOR else ATTEMPT_AGAIN, "kill"))
        return faults

    def _fault(self, actor: str, point: str, kind: str) -> Fault:
        """The next time that it is passed."""
        return Fault(actor, point, read_counts(self.folder.counts_path(actor))[point] + 1, kind)

    def _try(self, execution: Execution, faults: Sequence[Fault], *, seconds: float) -> None:
        self.armed.arm(faults)
        self._strike_in_time(execution, self.struck.total() + len(faults), Deadline(seconds))

    def _strike_in_time(self, execution: Execution, strikes: int, patience: Deadline) -> None:
        self._until(execution, lambda: self.struck.total() >= strikes or patience.over)

    def _await_rows(self, execution: Execution, *, seconds: float = SECONDS_STILL) -> None:
        """Until more rows than now are complete."""
        before = self.rows
        self._until(execution, lambda: self.rows > before, seconds=seconds)

    def _until(self, execution: Execution, reached: Callable[[], bool], *, seconds: float = SECONDS_STILL) -> None:
        deadline = Deadline(seconds)
        while not reached():
            if self.silence.over:  # a long silence would be taken for a hang
                self._report(schedules=0)
            for happening in execution.poll():
                self.story.append(happening)
                self.note(happening)
                if happening["what"] == "struck":
                    self._note_strike(parse(happening["fault"]).faults[0])
                if happening["what"] == "complete":
                    self.rows = happening["rows"]
            if execution.over and not reached():
                raise SparkFailed(f"the endurance job ended by itself: {execution.why or 'no reason was given'}")
            if deadline.over:
                raise SparkFailed(f"no progress in {seconds:.0f} s; last events: {list(execution.recent)}")

    def _report(self, *, schedules: int = 1) -> None:
        self.silence = Deadline(REPORT_SECONDS)
        what = f"the endurance job: {self.rows:,} rows, {self.now}"
        self.progress.step(what, self.struck.total(), schedules=schedules)

    def _note_strike(self, fault: Fault) -> None:
        self.faults.append(fault)
        self.struck[fault.kind] += 1
        self.of_hosts.note(fault)

    # -- the end -----------------------------------------------------------------------------------

    def _outcome(self, failure: str) -> EnduranceOutcome:
        found = deaths(self.story)
        anomalies = [Anomaly(oracle="O6", why=f"the endurance job did not recover: {failure}")] if failure else []
        rows = 0
        if not failure:
            seen = self._difference()
            rows = seen.rows
            anomalies += _anomalies(seen)
        kinds = Counter({SERVICE_KILL: self.services_killed} if self.services_killed else {})
        kinds += Counter(str(strike["fault"]).rpartition("=")[2] for strike, _ in found)
        faults = tuple(self.faults)
        kinds += Counter(fault.kind for fault in faults if fault.kind in SENTENCES and fault.kind != KILL_HOST)
        killed = ", ".join(f"{times} x {kind}" for kind, times in sorted(kinds.items()))
        places = {fault.point for fault in faults}
        run_result = EnduranceResult(
            schedule=Schedule(faults[-1:]),
            struck=faults,
            anomalies=tuple(anomalies),
            # Only points with a fault: no schedule leads another job to where this one has been.
            trace=[passed for passed in trace_of(self.folder.path, self.names) if passed[1] in places],
            names=self.names,
            history=history_of(self.story[-EVENTS_SHOWN_MOST:]),
            finished=not failure,
            failure=failure,
            rows_committed=rows,
            log=b"",
            kills=len(found),
            restarts=restarts_in(history_of(self.story)),
        )
        summary = f"the endurance job: {rows:,} rows committed over {killed or 'no deaths'}"
        return EnduranceOutcome(run_result=run_result, summary=summary, kinds=kinds)

    def _difference(self) -> Difference:
        record = FolderCheckpointStorage(self.folder.checkpoints).latest()
        seen: Difference = self.runner.cluster.call(
            "sinkproof.execution.spark_row_difference:difference", self.runner.subject, covered(record)
        )
        return seen


def _anomalies(seen: Difference) -> list[Anomaly]:
    found = []
    if seen.lost_total:
        found.append(Anomaly(oracle="O1", why=f"{seen.lost_total:,} rows lost: {named(seen.lost)}", lost=seen.lost))
    if seen.extra_total:
        why = f"{seen.extra_total:,} rows more than there should be: {named(seen.extra)}"
        found.append(Anomaly(oracle="O2", why=why, extra=seen.extra))
    return found


def _in_turn(victim: str, steps: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """(actor, point) of the steps that are passed repeatedly while rows flow."""
    return [
        (actor, point)
        for actor, point in steps
        if (actor == COORDINATOR) is (victim == COORDINATOR) and not point.startswith(ONLY_AT_THE_END)
    ]


def steps_of_hosts(steps: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each step of the protocol once, with a sink that passes it, else a source; none inside a step."""
    found: dict[str, str] = {}
    for actor, point in sorted(_in_turn("attempt", steps), key=lambda step: not step[0].startswith("sink")):
        if not point.startswith(INSIDE_STEPS):
            found.setdefault(point, actor)
    return [(actor, point) for point, actor in found.items()]
