"""Runs schedules on a subject with each attempt in a process of its own, forked from a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import is_line, is_system_call
from sinkproof.chaos.processes.files_of_hosts import on_own_host, remove
from sinkproof.chaos.schedule import STANDARD, Fault, Schedule
from sinkproof.chaos.services.inside_run import InsideRun, is_inside_service
from sinkproof.chaos.standard_library import is_library
from sinkproof.chaos.system_calls.place_names import is_sent
from sinkproof.chaos.system_calls.unforced_changes import UnforcedChanges
from sinkproof.chaos.wall_clock import WallClock
from sinkproof.execution.fork_servers import Servers, fork_servers
from sinkproof.execution.libraries_at_start import libraries_of
from sinkproof.execution.make_sink import MAKER, PRELOAD
from sinkproof.execution.message_faults import armed, struck_messages
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.execution.watchable_service import ServiceToKill
from sinkproof.judging.observer import Observer
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay, RestartStrategy
from sinkproof.reference_engine.shells.job import Job
from sinkproof.reference_engine.shells.process.attempt_endings import AttemptEnding
from sinkproof.reference_engine.shells.process.attempt_host import HANG_SECONDS, AttemptHost
from sinkproof.reference_engine.shells.process.command_host import CommandHost
from sinkproof.reference_engine.shells.process.process_host import ProcessHost, Recipe, WatchedCode
from sinkproof.reference_engine.shells.process.watched_attempt import WatchingHost
from sinkproof.reference_engine.shells.simulated.simulation import Simulation
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.static_analysis.names_in_code import has_name
from sinkproof.subject.static_analysis.waits_in_code import long_wait_seconds
from sinkproof.workload.jobs import named_job
from sinkproof.workload.wall_clocks import wall_clock_beside

# A call of a sink may take so long if the service is killed in it, and in some of its restarts.
RESTARTS_SECONDS: Final = 600.0
HANGS_MOST: Final = 3  # in one run
FAILED_WAITS_MOST: Final = 1  # restarts
# A recovery commits what several calls have committed without it, perhaps on a machine that is busier by then.
SLOW_CALLS: Final = 6
# New fork servers take a second, and each module that they do not import takes an attempt 2 ms.
MODULES_LEAST: Final = 20
MODULES_MOST: Final = 500  # so many names fit into a message to the server; most other modules come with them


def gives_up_soon() -> RestartStrategy:
    """Where attempts wait for a suspended one until their limit is over, and fail: each time costs seconds."""
    return FixedDelay(attempts=FAILED_WAITS_MOST)


class Patience:
    """A restart strategy for sinks that may hang: each time costs seconds, so a few times are enough."""

    def __init__(self, strategy: RestartStrategy, host: AttemptHost, *, most: int) -> None:
        self.strategy, self.host, self.most = strategy, host, most

    def next_delay(self, now: float) -> float | None:
        return self.strategy.next_delay(now) if self.host.times_run_out < self.most else None


class ProcessRunner(ScheduleRunner):
    """Runs schedules with attempts that are processes. Each run has a host of its own; two fork servers serve all."""

    def __init__(
        self,
        contract: Contract,
        scratch: Scratch,
        *,
        servers: Servers,
        hang_seconds: float = HANG_SECONDS,
    ) -> None:
        super().__init__(contract, scratch)
        self.servers, self.hang_seconds = servers, hang_seconds
        self._trace_lines = self._watch_calls = False  # of the run in progress
        self._keeps_forced = self._compares_losses = self._names_elsewhere = False
        self._timed: set[str] = set()  # jobs that were run without faults
        self._has_imported, self.slowest_seconds = False, 0.0  # of all replies in runs without faults
        self.host: AttemptHost | None = None
        self.service = ServiceToKill(self.scratch.services)
        self.host_files_are_target = False  # what attempts keep on their own hosts is what a reader sees

    def new_host(self, job: Job) -> AttemptHost:
        wall_clock = self.wall_clock_of(job)
        self.servers.let_orphans_live(job.orphans_seconds)
        self.host = host = self._make_host(wall_clock, job)
        least = long_wait_seconds(self.files) if job.patient else host.patience_seconds
        host.hang_seconds = max(self.call_seconds_most, 2 * least if job.patient else 0)
        host.patience_seconds = min(max(least, 3 * self.slowest_seconds), max(self.hang_seconds, least))
        self.target.ages_files = wall_clock is None
        if self.service.watched is not None:
            host.window = self.service.watched.during
            host.hang_seconds = max(host.hang_seconds, RESTARTS_SECONDS)
        return host

    @property
    def call_seconds_most(self) -> float:
        """A call that takes longer counts as hung."""
        return max(self.hang_seconds, SLOW_CALLS * min(self.slowest_seconds, self.hang_seconds))

    @property
    def moves_wall_clock(self) -> bool:
        return self.contract.kind != "command"  # what is not written in Python keeps the true time

    def wall_clock_of(self, job: Job) -> WallClock | None:
        return wall_clock_beside(self.scratch.services.used, job) if self.moves_wall_clock else None

    def _make_host(self, wall_clock: WallClock | None, job: Job) -> AttemptHost:
        record = self.target.unforced
        if self.contract.kind == "command":
            return CommandHost(*(self.servers.first, self.contract.given.command, self.scratch.path), record=record)
        own_points = self.contract.marks_points
        host = ProcessHost(
            self.servers.first,
            Recipe(
                maker=MAKER,
                arguments=(self.contract.locator, self.scratch.for_processes()),
                wall_clock=wall_clock,
                thread_pace=job.thread_pace,
                contained=job.contained,
                lists_by_hash=job.lists_by_hash,
                receives_in_pieces=job.receives_in_pieces,
                shared=str(self.scratch.path) if job.other_hosts else "",
            ),
            WatchedCode(
                files=dict(self.files),
                folder="" if own_points and not job.reads_are_points else str(self.scratch.path),
                sockets=not self.scratch.services.used,
                reads=job.reads_are_points,
                programs=job.orphans_seconds > 0,
                clients=bool(self.scratch.services.used) and not own_points,
                calls_below=str(self.scratch.path) if self._watch_calls else "",
            ),
            other_server=self.servers.other,
            trace_lines=self._trace_lines,
            record=record,
        )
        host.idle_connections_end = job.idle_connections_end
        if self._names_elsewhere:
            host.elsewhere = {}
        if job.other_hosts:
            host.on_restart = partial(self._leave_hosts, host)
        if wall_clock is not None and not self.scratch.services.used:
            host.on_reply = partial(wall_clock.date_files, self.scratch.path)
        return host

    def simulation(
        self,
        schedule: Schedule,
        *,
        storage: Any = None,
        shell: type[Simulation] = Simulation,
        concurrent_reader: bool = False,
    ) -> tuple[Simulation, Observer]:
        rest = armed(schedule, self.scratch.services)
        inside = [fault for fault in rest.faults if is_inside_service(fault)]
        if inside or self.service.watched is not None:
            self.service.watch().begin(inside)
            rest = replace(rest, faults=tuple(fault for fault in rest.faults if fault not in inside))
        made, observer = super().simulation(rest, storage=storage, shell=shell, concurrent_reader=concurrent_reader)
        if self.target.unforced is not None:
            observer.reading = self.target.unforced.by_the_engine
        host, strategy = self.host, gives_up_soon if made.job.patient else made.job.restart
        assert host is not None
        observer.suspended_at = host.suspended_at
        observer.held = lambda: [attempt.pid for attempt in host.suspended or host.living]
        host.looks_for_handlers = not schedule.faults
        most = HANGS_MOST if self.call_seconds_most == self.hang_seconds else 1
        made.job = replace(made.job, restart=lambda: Patience(strategy(), host, most=most))
        made.restart = made.job.restart()
        return made, observer

    def _leave_hosts(self, host: ProcessHost) -> None:
        """What a reader sees is not that of a host: a contract may keep its target anywhere."""
        before = self.committed_rows()
        made = [path for path, was_found in (host.elsewhere or {}).items() if not was_found]
        remove(on_own_host(made, self.scratch.path))
        self.host_files_are_target |= before != self.committed_rows()

    def play(self, simulation: Any, *, trace_lines: bool = False) -> None:
        assert self.host is not None
        self.host.overseer = simulation.faults
        try:
            simulation.play()
        finally:
            self.service.raise_what_failed()
        self.target.raise_what_failed()

    def run(self, schedule: Schedule, *, trace_lines: bool = False, concurrent_reader: bool = False) -> RunResult:
        """`trace_lines` is implied if a fault is injected at a line after another fault: lines before it count, too."""
        if named_job(schedule.job).outage_seconds:
            _ = self.target_may_expire  # known before this run: another one tells
        loses_power = any(is_watched_loss(fault, self.contract) for fault in schedule.faults)
        leaves = named_job(schedule.job).other_hosts
        if loses_power or leaves or any(is_system_call(fault.point) for fault in schedule.faults):
            return self.run_watched(
                schedule, keeps_forced=loses_power, names_elsewhere=leaves, concurrent_reader=concurrent_reader
            )
        self._trace_lines = trace_lines or any(is_line(fault.point) for fault in schedule.faults[1:])
        return self._run(schedule, concurrent_reader=concurrent_reader)

    @cached_property
    def target_may_expire(self) -> bool:
        """No: files that no contract says anything of, and a watched run has not connected to anything."""
        contract = self.contract
        if contract.kind not in ("sink", "command") or contract.is_ours or self.scratch.services.used:
            return True
        has_limit = contract.expires_after is not None or any(map(contract.offers, ("expire", "maintain")))
        if has_limit or has_name(self.files, "clock"):  # a target of its own, in Python, reads `scratch.clock`
            return True
        watched = self.run_watched(Schedule())
        sent = any(is_sent(point) for _, point in watched.trace)
        return bool(not watched.finished or watched.unwatched or watched.unreadable or watched.peers or sent)

    def run_watched(
        self,
        schedule: Schedule,
        *,
        keeps_forced: bool = False,
        names_elsewhere: bool = False,
        concurrent_reader: bool = False,
    ) -> RunResult:
        """Outward system calls are points, too, and lines, which show where a call was made. `keeps_forced`: what would
        survive a loss of power is known at any time. `names_elsewhere`: a sink in Python is watched outside, too.
        """
        self._trace_lines = self._watch_calls = self.contract.kind != "command"
        self._keeps_forced, self._names_elsewhere = keeps_forced, names_elsewhere
        self._compares_losses = not schedule.faults
        try:
            return self._run(schedule, concurrent_reader=concurrent_reader)
        finally:
            self._watch_calls = self._keeps_forced = self._names_elsewhere = False
            if self.target.unforced is not None:
                self.target.unforced.close()
                self.target.unforced = None

    def reset(self) -> None:
        super().reset()
        if self._keeps_forced:
            if self.target.unforced is not None:
                self.target.unforced.close()  # of a run before, in which a call had too little time
            self.target.unforced = UnforcedChanges(str(self.scratch.path), compares=self._compares_losses)

    def _run(self, schedule: Schedule, *, concurrent_reader: bool) -> RunResult:
        """Once more, if a call may have had too little time: with more data than usual a right sink may be slow."""
        traces_lines, before = self._trace_lines, self.call_seconds_most
        result = self._run_once(schedule, concurrent_reader=concurrent_reader)
        assert self.host is not None
        if result.finished or not self.host.endings[AttemptEnding.HUNG] or schedule.job == STANDARD:
            return result
        if not schedule.faults:
            self.slowest_seconds = max(self.slowest_seconds, self.hang_seconds)
        elif schedule.job not in self._timed:
            self._run(Schedule(job=schedule.job), concurrent_reader=False)
        if self.call_seconds_most == before:
            return result
        self._trace_lines = traces_lines
        return self._run_once(schedule, concurrent_reader=concurrent_reader)

    def _run_once(self, schedule: Schedule, *, concurrent_reader: bool) -> RunResult:
        try:
            result = super().run(schedule, concurrent_reader=concurrent_reader)
            assert self.host is not None
            if not schedule.faults:
                self._timed.add(schedule.job)
                self.slowest_seconds = max(self.slowest_seconds, self.host.slowest_seconds)
            if isinstance(self.host, WatchingHost):
                result = self._with_calls(result, self.host)
            if not schedule.faults and isinstance(self.host, ProcessHost):
                self._import_once(self.host.imported)
            inside = InsideRun() if self.service.watched is None else self.service.watched.run
            struck = *struck_messages(self.scratch.services), *inside.struck, *result.struck
            return replace(
                result,
                kills=self.host.kills + inside.kills,
                handles_sigterm=self.host.handles_sigterm,
                resumed_early=self.host.resumed_early,
                struck=struck,
                inside=tuple(inside.windows),
                killed_inside=inside.sentence(),
                lines_of_children=self.host.lines_of_children() if isinstance(self.host, ProcessHost) else (),
            )
        finally:
            self._trace_lines = False
            if self.host is not None:
                self.host.close()

    def _with_calls(self, result: RunResult, host: WatchingHost) -> RunResult:
        """What the watch of this run has seen, and what it could not see."""
        unforced = self.target.unforced
        return replace(
            result,
            unwatched=host.unwatched,
            unseen=tuple(host.unseen),
            elsewhere=host.names_elsewhere,
            kept_elsewhere=host.kept_elsewhere,
            paths_elsewhere=tuple(host.elsewhere or ()),
            peers=tuple(host.peers),
            bound=tuple(host.bound),
            calls_apart=frozenset(host.apart),
            statements=frozenset(host.statements),
            losses_would_leave=() if unforced is None else unforced.would_leave,
            power_took=0 if unforced is None else unforced.losses,
            mapped_across_losses=() if unforced is None else tuple(unforced.mapped_across_losses),
        )

    @property
    def imported_by_attempts(self) -> Sequence[str]:
        return [*self.host.imported] if isinstance(self.host, ProcessHost) else ()

    def _import_once(self, imported: Iterable[str]) -> None:
        """Later attempts find what those of a run without faults have imported, if that is much. Not modules of the
        user, which each attempt has for itself.
        """
        own = {name.partition(".")[0] for name in self.own_code.given}
        modules = [name for name in imported if name.partition(".")[0] not in own and is_library(name)]
        if len(modules) >= MODULES_LEAST and not self._has_imported:
            self._has_imported = True
            self.servers.import_too(modules[:MODULES_MOST])


def is_watched_loss(fault: Fault, contract: Contract) -> bool:
    """Whether power is lost without the contract's help."""
    kind = KINDS[fault.kind]
    return kind.is_power_loss and not contract.offers(kind.needs)


@contextmanager
def process_runner(
    contract: Contract, scratch: Scratch, *, hang_seconds: float = HANG_SECONDS
) -> Iterator[ProcessRunner]:
    """A runner with a fork server that has imported the contract once."""
    is_command = contract.kind == "command"
    warm = [] if is_command else [("sinkproof.subject.loading:load", contract.locator)]
    with (
        fork_servers(preload=(*PRELOAD, *libraries_of(contract)), warm=warm) as servers,
        ProcessRunner(contract, scratch, servers=servers, hang_seconds=hang_seconds) as runner,
    ):
        if not is_command:
            runner.find_own_files()
        yield runner
