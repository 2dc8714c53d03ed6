"""Runs schedules in other processes beside the campaign's own, so that no core is idle.

Each worker has a scratch folder of its own, and a broker of its own where there is one, so that faults of one worker
reach no other. Results come in the order of the schedules, whichever process made them, so the findings,
their order and all counts depend neither on the speed nor on the number of workers.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Protocol

from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.processes.child import ChildProcess
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.current_step import StepStatus, report_step
from sinkproof.chaos.processes.spawn import ForkServer, NoReply
from sinkproof.chaos.schedule import Schedule
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable
from sinkproof.execution.run_result import RunResult
from sinkproof.judging.observer import NeverQuiet
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.contract import ContractError

BATCHES_MOST: Final = 2  # that a worker has: the next one begins when it has finished one
BATCH_SECONDS: Final = 0.05  # of work in one message: sending it takes 0.2 ms
AHEAD_MOST: Final = 1000  # results that wait for an earlier one: the campaign then waits for that one's worker


class RunAll(Protocol):
    """One result of each schedule, in their order. `run` makes one in this process; `trace_lines`: with its lines,
    wherever it is made.
    """

    def __call__(
        self, schedules: Sequence[Schedule], *, trace_lines: bool, run: Callable[[Schedule], RunResult]
    ) -> Iterable[RunResult]: ...


def one_by_one(
    schedules: Sequence[Schedule], *, trace_lines: bool, run: Callable[[Schedule], RunResult]
) -> Iterable[RunResult]:
    return map(run, schedules)


class PoolWorker:
    """One worker process as the campaign sees it. `seconds`: of silence, after which it counts as hung. `ready`: it may
    be given schedules; if not, it reports when it has imported what it needs, which may take long.
    """

    def __init__(self, child: ChildProcess, seconds: float, *, status: StepStatus, ready: bool = True) -> None:
        self.child, self.seconds, self.status, self.ready = child, seconds, status, ready
        self.given: deque[list[int]] = deque()

    def give(self, batch: Sequence[tuple[int, Schedule]], *, trace_lines: bool) -> None:
        self.given.append([place for place, _ in batch])
        with self._explained():
            self.child.send(pickle.dumps(([schedule for _, schedule in batch], trace_lines)), Deadline(self.seconds))

    def take(self, *, wait: bool) -> list[tuple[int, RunResult]]:
        """The results of the first batch given; empty: there are none yet."""
        if not self.given:
            return []
        results = self._answer(wait=wait)
        return [] if results is None else list(zip(self.given.popleft(), results, strict=True))

    def is_ready(self) -> bool:
        self.ready = self.ready or self._answer(wait=False) is not None
        return self.ready

    def _answer(self, *, wait: bool) -> list[RunResult] | None:
        with self._explained():
            message = self.child.receive(Deadline(self.seconds)) if wait else self.child.take()
        if message is None:
            return None
        results: list[RunResult] | None
        results, bad_input, said = pickle.loads(message)
        if results is None:
            raise ContractError(said) if bad_input else ReaderFailed("has failed", evidence=said)
        return results

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """The death of a worker proves nothing about the sink."""
        try:
            yield
        except NoReply as silence:
            words = self.child.output.tail().strip() or "none"
            said = f"{silence.silence.value} while {self.status}; its last words: {words}"
            raise ReaderFailed("is out of reach: a worker process is gone", evidence=said) from silence

    def close(self) -> None:
        self.child.close()
        self.status.close()


class WorkerPool:
    """The workers beside this process, which runs what no worker was given. `batch_most`: schedules in a message."""

    def __init__(self, workers: Sequence[PoolWorker], *, batch_most: int = 1) -> None:
        self.workers, self.batch_most = workers, batch_most
        self.seconds, self.runs = 0.0, 0  # of this process's own runs

    def run_all(
        self, schedules: Sequence[Schedule], *, trace_lines: bool, run: Callable[[Schedule], RunResult]
    ) -> Iterator[RunResult]:
        """See `RunAll`. All results are to be taken before the next call."""
        waiting = deque(enumerate(schedules))
        done: dict[int, RunResult] = {}
        place = 0
        while waiting or done or any(worker.given for worker in self.workers):
            self._give(waiting, trace_lines=trace_lines)
            is_ahead = len(done) > AHEAD_MOST
            if waiting and not is_ahead:
                own, schedule = waiting.popleft()
                done[own] = self._run(schedule, run)
            self._take(done, wait=(is_ahead or not waiting) and place not in done)
            while place in done:
                yield done.pop(place)
                place += 1

    def _run(self, schedule: Schedule, run: Callable[[Schedule], RunResult]) -> RunResult:
        began = now()
        result = run(schedule)
        self.seconds, self.runs = self.seconds + now() - began, self.runs + 1
        return result

    def _give(self, waiting: deque[tuple[int, Schedule]], *, trace_lines: bool) -> None:
        each = self.seconds / self.runs if self.runs else BATCH_SECONDS
        size = min(self.batch_most, max(1, int(BATCH_SECONDS / max(each, 1e-6))))
        for worker in self.workers:
            while waiting and len(worker.given) < BATCHES_MOST and worker.is_ready():
                batch = [waiting.popleft() for _ in range(min(size, len(waiting)))]
                worker.give(batch, trace_lines=trace_lines)

    def _take(self, done: dict[int, RunResult], *, wait: bool) -> None:
        """`wait`: for the batch that is next in order, from any worker."""
        for worker in sorted(self.workers, key=lambda worker: worker.given[0] if worker.given else []):
            while taken := worker.take(wait=wait and bool(worker.given)):
                done.update(taken)
                wait = False


def start_worker(
    server: ForkServer, stack: ExitStack, entry: str, *what: Any, seconds: float, ready: bool = True
) -> PoolWorker:
    """It lives as long as the stack."""
    status = StepStatus()
    worker = PoolWorker(
        server.spawn(entry, *what, descriptors=[status.descriptor]), seconds, status=status, ready=ready
    )
    stack.callback(worker.close)
    return worker


def serve(inside: Inside, run: Callable[[Schedule, bool], RunResult]) -> None:
    """The life of a worker: batches of schedules in, results out, until its channel ends."""
    while (request := inside.receive()) is not None:
        schedules, trace_lines = pickle.loads(request)
        results = []
        for schedule in schedules:
            report_step(inside.descriptors[0], str(schedule))
            results.append(run(schedule, trace_lines))
        inside.send(pickle.dumps((results, False, "")))


def report_ready(inside: Inside) -> None:
    """See `PoolWorker`."""
    inside.send(pickle.dumps(([], False, "")))


@contextmanager
def reporting_errors(inside: Inside) -> Iterator[None]:
    """Errors of a worker are raised in the campaign's process."""
    try:
        yield
    except (ContractError, ServiceUnavailable) as error:
        inside.send(pickle.dumps((None, True, str(error))))
    except (ReaderFailed, NeverQuiet, ServiceFailed) as error:
        inside.send(pickle.dumps((None, False, str(error))))
