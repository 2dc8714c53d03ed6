"""Tasks in processes of their own, as many at a time as there are cores; each speaks through a pipe of its own.

A worker that hangs is killed, one that dies is noticed; both become a reason for UNKNOWN and never take the others
along.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Final

from sinkproof.chaos.clock import Deadline, now
from sinkproof.contract import ContractError
from sinkproof.reports.progress import Progress
from sinkproof.tasks import Task, perform

PRELOAD: Final = ["sinkproof.tasks", "sinkproof.campaign_simulated", "sinkproof.campaign_process"]
STEPS_EVERY_SECONDS: Final = 0.1  # between two words of progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A task that came to no result: what happened, and whose fault it is."""

    why: str
    ours: bool = False  # a bug of this program, not of the subject
    bad_input: bool = False
    details: str = ""


class Reporting:
    """The progress of a worker, as messages to its parent."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe, self.last, self.steps = pipe, 0.0, 0

    def start(self, subject: str, shell: str, total: int | None) -> None:
        self.pipe.send(("start", subject, shell, total))

    def step(self, what: str, kills: int) -> None:
        self.steps += 1
        if now() - self.last >= STEPS_EVERY_SECONDS:
            self.last = now()
            self.pipe.send(("step", what, kills, self.steps))
            self.steps = 0

    def done(self, verdict: str) -> None:
        self.pipe.send(("done", verdict))

    def close(self) -> None:
        pass


def work(task: Task, pipe: Connection) -> None:
    """The main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    try:
        pipe.send(("result", perform(task, Reporting(pipe))))
    except ContractError as error:
        pipe.send(("result", Failure(why=str(error), bad_input=True)))
    except BrokenPipeError:
        os._exit(1)  # nobody listens any more
    except Exception as error:  # the border: whatever it is, it must not look like a verdict
        why = f"{type(error).__name__}: {error}"
        pipe.send(("result", Failure(why=why, ours=True, details=traceback.format_exc())))


@dataclass(slots=True)
class Worker:
    task: Task
    process: Any
    pipe: Connection
    silence: Deadline
    doing: str = "it started"


def run_tasks(
    tasks: Sequence[Task], *, progress: Progress, cores: int, hang_seconds: float = 60.0
) -> Iterator[tuple[Task, Any]]:
    """Yields (task, result or Failure) as they end."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    waiting, running = list(tasks), list[Worker]()
    try:
        while waiting or running:
            while waiting and len(running) < cores:
                running.append(_start(context, waiting.pop(0), hang_seconds))
            wait([worker.pipe for worker in running], timeout=min(worker.silence.left for worker in running))
            for worker in list(running):
                result = _listen(worker, progress, hang_seconds)
                if result is not None:
                    running.remove(worker)
                    _stop(worker)
                    yield worker.task, result
    finally:
        for worker in running:
            _stop(worker)


def _start(context: Any, task: Task, hang_seconds: float) -> Worker:
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(task, theirs), daemon=False)
    process.start()
    theirs.close()
    return Worker(task, process, mine, Deadline(hang_seconds + task.budget_seconds))


def _listen(worker: Worker, progress: Progress, hang_seconds: float) -> Any:
    """Everything the worker has said by now; its result, once there is one."""
    while worker.pipe.poll():
        try:
            kind, *rest = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(5)
            return Failure(why=f"the process of {_name(worker.task)} ended ({_status(worker)}) when {worker.doing}")
        worker.silence = Deadline(hang_seconds)
        if kind == "result":
            return rest[0]
        _show(kind, rest, worker, progress)
    if worker.silence.over:
        return Failure(why=f"{_name(worker.task)} hung for {hang_seconds:.0f} s when {worker.doing}; it was killed")
    return None


def _show(kind: str, rest: list[Any], worker: Worker, progress: Progress) -> None:
    call: Callable[..., None] = getattr(progress, kind)
    if kind == "step":
        what, kills, _ = rest
        worker.doing = f"trying {what}"
        call(f"{worker.task.locator or 'canaries'} [{worker.task.shell}] {what}", kills)
    else:
        call(*rest)


def _status(worker: Worker) -> str:
    code = worker.process.exitcode
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit status {code}"


def _name(task: Task) -> str:
    return f"{task.locator or 'the canaries'} in the {task.shell} shell"


def _stop(worker: Worker) -> None:
    worker.pipe.close()
    if worker.process.is_alive():
        worker.process.kill()
    worker.process.join()
