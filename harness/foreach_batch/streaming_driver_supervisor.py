"""A foreachBatch function in real Structured Streaming: its driver is killed with its JVM, its last commits/N is lost.

A driver runs until a fault kills it; the next one resumes from the checkpoint. Kills are counted from wait statuses.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, suppress
from dataclasses import asdict, dataclass, field
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.points import is_line
from sinkproof.chaos.processes.parent_death import adopt_orphans
from sinkproof.chaos.processes.process_table import members_of
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.foreach_batch.certifying_query import AFTER_COMMIT, BEFORE_BATCH, BEFORE_COMMIT, KILL, LOSE, POINTS
from sinkproof.foreach_batch.simulated_batches import read, rows_left_behind
from sinkproof.foreach_batch.streaming_driver import CHECKPOINT
from sinkproof.judging.oracle import Observation
from sinkproof.reference_engine.shells.spark.control_messages import ControlConnection, Message
from sinkproof.reference_engine.shells.spark.java_installation import check_available
from sinkproof.reports.document import SourceLine
from sinkproof.reports.progress import Progress
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.scratch import Scratch, clear_folder
from sinkproof.subject.source_files import source_line

MODULE: Final = "sinkproof.foreach_batch.streaming_driver"
START_SECONDS: Final = 150.0  # of a session; it makes the archive of classes when there is none
END_SECONDS: Final = 15.0
TICK_SECONDS: Final = 1.0  # between two progress reports
SILENCES: Final = 6  # times a call's limit, until a driver without messages counts as hung: Spark works meanwhile
LOG_TAIL: Final = 1000  # characters


@dataclass(slots=True, kw_only=True)
class Experiment:
    """One schedule from the empty folder to the end of the query, and every point that it passed."""

    ending: Observation = field(default_factory=Observation)
    injected: tuple[Fault, ...] = ()
    line: SourceLine | None = None  # as CrashState.line
    trail: list[tuple[int, str, int]] = field(default_factory=list)  # (drivers and losses before, point, batch)
    passed: Counter[str] = field(default_factory=Counter)
    lines_known: set[str] = field(default_factory=set)
    kills: int = 0
    no_result: str = ""  # why there is none

    def experiments(self) -> list[Fault]:
        """The faults to inject after this run without faults: in the second of three batches."""
        second = [point for _, point, batch in self.trail if batch == 1]
        first = Counter(point for _, point, batch in self.trail if batch == 0)
        lines = [point for point in dict.fromkeys(reversed(second)) if point not in POINTS]
        lines += [point for point in dict.fromkeys(self.passed) if point not in POINTS and point not in lines]
        places = [
            (point, first[point] + 1 if point in second else 1) for point in (BEFORE_COMMIT, *lines, BEFORE_BATCH)
        ]
        kills = [Fault(COORDINATOR, point, occurrence, KILL) for point, occurrence in places]
        return [Fault(COORDINATOR, AFTER_COMMIT, 2, LOSE), *kills]

    def experiments_and_last_times(self) -> list[Fault]:
        """The same; and early the last time of each line or call that the second batch comes to more than once: between
        two outputs, as one function writes both.
        """
        first, second = (Counter(point for _, point, at in self.trail if at == batch) for batch in (0, 1))
        several = [point for point, times in second.items() if times > 1 and point not in POINTS]
        last = [Fault(COORDINATOR, point, first[point] + second[point], KILL) for point in several]
        experiments = self.experiments()
        return [*experiments[:3], *last, *experiments[3:]]


class StreamingRunner:
    """Raises SparkUnavailable. `close` ends the running driver."""

    def __init__(self, contract: Contract, scratch: Scratch, *, hang_seconds: float, progress: Progress) -> None:
        check_available()
        adopt_orphans()  # the JVM of a killed driver, and its workers
        self.contract, self.scratch, self.progress = contract, scratch, progress
        self.silence_seconds = SILENCES * hang_seconds
        self.driver: DriverProcess | None = None
        self.kills = 0

    def run(self, faults: tuple[Fault, ...]) -> Experiment:
        self.reset()
        checkpoint = self.scratch.path.parent / CHECKPOINT
        checkpoint.mkdir(exist_ok=True)
        clear_folder(checkpoint)
        done = Experiment()
        try:
            while not self._run_until_death(done, faults):
                pass
        except DriverFailed as failure:
            done.no_result = str(failure)
            self.close()
        return done

    def reset(self) -> None:
        self.contract.call_if_there("teardown", self.scratch)
        clear_folder(self.scratch.path)
        self.contract.call_if_there("setup", self.scratch)

    def rows_left(self) -> str:
        """Which rows a reader sees although nothing has run since everything was removed; empty if there are none."""
        self.reset()
        return rows_left_behind(read(self.contract, self.scratch, Observation()))

    def _run_until_death(self, done: Experiment, faults: tuple[Fault, ...]) -> bool:
        """Whether the query has ended; if not, the next driver resumes it. Raises DriverFailed."""
        what = str(Schedule(faults))
        if self.driver is None:
            self.driver = DriverProcess(self.contract, self.scratch)
            self._await_ready(self.driver, what)
        self.driver.orders.send("run", faults[len(done.injected) :], done.passed)
        for kind, *details in self._messages(self.driver, what):
            if kind == "passed":
                point, batch = details
                done.passed[point] += 1
                done.trail.append((len(done.injected), point, batch))
            elif kind == "injected":
                kind, line = details
                last = next((point for _, point, _ in reversed(done.trail) if is_line(point)), "")
                done.line = source_line(line or last, self.contract.given.files)
                done.injected = faults[: len(done.injected) + 1]
                if kind != LOSE:
                    self._confirm_killed(self.driver)
                    done.kills += 1
                    return False
            elif kind == "ended":
                done.ending, lines = details
                done.lines_known |= lines
                self._read_here(done.ending)
                return True
        raise DriverFailed(f"the driver ended by itself ({self.driver.end()}). It wrote: {self.driver.log_tail}")

    def _read_here(self, ending: Observation) -> None:
        """What `setup` has started, and keeps in memory, is in this process."""
        if self.contract.offers("setup"):
            with chdir(self.scratch.path):
                ending.committed = read(self.contract, self.scratch, ending)

    def _confirm_killed(self, driver: DriverProcess) -> None:
        status = driver.end()
        self.driver = None
        if status != -signal.SIGKILL:
            raise DriverFailed(f"the driver was to be killed, but ended with status {status}: {driver.log_tail}")
        self.kills += 1

    def _await_ready(self, driver: DriverProcess, what: str) -> None:
        for kind, *details in self._messages(driver, f"{what}: starting Spark", seconds=START_SECONDS):
            if kind == "ready":
                return
            why, by_subject = details
            if by_subject:
                raise ContractError(why)
            raise DriverFailed(f"Spark did not start: {why}. It wrote: {driver.log_tail}")
        raise DriverFailed(f"Spark did not start ({driver.end()}). It wrote: {driver.log_tail}")

    def _messages(self, driver: DriverProcess, what: str, *, seconds: float = 0.0) -> Iterator[Message]:
        """The driver's messages until it ends. Raises DriverFailed after too long without one."""
        limit = seconds or self.silence_seconds
        silence = Deadline(limit)
        while True:
            self.progress.step(what, self.kills)
            messages = driver.receive(min(TICK_SECONDS, silence.left))
            if messages is None:
                return
            if not messages and silence.over:
                raise DriverFailed(f"the driver sent no message for {limit:g} s. It wrote: {driver.log_tail}")
            silence = Deadline(limit) if messages else silence
            yield from messages

    def close(self) -> None:
        if self.driver is not None:
            self.driver.end()
            self.driver = None


class DriverFailed(Exception):
    """The experiment has no result; the text ends with the driver's log."""


class DriverProcess:
    """A driver, its JVM and its workers: one session of processes, which is ended as a whole."""

    def __init__(self, contract: Contract, scratch: Scratch) -> None:
        self.log = scratch.path.parent / "driver.log"
        ours, its = socket.socketpair()
        self.orders = ControlConnection(ours)
        arguments = [str(os.getpid()), str(its.fileno()), contract.given.place, str(scratch.path)]
        arguments.append(json.dumps(asdict(scratch.services.options)))
        with its, self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", MODULE, *arguments],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def receive(self, seconds: float) -> list[Message] | None:
        """Its messages since the last call; None when it has ended and all messages were received."""
        return self.orders.receive() if select.select([self.orders], [], [], seconds)[0] else []

    def end(self) -> int:
        """Its exit status, negative for a signal. On return no process of its session is left."""
        self.orders.close()  # the order to stop
        try:
            status = self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        end_session_of(self.process.pid)
        return status

    @property
    def log_tail(self) -> str:
        words = self.log.read_text(errors="replace").strip()
        return words[-LOG_TAIL:] or "nothing"


def end_session_of(leader: int) -> None:
    """Kills all remaining processes of the session, and collects those that became children of this process."""
    deadline = Deadline(END_SECONDS)
    while (left := members_of(leader)) and not deadline.over:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
