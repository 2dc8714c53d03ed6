"""One worker process as the campaign sees it: batches of schedules go out, their results come back in order."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.child import ChildProcess
from sinkproof.chaos.processes.current_step import StepStatus
from sinkproof.chaos.processes.spawn import ForkServerError, NoReply
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.contract import ContractError


class WorkerGone(ReaderFailed):
    """A worker process has ended, or hangs."""


class BatchWorker(ABC):
    """`ready`: it may be given schedules; if not, it reports when it has imported what it needs, which takes long."""

    is_elsewhere = False  # on a core that may be another machine's

    def __init__(self, *, ready: bool = True) -> None:
        self.ready = ready
        self.given: deque[list[int]] = deque()
        self.unwanted = 0  # batches given before; their results are left out

    @property
    def is_busy(self) -> bool:
        return bool(self.given or self.unwanted)

    def give(self, batch: Sequence[tuple[int, Schedule]], *, trace_lines: bool) -> None:
        self.given.append([place for place, _ in batch])
        self.send(pickle.dumps(([schedule for _, schedule in batch], trace_lines)))

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
        message = self.receive(wait=wait)
        if message is None:
            return None
        results: list[RunResult] | None
        results, bad_input, said = pickle.loads(message)
        if results is None:
            raise ContractError(said) if bad_input else ReaderFailed("has failed", evidence=said)
        return results

    @abstractmethod
    def send(self, message: bytes) -> None:
        """Raises WorkerGone: the death of a worker proves nothing about the sink."""

    @abstractmethod
    def receive(self, *, wait: bool) -> bytes | None:
        """Its next message; None: none has come. Raises WorkerGone, as above."""

    @abstractmethod
    def close(self) -> None:
        """Releases what belongs to it."""


class PoolWorker(BatchWorker):
    """A child process of this one. `seconds`: of silence, after which it counts as hung. `ends_seconds`: that it has to
    end what it is doing, and to tidy up.
    """

    def __init__(
        self, child: ChildProcess, seconds: float, *, status: StepStatus, ready: bool = True, ends_seconds: float = 0.0
    ) -> None:
        super().__init__(ready=ready)
        self.child, self.seconds, self.status, self.ends_seconds = child, seconds, status, ends_seconds

    def send(self, message: bytes) -> None:
        with self._explained():
            self.child.send(message, Deadline(self.seconds))

    def receive(self, *, wait: bool) -> bytes | None:
        with self._explained():
            return self.child.receive(Deadline(self.seconds)) if wait else self.child.take()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except NoReply as silence:
            words = self.child.output.tail().strip() or "none"
            said = f"{silence.silence.value} while {self.status}; its last words: {words}"
            raise WorkerGone("is out of reach: a worker process is gone", evidence=said) from silence

    def close(self) -> None:
        self.child.hang_up()
        with suppress(ForkServerError):
            self.child.join(Deadline(self.ends_seconds))
        self.child.close()
        self.status.close()
