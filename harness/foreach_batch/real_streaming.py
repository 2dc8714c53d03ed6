"""A foreachBatch function in real Structured Streaming: its driver is killed with its JVM, its last commits/N is lost.

A driver lives until a fault kills it; the next one goes on from the checkpoint. Kills are counted from wait statuses.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.foreach_batch.streaming_driver import CHECKPOINT
from sinkproof.foreach_batch.streaming_query import AFTER_COMMIT, BEFORE_BATCH, BEFORE_COMMIT, KILL, LOSE, Ending
from sinkproof.reference_engine.shells.spark.java_installation import check_available
from sinkproof.reports.document import SourceLine
from sinkproof.reports.progress import Progress
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.scratch import Scratch, clear_folder
from sinkproof.subject.source_files import source_line

MODULE: Final = "sinkproof.foreach_batch.streaming_driver"
START_SECONDS: Final = 150.0  # of a session; it makes the archive of classes when there is none
END_SECONDS: Final = 15.0
TICK_SECONDS: Final = 1.0  # between two words of progress
SILENCES: Final = 6  # times a call's limit, until a driver that tells nothing counts as hung: Spark works meanwhile
LAST_WORDS: Final = 1000  # characters


@dataclass(slots=True, kw_only=True)
class Experiment:
    """One schedule from the empty folder to the end, and everything that was passed."""

    ending: Ending = field(default_factory=Ending)
    struck: tuple[Fault, ...] = ()
    line: SourceLine | None = None  # that the last fault struck, or that was executed last before it
    trail: list[tuple[int, str, int]] = field(default_factory=list)  # (drivers and losses before, point, batch)
    passed: Counter[str] = field(default_factory=Counter)
    lines_known: set[str] = field(default_factory=set)
    kills: int = 0
    why_not: str = ""  # it came to no result

    def experiments(self) -> list[Fault]:
        """What to strike after this run without faults: in the second batch, where there is a before and an after."""
        second = [point for _, point, batch in self.trail if batch == 1]
        first = Counter(point for _, point, batch in self.trail if batch == 0)
        lines = [point for point in dict.fromkeys(reversed(second)) if is_line(point)]
        lines += [point for point in dict.fromkeys(self.passed) if is_line(point) and point not in lines]
        places = [
            (point, first[point] + 1 if point in second else 1) for point in (BEFORE_COMMIT, *lines, BEFORE_BATCH)
        ]
        kills = [Fault(COORDINATOR, point, occurrence, KILL) for point, occurrence in places]
        return [Fault(COORDINATOR, AFTER_COMMIT, 2, LOSE), *kills]


class StreamingLaboratory:
    """Raises SparkUnavailable. Close it: the driver that lives ends then."""

    def __init__(self, contract: Contract, scratch: Scratch, *, hang_seconds: float, progress: Progress) -> None:
        check_available()
        self.contract, self.scratch, self.progress = contract, scratch, progress
        self.silence_seconds = SILENCES * hang_seconds
        self.driver: DriverProcess | None = None
        self.kills = 0

    def run(self, faults: tuple[Fault, ...]) -> Experiment:
        clear_folder(self.scratch.path)
        checkpoint = self.scratch.path.parent / CHECKPOINT
        checkpoint.mkdir(exist_ok=True)
        clear_folder(checkpoint)
        done = Experiment()
        try:
            while not self._run_until_death(done, faults):
                pass
        except DriverFailed as failure:
            done.why_not = str(failure)
            self.close()
        return done

    def _run_until_death(self, done: Experiment, faults: tuple[Fault, ...]) -> bool:
        """Whether the query has come to its end; the next driver goes on if not. Raises DriverFailed."""
        what = str(Schedule(faults))
        if self.driver is None:
            self.driver = DriverProcess(self.contract, self.scratch)
            self._await_ready(self.driver, what)
        left = faults[len(done.struck) :]
        self.driver.send({"faults": str(Schedule(left)), "passed": done.passed})
        for said in self._hear(self.driver, what):
            if said["what"] == "passed":
                done.passed[said["point"]] += 1
                done.trail.append((len(done.struck), said["point"], said["batch"]))
            elif said["what"] == "struck":
                self._strike(done, faults)
                if said["kind"] != LOSE:
                    self._bury(self.driver)
                    done.kills += 1
                    return False
            elif said["what"] == "ended":
                rows = [(split, offset) for split, offset in said["committed"]]
                done.ending = Ending(committed=rows, unreadable=said["unreadable"], failure=said["failure"])
                done.lines_known |= set(said["lines_known"])
                return True
        raise DriverFailed(f"the driver ended by itself ({self.driver.end()}). It wrote: {self.driver.last_words}")

    def _strike(self, done: Experiment, faults: tuple[Fault, ...]) -> None:
        lines = [point for _, point, _ in done.trail if is_line(point)]
        done.line = source_line(lines[-1], self.contract.given.files) if lines else None
        done.struck = faults[: len(done.struck) + 1]

    def _bury(self, driver: DriverProcess) -> None:
        status = driver.end()
        self.driver = None
        if status != -signal.SIGKILL:
            raise DriverFailed(f"the driver was to be killed, but ended with status {status}: {driver.last_words}")
        self.kills += 1

    def _await_ready(self, driver: DriverProcess, what: str) -> None:
        for said in self._hear(driver, f"{what}: starting Spark", seconds=START_SECONDS):
            if said["what"] == "refused" and said["input"]:
                raise ContractError(said["why"])
            if said["what"] == "refused":
                raise DriverFailed(f"Spark did not start: {said['why']}. It wrote: {driver.last_words}")
            return
        raise DriverFailed(f"Spark did not start ({driver.end()}). It wrote: {driver.last_words}")

    def _hear(self, driver: DriverProcess, what: str, *, seconds: float = 0.0) -> Iterator[dict[str, Any]]:
        """What the driver tells, until it is gone. Raises DriverFailed when it is silent for too long."""
        limit = seconds or self.silence_seconds
        silence = Deadline(limit)
        while True:
            self.progress.step(what, self.kills)
            said = driver.hear(min(TICK_SECONDS, silence.left))
            if said is None:
                return
            if not said and silence.over:
                raise DriverFailed(f"nothing was heard of the driver for {limit:g} s. It wrote: {driver.last_words}")
            silence = Deadline(limit) if said else silence
            yield from said

    def close(self) -> None:
        if self.driver is not None:
            self.driver.end()
            self.driver = None


class DriverFailed(Exception):
    """The experiment came to no result; the message says what was seen last."""


class DriverProcess:
    """A driver, its JVM and its workers: one session of processes, which ends as one."""

    def __init__(self, contract: Contract, scratch: Scratch) -> None:
        self.log = scratch.path.parent / "driver.log"
        self._hearing, tells = os.pipe()
        command = [sys.executable, "-m", MODULE, str(os.getpid()), str(tells), contract.given.place, str(scratch.path)]
        command.append(json.dumps(asdict(scratch.services.options)))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                pass_fds=[tells],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        os.close(tells)
        self._rest = b""

    def send(self, command: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it is gone, which is noticed next
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()

    def hear(self, seconds: float) -> list[dict[str, Any]] | None:
        """What it has told since the last call; None when it is gone and all of it was heard."""
        if not select.select([self._hearing], [], [], seconds)[0]:
            return []
        chunk = os.read(self._hearing, 1 << 16)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [json.loads(line) for line in lines] if chunk else None

    def end(self) -> int:
        """Its exit status, negative for a signal; when this returns nobody of its session is left."""
        if self._hearing < 0:
            return self.process.wait()
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()  # the order to stop
        try:
            status = self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        end_session_of(self.process.pid)
        os.close(self._hearing)
        self._hearing = -1
        return status

    @property
    def last_words(self) -> str:
        words = self.log.read_text(errors="replace").strip()
        return words[-LAST_WORDS:] or "nothing"


def end_session_of(leader: int) -> None:
    """Kills whoever is left of the session, and waits until they are gone."""
    deadline = Deadline(END_SECONDS)
    while (left := living_of_session(leader)) and not deadline.over:
        for pid in left:
            with suppress(ProcessLookupError):
                _end(pid, deadline)


def _end(pid: int, deadline: Deadline) -> None:
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [], deadline.left)
    finally:
        os.close(descriptor)


def living_of_session(leader: int) -> list[int]:
    """Zombies are dead: whoever has to reap them, it is not us."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            state, _, _, session, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue  # it has just ended
        if int(session) == leader and state not in "ZX":
            found.append(int(folder.name))
    return found
