"""Runs schedules in other processes beside the campaign's own, so that no core is idle.

Each worker has a scratch folder of its own, and a broker of its own where there is one, so that faults of one worker
reach no other. Results come in the order of the schedules, whichever process made them, so the findings,
their order and all counts depend neither on the speed nor on the number of workers.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
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
from sinkproof.subject.heartbeat import Report, heartbeat, no_report

BATCHES_MOST: Final = 2  # that a worker has: the next one begins when it has finished one
BATCH_SECONDS: Final = 0.05  # of work in one message: sending it takes 0.2 ms
AHEAD_MOST: Final = 1000  # results that wait for an earlier one: the campaign then waits for that one's worker
RUNS_ALONE: Final = 3  # of a schedule, until what was found beside other runs shows again


class WorkerGone(ReaderFailed):
    """A worker process has ended, or hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNotes:
    """What the pools of one campaign say. `lost`: how workers have ended. `unconfirmed`: findings that show only beside
    runs of other processes. `report` is called while the campaign waits for a worker.
    """

    lost: MutableSequence[str] = field(default_factory=list)
    unconfirmed: MutableSequence[str] = field(default_factory=list)
    report: Report = no_report
    shown_alone: set[str] = field(default_factory=set)  # oracles that found something while no other process ran


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
        self.unwanted = 0  # batches given before; their results are left out

    @property
    def is_busy(self) -> bool:
        return bool(self.given or self.unwanted)

    def give(self, batch: Sequence[tuple[int, Schedule]], *, trace_lines: bool) -> None:
        self.given.append([place for place, _ in batch])
        with self._explained():
            self.child.send(pickle.dumps(([schedule for _, schedule in batch], trace_lines)), Deadline(self.seconds))

    def take(self, *, wait: bool) -> list[tuple[int, RunResult]]:
        """The results of the first batch given; empty: there are none yet."""
        while self.is_busy and (results := self._answer(wait=wait)) is not None:
            if not self.unwanted:
                return list(zip(self.given.popleft(), results, strict=True))
            self.unwanted -= 1
        return []

    def forget(self) -> None:
        """What it was given is not wanted any more."""
        self.unwanted += len(self.given)
        self.given.clear()

    def is_ready(self, *, wait: bool = False) -> bool:
        """What fails before that has failed without any schedule."""
        try:
            self.ready = self.ready or self._answer(wait=wait) is not None
        except ReaderFailed as error:
            raise WorkerGone("is out of reach: a worker process has failed", evidence=str(error)) from error
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
            raise WorkerGone("is out of reach: a worker process is gone", evidence=said) from silence

    def close(self) -> None:
        self.child.close()
        self.status.close()


class WorkerPool:
    """The workers beside this process, which runs what no worker was given. `batch_most`: schedules in a message.
    `notes`: where a worker has ended, its schedules are run again here, and findings are confirmed by runs alone; None:
    its end is raised, and nothing is confirmed.
    """

    def __init__(self, workers: Sequence[PoolWorker], *, batch_most: int = 1, notes: PoolNotes | None = None) -> None:
        self.workers, self.batch_most, self.notes = list(workers), batch_most, notes
        self.seconds, self.runs = 0.0, 0  # of this process's own runs
        self.waiting = deque[int]()  # places of schedules that no process was given
        self.again = deque[int]()  # those that were given to workers which are gone
        self.alone = set[int]()  # those that were run here while no worker had anything to do

    def run_all(
        self, schedules: Sequence[Schedule], *, trace_lines: bool, run: Callable[[Schedule], RunResult]
    ) -> Iterator[RunResult]:
        """See `RunAll`. Called once."""
        try:
            yield from self._run_all(schedules, trace_lines=trace_lines, run=run)
        finally:
            for worker in self.workers:
                worker.forget()

    def _run_all(
        self, schedules: Sequence[Schedule], *, trace_lines: bool, run: Callable[[Schedule], RunResult]
    ) -> Iterator[RunResult]:
        self.waiting.extend(range(len(schedules)))
        done: dict[int, RunResult] = {}
        place = 0
        while self.waiting or self.again or done or any(worker.given for worker in self.workers):
            self._give(schedules, trace_lines=trace_lines)
            is_ahead = len(done) > AHEAD_MOST
            if self.again or (self.waiting and not is_ahead):
                own = (self.again or self.waiting).popleft()
                if all(worker.ready and not worker.is_busy for worker in self.workers):
                    self.alone.add(own)
                done[own] = self._run(schedules[own], run)
            self._take(done, wait=(is_ahead or not self.waiting) and not self.again and place not in done)
            while place in done:
                yield self._confirmed(place, done, run)
                place += 1

    def _confirmed(self, place: int, done: dict[int, RunResult], run: Callable[[Schedule], RunResult]) -> RunResult:
        """The result; if it has found what no run alone has shown, that of another run, while no worker has anything to
        do. If nothing shows then, runs do not overlap any more.
        """
        result = done.pop(place)
        if self.notes is None:
            return result
        shown, found = self.notes.shown_alone, {anomaly.oracle for anomaly in result.anomalies}
        if place in self.alone:
            shown |= found
        if found <= shown:
            return result
        self._await_workers(done)
        for _ in range(RUNS_ALONE):
            alone = run(result.schedule)
            shown |= {anomaly.oracle for anomaly in alone.anomalies}
            if alone.anomalies:
                return result if found <= shown else alone
        self.notes.unconfirmed.append(
            f"runs overlapped, and {', '.join(sorted(found))} found what {RUNS_ALONE} runs of the same schedule alone "
            f"did not show: {result.schedule}. It is rare, or runs disturb each other; `side_by_side = False` in the "
            "contract keeps them apart"
        )
        self.workers.clear()
        return alone

    def _run(self, schedule: Schedule, run: Callable[[Schedule], RunResult]) -> RunResult:
        began = now()
        result = run(schedule)
        self.seconds, self.runs = self.seconds + now() - began, self.runs + 1
        return result

    def _give(self, schedules: Sequence[Schedule], *, trace_lines: bool) -> None:
        each = self.seconds / self.runs if self.runs else BATCH_SECONDS
        size = min(self.batch_most, max(1, int(BATCH_SECONDS / max(each, 1e-6))))
        for worker in list(self.workers):
            with self._until_it_is_gone(worker):
                while len(worker.given) < self._batches_most() and worker.is_ready():
                    places = [self.waiting.popleft() for _ in range(min(size, len(self.waiting)))]
                    worker.give([(place, schedules[place]) for place in places], trace_lines=trace_lines)

    def _batches_most(self) -> int:
        """That one worker has. Near the end no other process is to be idle while one has two."""
        return BATCHES_MOST if len(self.waiting) > len(self.workers) else min(1, len(self.waiting))

    def _take(self, done: dict[int, RunResult], *, wait: bool) -> None:
        """`wait`: for the batch that is next in order, from any worker."""
        for worker in sorted(self.workers, key=lambda worker: worker.given[0] if worker.given else []):
            with self._until_it_is_gone(worker):
                while taken := self._taken(worker, wait=wait and bool(worker.given)):
                    done.update(taken)
                    wait = False

    def _taken(self, worker: PoolWorker, *, wait: bool) -> list[tuple[int, RunResult]]:
        if not wait:
            return worker.take(wait=False)
        with self._heartbeat():
            return worker.take(wait=True)

    def _await_workers(self, done: dict[int, RunResult]) -> None:
        """Until none has anything to do."""
        for worker in list(self.workers):
            with self._until_it_is_gone(worker), self._heartbeat():
                worker.is_ready(wait=True)
                while worker.is_busy:
                    done.update(worker.take(wait=True))

    def _heartbeat(self) -> AbstractContextManager[None]:
        return heartbeat("waits for a worker process", no_report if self.notes is None else self.notes.report)

    @contextmanager
    def _until_it_is_gone(self, worker: PoolWorker) -> Iterator[None]:
        try:
            yield
        except WorkerGone as gone:
            if self.notes is None:
                raise
            self.notes.lost.append(f"a worker process was lost, and what it was given was run again: {gone.evidence}")
            self.workers.remove(worker)
            self.again += [place for batch in worker.given for place in batch]


class LateWorkers:
    """The workers of one campaign. `start` makes them with the first `worth` schedules that are to be run at once."""

    def __init__(
        self,
        *,
        start: Callable[[], Sequence[PoolWorker]] = lambda: (),
        worth: int = 0,
        batch_most: int = 1,
        notes: PoolNotes | None = None,
    ) -> None:
        self.start: Callable[[], Sequence[PoolWorker]] | None = start  # None: they have been started
        self.worth, self.batch_most, self.notes = worth, batch_most, notes
        self.workers: list[PoolWorker] = []

    def run_all(
        self, schedules: Sequence[Schedule], *, trace_lines: bool, run: Callable[[Schedule], RunResult]
    ) -> Iterator[RunResult]:
        """See `RunAll`."""
        if self.start is not None and len(schedules) >= self.worth:
            self.workers, self.start = [*self.start()], None
        pool = WorkerPool(self.workers, batch_most=self.batch_most, notes=self.notes)
        try:
            yield from pool.run_all(schedules, trace_lines=trace_lines, run=run)
        finally:
            self.workers = pool.workers


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
