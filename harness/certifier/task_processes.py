"""Runs each task in a worker process, as many at a time as there are cores; each worker has a channel of its own.

A worker runs the code of a subject. If it hangs, it is killed; a worker that hangs or dies is a reason for UNKNOWN and
does not affect other tasks. Its child processes end with it, and its output does not reach the terminal.
"""

from __future__ import annotations

import linecache
import os
import pickle
import select
import traceback
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.certifier.perform import perform
from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.error_text import described
from sinkproof.chaos.processes import given_up, recorded_inputs
from sinkproof.chaos.processes.child_channel import EXIT_OUT_OF_MEMORY, Inside
from sinkproof.chaos.processes.current_step import StepStatus, is_found_elsewhere, is_interrupted, report_step
from sinkproof.chaos.processes.spawn import ChildProcess, ForkServer, Limits, NoReply
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable
from sinkproof.chaos.standard_library import defines_standard_module
from sinkproof.judging.observer import NeverQuiet
from sinkproof.reference_engine.shells.process.attempt_endings import describe_status
from sinkproof.reference_engine.shells.process.attempt_host import LIMITS
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.reports.progress import Progress
from sinkproof.subject.contract import ContractError
from sinkproof.subject.scratch import PREFIX, scratch_homes, sweep_folders_of_the_dead

ENTRY: Final = "sinkproof.certifier.task_processes:work"
PRELOAD: Final = (
    "sinkproof.certifier.task_processes",
    "sinkproof.campaign.simulated_campaign",
    "sinkproof.campaign.process_campaign",
)
STEPS_EVERY_SECONDS: Final = 0.1  # between two progress messages
POLL_SECONDS: Final = 3600.0  # at most
START_SECONDS: Final = 10.0  # imports of the subject
ENDING_SECONDS: Final = 6.0  # what an interruption ends has so long; some systems kill after seven seconds
GIVEN_UP_SECONDS: Final = 2.0  # a run that takes longer than that is given up
ENDING: Final = "interrupted: the runs that have begun are finished, or given up after some seconds"
# A worker counts as hung after so many times the limit of a call. A simulated schedule takes 1 ms. In processes a sink
# is given up after three calls that hang, and a broker may take a minute to restart on a busy machine. Spark has to
# start, and to start again when its driver was killed.
SILENCES: Final = {"simulated": 3, "process": 12, "spark": 12, "kafka": 12, "cassandra": 20, "inside-service": 12}
OUTPUT_SHOWN_MOST: Final = 500  # characters
NOT_THE_SUBJECT: Final = ("sinkproof", "pyarrow")  # packages that a worker runs besides the standard library


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A task without a result: what happened, and what caused it."""

    why: str
    origin: str = "subject"  # or "ours" (this program or the machine), or "input" (bad arguments)
    details: str = ""


class Reporting(Progress):
    """The progress of a worker, as messages to its parent."""

    def __init__(self, inside: Inside) -> None:
        self.inside, self.pid = inside, os.getpid()
        self.status = inside.descriptors[0]  # shared memory: the parent reads the last step after a hang or death
        self.last, self.unsent = 0.0, 0

    def send(self, *message: object) -> None:
        if os.getpid() != self.pid:
            os._exit(0)  # the sink forked: its child must not send messages, too
        try:
            self.inside.send(pickle.dumps(message))
        except BrokenPipeError:
            raise
        except OSError:  # only code of the subject can have closed it
            os.write(2, b"its code has closed file descriptors that it had not opened")
            os._exit(1)

    def start(self, subject: str, phase: str) -> None:
        self.send("start", subject, phase)

    def step(self, what: str, kills: int, *, schedules: int = 1) -> None:
        report_step(self.status, what)
        self.unsent += schedules
        if now() - self.last >= STEPS_EVERY_SECONDS:
            self.send("step", what, kills, self.unsent)
            self.last, self.unsent = now(), 0

    def found(self, findings: int, text: str) -> None:
        self.send("found", findings, text)

    def say(self, text: str) -> None:
        self.send("say", text)

    def keep(self, outcome: object) -> None:
        self.send("keep", outcome)

    def is_convicted_elsewhere(self) -> bool:
        return is_found_elsewhere(self.status)

    def is_interrupted(self) -> bool:
        return is_interrupted(self.status)


def work(inside: Inside, task: Task) -> None:
    """The entry of a worker process."""
    reporting = Reporting(inside)
    given_up.listen()
    if task.journal:
        recorded_inputs.start(recorded_inputs.recording_of(Path(task.journal), scratch_homes(), PREFIX))
    try:
        result = perform(task, reporting)
        recorded_inputs.note_loaded()
        reporting.send("result", result)
    except (ContractError, ServiceUnavailable) as error:
        reporting.send("result", Failure(why=str(error), origin="input"))
    except (ReaderFailed, NeverQuiet, ServiceFailed) as error:
        reporting.send("result", Failure(why=str(error)))
    except BrokenPipeError:
        os._exit(1)  # the parent is gone
    except MemoryError:
        os._exit(EXIT_OUT_OF_MEMORY)  # no message can be sent without memory
    except BaseException as error:  # the border: no error may look like a verdict
        place = place_of(error.__traceback__)
        what = f"the contract's own code failed at {place}" if place else "sinkproof itself failed"
        why, origin = f"{what}: {described(error)}", "subject" if place else "ours"
        reporting.send("result", Failure(why=why, origin=origin, details=traceback.format_exc()))


def place_of(raised_in: TracebackType | None) -> str:
    """The innermost line of a subject's code that was on the stack; empty if there was none."""
    place = ""
    for frame, number in traceback.walk_tb(raised_in):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in NOT_THE_SUBJECT and not defines_standard_module(frame.f_globals):
            file = frame.f_code.co_filename
            place = f"{file}:{number} ({linecache.getline(file, number).strip()})"
    return place


@dataclass(slots=True)
class Worker:
    task: Task
    child: ChildProcess
    status: StepStatus
    silence: Deadline
    progress: Progress
    has_convicted: bool = False  # a claim is broken, without a simulation
    kept: ShellOutcome | None = None  # its findings so far, unless they come from a simulation
    ends: Deadline = field(default_factory=lambda: Deadline(0))  # of its budget, if that holds

    @property
    def name(self) -> str:
        return f"{self.task.name} in the {self.task.shell} shell"

    @property
    def silence_seconds(self) -> float:
        """One run alone may take as long as it likes where the shell itself gives up calls that hang."""
        if self.task.schedule and self.task.shell != "simulated":
            return inf
        return SILENCES[self.task.shell] * self.task.hang_seconds


def run_tasks(tasks: Sequence[Task], *, progress: Progress, cores: int) -> Generator[tuple[Task, Any], None, None]:
    """Yields (task, result or Failure) as tasks end. Closing the generator kills the workers that still run.

    Real faults that convict a subject are noted in the other shells that still run it. An interruption is raised again
    after the results that the subjects have by then. What one leaves of a budget that holds is given to the next one of
    its subject.
    """
    waiting, running, unused = list(tasks), list[Worker](), dict[str, float]()
    if not waiting:
        return
    try:
        with ForkServer(preload=PRELOAD) as server:
            while waiting or running:
                _start_some(server, waiting, running, cores=cores, progress=progress, unused=unused)
                yield from _next_results(server, running, progress, unused=unused)
    finally:
        sweep_folders_of_the_dead()


def _start_some(
    server: ForkServer,
    waiting: list[Task],
    running: list[Worker],
    *,
    cores: int,
    progress: Progress,
    unused: dict[str, float],
) -> None:
    """Moves tasks to the running ones, as many as there are cores; none that shares state with a running one."""
    while len(running) < cores:
        shared = {worker.task.shares_state for worker in running} - {""}
        task = next((task for task in waiting if task.shares_state not in shared), None)
        if task is None:
            return
        waiting.remove(task)
        running.append(_start(server, task, progress, more_seconds=unused.pop(task.locator, 0.0)))


def _ended(running: list[Worker], unused: dict[str, float]) -> Generator[tuple[Task, Any], None, None]:
    """Takes workers with a result out of `running`, and yields their results. `unused`: seconds, by subject."""
    for worker in list(running):
        result = _receive(worker)
        if isinstance(result, ShellOutcome) and any(finding.claimed for finding in result.findings):
            worker.has_convicted = True  # real deaths have confirmed what a simulation has found
        if worker.has_convicted:
            for other in (each for each in running if each.task.locator == worker.task.locator):
                other.status.note_found_elsewhere()
        if result is not None:
            running.remove(worker)
            _end(worker)
            worker.progress.done()
            unused[worker.task.locator] = worker.ends.left
            yield worker.task, result


def _next_results(
    server: ForkServer, running: list[Worker], progress: Progress, *, unused: dict[str, float]
) -> Generator[tuple[Task, Any], None, None]:
    try:
        _await_message(server, running)
    except KeyboardInterrupt:
        progress.say(ENDING)
        yield from _interrupted(server, running)
        raise
    yield from _ended(running, unused)


def _interrupted(server: ForkServer, running: list[Worker]) -> Generator[tuple[Task, Any], None, None]:
    """Of subjects only: canaries that were not tried have not escaped."""
    deadline, given_up_at = Deadline(ENDING_SECONDS), Deadline(GIVEN_UP_SECONDS)
    for worker in list(running):
        worker.status.note_interrupted()
        if not worker.task.locator:
            running.remove(worker)
            _end(worker)
    are_asked = False
    while running and not deadline.over:
        _await_message(server, running, seconds=deadline.left if are_asked else given_up_at.left)
        if given_up_at.over and not are_asked:
            are_asked = True
            for worker in running:
                worker.child.signal(given_up.SIGNAL)
        yield from (ended for ended in _ended(running, {}) if not isinstance(ended[1], Failure))
    for worker in running:
        why = f"{worker.name} was interrupted while {worker.status}"
        _end(worker)
        if worker.kept is not None:
            yield worker.task, replace(worker.kept, unknowns=(why,))


def _start(server: ForkServer, task: Task, progress: Progress, *, more_seconds: float) -> Worker:
    status, seconds = StepStatus(), task.budget_seconds + more_seconds
    limits = Limits() if task.shell == "spark" else LIMITS  # a JVM reserves more than any sink needs
    given = replace(task, budget_seconds=seconds)
    child = server.spawn(ENTRY, given, descriptors=[status.descriptor], limits=limits)
    shown = progress.of(task.name, task.shell, max(seconds, task.plan_seconds) if task.locator else None)
    ends = Deadline(seconds if task.budget_holds else 0.0)
    worker = Worker(task, child, status, Deadline(0), shown, ends=ends)
    worker.silence = Deadline(worker.silence_seconds + START_SECONDS)
    return worker


def _await_message(server: ForkServer, running: Sequence[Worker], *, seconds: float = POLL_SECONDS) -> None:
    if server.receive_notices():
        return
    poll = select.poll()
    for descriptor in (server.control, *(worker.child.channel for worker in running)):
        poll.register(descriptor, select.POLLIN)
    poll.poll(int(1000 * min(seconds, *(worker.silence.left for worker in running))) + 1)


def _receive(worker: Worker) -> Any:
    """Handles every message that has arrived. Returns the result once there is one, else None."""
    try:
        while (message := worker.child.take()) is not None:
            kind, *rest = pickle.loads(message)
            worker.silence = Deadline(worker.silence_seconds)
            if kind == "result":
                return _unless_lost(rest[0], worker)
            if kind == "found":
                worker.has_convicted = rest[0] > 0 and worker.task.shell != "simulated" and bool(worker.task.locator)
                worker.kept = worker.kept if worker.has_convicted else None
            if kind == "keep":
                worker.kept = rest[0]
            elif kind == "step":
                worker.progress.step(*rest[:2], schedules=rest[2])
            else:
                getattr(worker.progress, kind)(*rest)
    except NoReply as ended:
        why = f"{worker.name} {_ending(worker, ended)} while {worker.status}{_last_output(worker)}"
        return _unless_lost(Failure(why=why), worker)
    worker.child.output.cut()
    if worker.silence.over:
        silence = f"no message for {worker.silence_seconds:g} s while {worker.status}"
        return _unless_lost(Failure(why=f"{worker.name} hung: {silence}; it was killed{_last_output(worker)}"), worker)
    return None


def _unless_lost(result: Any, worker: Worker) -> Any:
    """What a worker had found by real faults stays where its subject has ended it."""
    if isinstance(result, Failure) and result.origin == "subject" and worker.kept is not None:
        return replace(worker.kept, unknowns=(result.why,))
    return result


def _ending(worker: Worker, no_reply: NoReply) -> str:
    status = worker.child.wait_status
    if status is None:
        return f"answered with garbage ({no_reply.evidence})"
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == EXIT_OUT_OF_MEMORY:
        return f"ran out of memory (it may use {LIMITS.data_bytes or 0:,} bytes)"
    return f"ended its process ({describe_status(status)})"


def _last_output(worker: Worker) -> str:
    output = worker.child.output.tail().strip()[-OUTPUT_SHOWN_MOST:]
    return f"; its last words: {output}" if output else ""


def _end(worker: Worker) -> None:
    worker.child.kill()
    worker.child.close()
    worker.status.close()
