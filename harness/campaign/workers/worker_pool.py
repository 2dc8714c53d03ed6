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

from sinkproof.campaign.workers.pool_worker import BatchWorker, PoolWorker, WorkerGone
from sinkproof.chaos.clock import now
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.current_step import StepStatus, report_step
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Schedule
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable
from sinkproof.execution.run_result import RunResult
from sinkproof.judging.observer import NeverQuiet
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.contract import ContractError
from sinkproof.subject.heartbeat import Report, heartbeat, no_report

BATCHES_MOST: Final = 2  # a worker has a second batch at hand, which begins when the first one is finished
BATCH_SECONDS: Final = 0.05  # of work in one message: sending it takes 0.2 ms
# Results are taken in order: when so many wait for an earlier one, the campaign waits for its worker.
AHEAD_MOST: Final = 1000
TEARDOWN_SECONDS: Final = 10.0  # for the runs that a worker still has, and its last `teardown`
RUNS_ALONE: Final = 3  # what was found beside other runs has to show again in one of so many runs alone
LEFT_TO_WORKERS: Final = 4  # to keep so many workers elsewhere busy, this process runs nothing itself


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNotes:
    """What the pools of one campaign say. `unconfirmed`: findings that show only beside runs of other processes, by
    oracles that `counts` approves of; `lost`: the others, and how workers have ended. `report` is called while the
    campaign waits for a worker; `say` takes what a user may change.
    """

    lost: MutableSequence[str] = field(default_factory=list)
    unconfirmed: MutableSequence[str] = field(default_factory=list)
    counts: Callable[[str], bool] = bool
    report: Report = no_report
    say: Report = no_report
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


Joining = Callable[[], Sequence[BatchWorker]]


def none_joins() -> Sequence[BatchWorker]:
    return ()


class WorkerPool:
    """The workers beside this process, which runs what no worker was given. `batch_most`: schedules in a message.
    `notes`: where a worker has ended, its schedules are run again here, and findings are confirmed by runs alone; None:
    its end is raised, and nothing is confirmed. `joining`: workers that have come since the last call.
    """

    def __init__(
        self,
        workers: Sequence[BatchWorker],
        *,
        batch_most: int = 1,
        notes: PoolNotes | None = None,
        joining: Joining = none_joins,
    ) -> None:
        self.workers, self.batch_most, self.notes, self.joining = list(workers), batch_most, notes, joining
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
            self._let_join()
            self._give(schedules, trace_lines=trace_lines)
            is_ahead = len(done) > AHEAD_MOST or self._leaves_all_to_workers()
            if self.again or (self.waiting and not is_ahead):
                own = (self.again or self.waiting).popleft()
                if all(worker.ready and not worker.is_busy for worker in self.workers):
                    self.alone.add(own)
                done[own] = self._run(schedules[own], run)
            self._take(done, wait=(is_ahead or not self.waiting) and not self.again and place not in done)
            while place in done:
                yield self._confirmed(place, done, run)
                place += 1

    def _let_join(self) -> None:
        if self.notes is None or not self.notes.unconfirmed:
            self.workers += self.joining()

    def _leaves_all_to_workers(self) -> bool:
        """After a first run, which says how long one takes. Near the end there may be nothing to give."""
        busy = sum(bool(worker.given) for worker in self.workers if worker.is_elsewhere)
        return self.runs > 0 and busy >= LEFT_TO_WORKERS

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
        weighs = any(map(self.notes.counts, found))
        (self.notes.unconfirmed if weighs else self.notes.lost).append(
            f"runs overlapped, and {', '.join(sorted(found))} found what {RUNS_ALONE} runs of the same schedule alone "
            f"did not show: {result.schedule}. It is rare, or runs disturb each other; `side_by_side = False` in the "
            "contract keeps them apart"
        )
        if weighs:
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
                waits, wait = wait and bool(worker.given), wait and not worker.given
                while taken := self._taken(worker, wait=waits):
                    done.update(taken)
                    waits = False

    def _taken(self, worker: BatchWorker, *, wait: bool) -> list[tuple[int, RunResult]]:
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
    def _until_it_is_gone(self, worker: BatchWorker) -> Iterator[None]:
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
        start: Callable[[], Sequence[BatchWorker]] = lambda: (),
        worth: int = 0,
        batch_most: int = 1,
        notes: PoolNotes | None = None,
        joining: Joining = none_joins,
    ) -> None:
        self.start: Callable[[], Sequence[BatchWorker]] | None = start  # None: they have been started
        self.worth, self.batch_most, self.notes, self.joining = worth, batch_most, notes, joining
        self.workers: list[BatchWorker] = []

    def run_all(
        self, schedules: Sequence[Schedule], *, trace_lines: bool, run: Callable[[Schedule], RunResult]
    ) -> Iterator[RunResult]:
        """See `RunAll`."""
        if self.start is not None and len(schedules) >= self.worth:
            self.workers, self.start = [*self.start()], None
        joining = self.joining if self.start is None else none_joins
        pool = WorkerPool(self.workers, batch_most=self.batch_most, notes=self.notes, joining=joining)
        try:
            yield from pool.run_all(schedules, trace_lines=trace_lines, run=run)
        finally:
            self.workers = pool.workers


def start_worker(
    server: ForkServer,
    stack: ExitStack,
    entry: str,
    *what: Any,
    seconds: float,
    ready: bool = True,
    tidies: bool = False,
) -> PoolWorker:
    """It lives as long as the stack. `tidies`: a contract's `teardown` removes what lies outside of its folder."""
    status = StepStatus()
    child = server.spawn(entry, *what, descriptors=[status.descriptor])
    ends = TEARDOWN_SECONDS if tidies else 0.0
    worker = PoolWorker(child, seconds, status=status, ready=ready, ends_seconds=ends)
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


def report_ready(inside: Inside, first: RunResult, *, expected: str = "") -> None:
    """See `BatchWorker`. Where a first run without faults ends in another way than it should, no run says anything."""
    if expected and ending_of(first) != expected:
        raise ReaderFailed("does not run it as this process does", evidence=f"{ending_of(first)}; here {expected}")
    inside.send(pickle.dumps(([], False, "")))


def ending_of(first: RunResult) -> str:
    """Of a run without faults."""
    oracles = ", ".join(sorted({anomaly.oracle for anomaly in first.anomalies})) or "no finding"
    how = "finished" if first.finished else f"not finished ({first.failure.strip()[-200:]})"
    return f"a run without faults: {how}, {first.rows_committed} rows, {oracles}"


@contextmanager
def reporting_errors(inside: Inside) -> Iterator[None]:
    """Errors of a worker are raised in the campaign's process."""
    try:
        yield
    except (ContractError, ServiceUnavailable) as error:
        inside.send(pickle.dumps((None, True, str(error))))
    except (ReaderFailed, NeverQuiet, ServiceFailed) as error:
        inside.send(pickle.dumps((None, False, str(error))))
