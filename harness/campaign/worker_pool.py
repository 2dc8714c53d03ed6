"""Other laboratories at work beside the first one, so that no core has nothing to do.

Each lane is a process with a scratch folder of its own, and a broker of its own where there is one, so that nobody's
faults are met by anybody else. Trials are told in the order of the schedules, whoever has run them: what is found, what
is found first and what is counted does not depend on who was faster, nor on how many there are.
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
from sinkproof.execution.schedule_runner import RunResult
from sinkproof.judging.observer import NeverQuiet
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.contract import ContractError

GIVEN_MOST: Final = 2  # batches that a lane knows of: the next one begins when it has ended one
BATCH_SECONDS: Final = 0.05  # of work in one message: sending it takes 0.2 ms
AHEAD_MOST: Final = 1000  # trials that wait for one before them: by then it is asked whether that will ever come


class Trials(Protocol):
    """Of each schedule one, in their order. `run` makes one here; `traced`: with its lines, wherever it is made."""

    def __call__(
        self, schedules: Sequence[Schedule], *, traced: bool, run: Callable[[Schedule], RunResult]
    ) -> Iterable[RunResult]: ...


def one_by_one(
    schedules: Sequence[Schedule], *, traced: bool, run: Callable[[Schedule], RunResult]
) -> Iterable[RunResult]:
    return map(run, schedules)


class PoolWorker:
    """One of them, as the first laboratory sees it. `seconds`: after which silence it counts as hung. `ready`: it may
    be given something; if not, it says so when it has imported what it needs, which may take long.
    """

    def __init__(self, child: ChildProcess, seconds: float, *, status: StepStatus, ready: bool = True) -> None:
        self.child, self.seconds, self.status, self.ready = child, seconds, status, ready
        self.given: deque[list[int]] = deque()
        self.remark = ""

    def give(self, batch: Sequence[tuple[int, Schedule]], *, traced: bool) -> None:
        self.given.append([place for place, _ in batch])
        with self._told():
            self.child.send(pickle.dumps(([schedule for _, schedule in batch], traced)), Deadline(self.seconds))

    def take(self, *, wait: bool) -> list[tuple[int, RunResult]]:
        """What has come of the first batch that it was given; nothing: nothing yet."""
        if not self.given:
            return []
        trials = self._answer(wait=wait)
        return [] if trials is None else list(zip(self.given.popleft(), trials, strict=True))

    def is_ready(self) -> bool:
        self.ready = self.ready or self._answer(wait=False) is not None
        return self.ready

    def _answer(self, *, wait: bool) -> list[RunResult] | None:
        with self._told():
            message = self.child.receive(Deadline(self.seconds)) if wait else self.child.take()
        if message is None:
            return None
        trials: list[RunResult] | None
        trials, bad_input, said = pickle.loads(message)
        if trials is None:
            raise ContractError(said) if bad_input else ReaderFailed("has failed", evidence=said)
        self.remark = said
        return trials

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Nothing is concluded about the sink from a lane that has died."""
        try:
            yield
        except NoReply as silence:
            words = self.child.output.tail().strip() or "none"
            said = f"{silence.silence.value} while {self.status}; its last words: {words}"
            raise ReaderFailed("is out of reach: a second laboratory is gone", evidence=said) from silence

    def close(self) -> None:
        self.child.close()
        self.status.close()


class WorkerPool:
    """Beside the first laboratory, which runs what nobody else has been given. `batch_most`: schedules in a message."""

    def __init__(self, workers: Sequence[PoolWorker], *, batch_most: int = 1) -> None:
        self.workers, self.batch_most = workers, batch_most
        self.seconds, self.runs = 0.0, 0  # of the first laboratory's own

    def trials(
        self, schedules: Sequence[Schedule], *, traced: bool, run: Callable[[Schedule], RunResult]
    ) -> Iterator[RunResult]:
        """See `Trials`. Before the next call, all of them are to be taken."""
        waiting = deque(enumerate(schedules))
        done: dict[int, RunResult] = {}
        place = 0
        while waiting or done or any(worker.given for worker in self.workers):
            self._give(waiting, traced=traced)
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
        run_result = run(schedule)
        self.seconds, self.runs = self.seconds + now() - began, self.runs + 1
        return run_result

    def _give(self, waiting: deque[tuple[int, Schedule]], *, traced: bool) -> None:
        each = self.seconds / self.runs if self.runs else BATCH_SECONDS
        size = min(self.batch_most, max(1, int(BATCH_SECONDS / max(each, 1e-6))))
        for worker in self.workers:
            while waiting and len(worker.given) < GIVEN_MOST and worker.is_ready():
                worker.give([waiting.popleft() for _ in range(min(size, len(waiting)))], traced=traced)

    def _take(self, done: dict[int, RunResult], *, wait: bool) -> None:
        """`wait`: for the batch whose turn it is to be told, whoever has it."""
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


def serve(
    inside: Inside, run: Callable[[Schedule, bool], RunResult], *, remark: Callable[[], str] = lambda: ""
) -> None:
    """A lane's life: a batch of schedules, their trials, until nobody asks any more."""
    while (request := inside.receive()) is not None:
        schedules, traced = pickle.loads(request)
        trials = []
        for schedule in schedules:
            report_step(inside.descriptors[0], str(schedule))
            trials.append(run(schedule, traced))
        inside.send(pickle.dumps((trials, False, remark())))


def say_ready(inside: Inside) -> None:
    """See `Lane`."""
    inside.send(pickle.dumps(([], False, "")))


@contextmanager
def telling(inside: Inside) -> Iterator[None]:
    """What keeps a lane from a result is told where it counts."""
    try:
        yield
    except (ContractError, ServiceUnavailable) as error:
        inside.send(pickle.dumps((None, True, str(error))))
    except (ReaderFailed, NeverQuiet, ServiceFailed) as error:
        inside.send(pickle.dumps((None, False, str(error))))
