"""Worker processes of a campaign on executors of Spark: one in each slot, from the moment the slot is there.

What runs in them, and when runs may overlap, is as on one machine (process_workers.py, simulated_workers.py). A finding
of an executor counts when a run in the campaign's own process has shown it, too: there may be another machine, with
other limits, behind an executor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from sinkproof.campaign.fan_out.hub_connection import FanOut, HubConnection
from sinkproof.campaign.workers import process_workers, simulated_workers
from sinkproof.campaign.workers.pool_worker import BatchWorker, WorkerGone
from sinkproof.campaign.workers.worker_pool import LateWorkers, PoolNotes, ending_of
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import ProcessRunner
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import found_anywhere

START_SECONDS: Final = 60.0  # of a worker process: imports, and a first run
ENDINGS_MOST: Final = 3  # of worker processes in one slot, after which it is left alone
KEPT: Final = "kept on this machine: "
Life = tuple[str, tuple[Any, ...]]  # the entry of a worker process, and its arguments
LifeOf = Callable[[str], Life]  # given its name


class SparkWorker(BatchWorker):
    """`seconds`: of silence, after which it counts as hung."""

    is_elsewhere = True

    def __init__(self, hub: HubConnection, *, slot: int, key: int, seconds: float) -> None:
        super().__init__(ready=False)
        self.hub, self.slot, self.key, self.seconds = hub, slot, key, seconds
        self.silence = Deadline(seconds + START_SECONDS)

    def send(self, message: bytes) -> None:
        if len(self.given) == 1:  # it has been idle
            self.silence = Deadline(self.seconds)
        self.hub.say("to", self.key, message)

    def receive(self, *, wait: bool) -> bytes | None:
        """With `wait`, until a message of any worker has come: while one is waited for, others may need schedules."""
        box = self.hub.boxes[self.key]
        if not box.messages and not box.ended:
            self.hub.pump(self.silence.left if wait else 0.0)
        if box.messages:
            self.silence = Deadline(self.seconds)
            return box.messages.popleft()
        if box.ended:
            raise WorkerGone("is out of reach: a worker process is gone", evidence=box.ended)
        if self.silence.over:
            self.close()
            said = f"no message for {self.seconds:g} s on {self.hub.hosts[self.slot]}; it was killed"
            raise WorkerGone("is out of reach: a worker process hangs", evidence=said)
        return None

    def _answer(self, *, wait: bool) -> list[RunResult] | None:
        """What fails on another host is run again here. If the fault is the subject's, it shows here, too."""
        try:
            return super()._answer(wait=wait)
        except WorkerGone:
            raise
        except (ContractError, ReaderFailed) as error:
            self.close()
            said = f"on {self.hub.hosts[self.slot]}: {error}"
            raise WorkerGone("is out of reach: a worker process has failed", evidence=said) from error

    def close(self) -> None:
        self.hub.say("end", self.key)


class SlotWorkers:
    """One worker in each slot of the cluster. `why_not`: is asked once, when there is something to run: why all of it
    is kept on this machine; empty: it is not.
    """

    def __init__(
        self,
        fan_out: FanOut,
        life_of: LifeOf,
        *,
        name: str,
        seconds: float,
        why_not: Callable[[], str],
        notes: PoolNotes,
    ) -> None:
        self.fan_out, self.life_of, self.name, self.seconds = fan_out, life_of, name, seconds
        self.why_not, self.notes = why_not, notes
        self.hub: HubConnection | None = None
        self.endings = Counter[int]()  # of worker processes in each slot

    def start(self) -> Sequence[BatchWorker]:
        if why := self.why_not():
            self.notes.lost.append(f"{KEPT}{why}")
            return ()
        self.hub = HubConnection(self.fan_out)
        if self.hub.gone:
            self.notes.lost.append(f"{KEPT}{self.hub.gone}")
        return self.joining()

    def joining(self) -> Sequence[BatchWorker]:
        if self.hub is None:
            return ()
        self.hub.pump(0.0)
        joined = [self.hub.joined.popleft() for _ in range(len(self.hub.joined))]
        return [self._begin(self.hub, slot) for slot, _ in joined if self._has_room(slot)]

    def _has_room(self, slot: int) -> bool:
        self.endings[slot] += 1
        return self.endings[slot] <= ENDINGS_MOST

    def _begin(self, hub: HubConnection, slot: int) -> SparkWorker:
        entry, arguments = self.life_of(f"{self.name}-{slot + 2}")
        key = hub.spawn(slot, entry, *arguments)
        return SparkWorker(hub, slot=slot, key=key, seconds=self.seconds)

    def close(self) -> None:
        if self.hub is not None:
            self.hub.close()


@contextmanager
def _pool(workers: SlotWorkers, *, worth: int, batch_most: int) -> Iterator[LateWorkers]:
    try:
        yield LateWorkers(
            start=workers.start, joining=workers.joining, worth=worth, batch_most=batch_most, notes=workers.notes
        )
    finally:
        workers.close()


@contextmanager
def simulated_on_executors(
    runner: ScheduleRunner, fan_out: FanOut, *, hang_seconds: float, notes: PoolNotes
) -> Iterator[LateWorkers]:
    """See `simulated_workers.workers_beside`."""
    contract, scratch = runner.contract, runner.scratch

    def why_not() -> str:
        if scratch.services.used:
            return f"the simulated shell, because it uses {', '.join(sorted(scratch.services.used))}"
        return "" if contract.copies else "the simulated shell, because the target cannot be copied (freeze, thaw)"

    ending = cache(lambda: ending_of(runner.run(Schedule())))

    def life_of(name: str) -> Life:
        order = simulated_workers.BesideSimulation(
            locator=found_anywhere(contract.locator), name=name, expected=ending()
        )
        return simulated_workers.ENTRY, (order,)

    seconds = simulated_workers.HANGS_MOST * hang_seconds
    workers = SlotWorkers(fan_out, life_of, name=scratch.name, seconds=seconds, why_not=why_not, notes=notes)
    with _pool(workers, worth=1, batch_most=simulated_workers.BATCH_MOST) as pool:
        yield pool


@contextmanager
def processes_on_executors(runner: ProcessRunner, fan_out: FanOut, *, notes: PoolNotes) -> Iterator[LateWorkers]:
    """See `process_workers.workers_beside`. A sink with a service is kept here: an executor has none."""
    contract, scratch = runner.contract, runner.scratch

    def why_not() -> str:
        if scratch.services.used:
            return f"runs in processes, because it uses {', '.join(sorted(scratch.services.used))}"
        if contract.side_by_side is False:
            return "runs in processes, because the contract has `side_by_side = False`"
        if not process_workers.is_apart(runner):
            return "runs in processes, because nothing shows that runs which overlap cannot disturb each other"
        return ""

    ending = cache(lambda: ending_of(runner.run(Schedule())))

    def life_of(name: str) -> Life:
        order = process_workers.Beside(
            locator=found_anywhere(contract.locator),
            name=name,
            hang_seconds=runner.hang_seconds,
            services=scratch.services.options,
            slowest_seconds=runner.slowest_seconds,
            is_late=True,
            expected=ending(),
        )
        return process_workers.ENTRY, (order,)

    seconds = process_workers.CALLS_MOST * runner.hang_seconds
    workers = SlotWorkers(fan_out, life_of, name=scratch.name, seconds=seconds, why_not=why_not, notes=notes)
    with _pool(workers, worth=process_workers.WORTH, batch_most=1) as pool:
        yield pool
