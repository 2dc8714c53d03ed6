"""What a death inside one call of a function leaves: inside Spark's writer, native code, a Python worker, a program.

The query runs in a driver of its own, of which each system call that changes the folder is watched, as are those of its
JVM, its workers and whatever else it starts. Right before each of them, while the second batch runs, the folder is
copied: a death of all of them there leaves just that. The simulated query goes on from the copies.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.points import is_system_call
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.spawn import ChildProcess, ForkServer, ForkServerError, NoReply, Silence
from sinkproof.chaos.schedule import COORDINATOR, STANDARD, Fault
from sinkproof.chaos.system_calls.place_names import SOCKET
from sinkproof.chaos.system_calls.seccomp_filter import put_on
from sinkproof.chaos.system_calls.supervisor import NotifiedCall, SystemCallWatch
from sinkproof.chaos.system_calls.watched_program import NotWatched, watch_of
from sinkproof.foreach_batch.batch_state_machine import BatchEvent, BatchPhase, MicroBatches
from sinkproof.foreach_batch.certifying_query import KILL, LOSE
from sinkproof.foreach_batch.simulated_batches import CrashState, SimulatedQuery, Trail
from sinkproof.foreach_batch.traced_workers import MODULE, announce, lines_noted, workers_find
from sinkproof.judging.oracle import Observation
from sinkproof.reference_engine.shells.spark.spark_session import start_session, stop_session
from sinkproof.reports.document import SourceLine
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import FrozenFolder, Scratch, freeze_folder
from sinkproof.subject.service_options import ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENTRY: Final = "sinkproof.foreach_batch.watched_query:serve"
JVM: Final = "java"
BATCH: Final = 1  # the second one: the folder is not empty, and another batch follows
WORKER_LINES: Final = "lines of workers"
SILENCE_SECONDS: Final = 120.0
END_SECONDS: Final = 1.0
LAST_WORDS: Final = 500


class NotRun(Exception):
    """The watched driver came to no result. The message says why."""


class CallToTarget(NamedTuple):
    """`death`: before it. `line`: of the function that made it. `after`: the point before it, in Python."""

    death: Fault
    line: SourceLine | None
    after: str
    of_spark: bool  # its JVM makes it
    is_statement: bool = False  # that a database can refuse

    @property
    def name(self) -> tuple[str, int, str]:
        """Calls of one name are alike."""
        return (*self.place, self.death.point)

    @property
    def place(self) -> tuple[str, int]:
        return (self.line.file, self.line.number) if self.line else ("", 0)


class CallsPassed:
    """The record of the watch: where a run is, and which calls it has made."""

    def __init__(self) -> None:
        self.begin(CrashState(target={}))

    def begin(self, state: CrashState) -> None:
        """`state`: from which the run starts."""
        self.state, self.is_on = state, False
        self.passed = Counter(state.passed)
        self.query = state.query
        self.line: SourceLine | None = None
        self.last = ""  # the point that was passed before
        self.of_spark = False  # whether the JVM makes the call
        self.trail: Trail = []

    def pass_point(self, point: str, query: MicroBatches, line: SourceLine | None, *, is_inside: bool) -> None:
        """The driver waits here, so that its next calls come after this point. `is_inside`: they are examined."""
        self.query, self.line, self.is_on = query, line, is_inside
        self._note(point)

    def carry_out(self, call: NotifiedCall) -> None:
        if not self.counts(call):
            return
        self._note(call.change.point)
        if self.is_on:
            point = call.change.point
            self.of_spark = call.tracee.program == JVM
            self.examine(Fault(COORDINATOR, point, self.passed[point], KILL))

    def fail(self, call: NotifiedCall) -> None:
        """It leaves nothing."""

    def _note(self, point: str) -> None:
        self.passed[point] += 1
        self.trail.append((len(self.state.faults), point, self.query.batch))
        self.last = point if not is_system_call(point) else self.last

    def counts(self, call: NotifiedCall) -> bool:
        return True

    def examine(self, death: Fault) -> None:
        """`death`: before this call, which is about to be carried out."""

    def left_by(self, death: Fault, target: FrozenFolder) -> CrashState:
        return CrashState(
            target=target,
            query=self.query.after(BatchEvent.LOSE_COMMIT if death.kind == LOSE else BatchEvent.CRASH),
            faults=(*self.state.faults, death),
            passed=Counter(self.passed),
            line=self.line,
        )

    def map(self, path: str) -> None:
        """What is written there is found by the next copy."""


class FolderCopies(CallsPassed):
    """Each state that a death between two calls of the second batch leaves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wanted: Container[Fault] | None = None  # before these deaths the folder is copied; None: before all
        super().__init__()

    def begin(self, state: CrashState) -> None:
        super().begin(state)
        self.left: list[CrashState] = []
        self.calls: list[CallToTarget] = []

    def counts(self, call: NotifiedCall) -> bool:
        return call.change.about != SOCKET

    def examine(self, death: Fault) -> None:
        self.calls.append(CallToTarget(death, self.line, self.last, self.of_spark))
        if self.wanted is None or death in self.wanted:
            self.left.append(self.left_by(death, freeze_folder(self.folder)))


class Orders(NamedTuple):
    """What the driver is started with. `place`: of the function; `path`: of the scratch folder."""

    place: str
    path: str
    folder: str
    options: Mapping[str, Any]


class Order(NamedTuple):
    """One run. `puts_back`: everything is as before a first run, or the folder as in `state`, before it begins, and
    what is committed is read in the end; else both are left to the parent. `may_fail`: as for SimulatedQuery.go_on.
    `job`: names the batches.
    """

    state: CrashState
    job: str = STANDARD
    puts_back: bool = True
    may_fail: bool = False


class WatchedDriver:
    """The parent's side of a driver. Raises NotWatched, NotRun."""

    def __init__(
        self,
        server: ForkServer,
        contract: Contract,
        scratch: Scratch,
        *,
        folder: Path,
        record: CallsPassed,
        to_servers: bool = False,
        entry: str = ENTRY,
    ) -> None:
        """`folder`: for what Spark writes. `to_servers`: as for PlaceNames. `entry`: of the driver."""
        self.record, self.scratch, self.folder, self.to_servers = record, scratch, folder, to_servers
        orders = Orders(contract.given.place, str(scratch.path), str(folder), asdict(scratch.services.options))
        self.child: ChildProcess = server.spawn(entry, orders)
        self.watch = self._watch(scratch.path)
        self._receive()

    def _watch(self, path: Path) -> SystemCallWatch:
        """A driver that has died says nothing about the kernel."""
        try:
            return watch_of(self.child, path, record=self.record, to_servers=self.to_servers)
        except NotWatched as why:
            has_died = self.child.join(Deadline(END_SECONDS)) is not None
            self.child.kill()
            self.child.close()
            if has_died:
                raise NotRun(f"its driver ended: {self._last_words}") from why
            raise

    @property
    def _last_words(self) -> str:
        return self.child.output.tail().strip()[-LAST_WORDS:]

    def run(self, order: Order) -> Observation:
        """Raises NotRun if the function fails without any fault: nothing that follows would show its calls."""
        record = self.record
        record.begin(order.state)
        self._send(order)
        while not isinstance(message := self._receive(), Observation):
            point, query, line, is_inside = message
            record.pass_point(point, query, line, is_inside=is_inside)
            self.passed(point)
            self._send(None)
        record.is_on = False
        if message.failure and not (order.state.faults or order.may_fail):
            raise NotRun(f"without any fault, {message.failure}")
        return message

    def lines_of_workers(self) -> set[str]:
        """Of the function's modules, that Spark's Python workers have executed so far."""
        return lines_noted(self.folder / WORKER_LINES)

    def _send(self, message: Any) -> None:
        self.child.send(pickle.dumps(message), Deadline(SILENCE_SECONDS))

    def _receive(self) -> Any:
        while True:
            try:
                return pickle.loads(self.child.receive(Deadline(SILENCE_SECONDS)))
            except NoReply as silence:
                if silence.silence is not Silence.STRUCK:
                    raise NotRun(f"its driver does not answer: {self._last_words}") from silence
            self.react()

    def react(self) -> None:
        """To a fault that was injected at the armed call."""

    def passed(self, point: str) -> None:
        """The driver waits there."""

    def close(self) -> None:
        self.child.kill()
        self.watch.close()
        self.child.close()


class WatchedQuery(WatchedDriver):
    """Shows what deaths inside calls leave of the folder; none of them happens."""

    kills_at_points, held = False, None
    record: FolderCopies

    def __init__(
        self, server: ForkServer, contract: Contract, scratch: Scratch, *, folder: Path, entry: str = ENTRY
    ) -> None:
        super().__init__(server, contract, scratch, folder=folder, record=FolderCopies(scratch.path), entry=entry)

    def states_inside(
        self, state: CrashState, *, job: str = STANDARD, wanted: Container[Fault] | None = None
    ) -> list[CrashState]:
        """Those that deaths inside calls leave while the second batch runs, in a run from `state`. `wanted`: only these
        deaths.
        """
        self.record.wanted = wanted
        self.run(Order(state, job))
        return self.record.left

    def calls(self, *, job: str = STANDARD) -> list[CallToTarget]:
        """Of the second batch, in a run without faults."""
        self.states_inside(CrashState(target={}), job=job, wanted=())
        return self.record.calls

    def failed_at(self, state: CrashState, fault: Fault, *, job: str) -> tuple[Observation, CrashState, Trail]:
        raise NotRun(f"{fault}: what a file is sent fails where Python sends it")

    def left_at(self, state: CrashState, fault: Fault, *, job: str) -> tuple[CrashState | None, Trail]:
        """As FaultsInside.left_at."""
        left = next(iter(self.states_inside(state, job=job, wanted=(fault,))), None)
        passed, times = self.record.trail, state.passed[fault.point]
        for number, (_, point, _) in enumerate(passed, 1):
            times += point == fault.point
            if (point, times) == (fault.point, fault.occurrence):
                return left, passed[:number]
        return left, passed


@contextmanager
def watched_query(contract: Contract, scratch: Scratch) -> Iterator[WatchedQuery]:
    """Raises NotWatched, NotRun."""
    with ForkServer() as server, tempfile.TemporaryDirectory(dir=scratch.path.parent) as folder:
        try:
            query = WatchedQuery(server, contract, scratch, folder=Path(folder))
        except ForkServerError as error:
            raise NotRun(str(error)) from error
        try:
            yield query
        finally:
            query.close()


def serve(inside: Inside, orders: Orders) -> None:
    """The entry of the driver."""
    put_on(inside.channel)
    os.chdir(orders.path)
    contract = load(orders.place)
    folder = Path(orders.folder)
    os.environ |= announce(contract.given.files, folder / WORKER_LINES)
    settings = {"spark.python.daemon.module": MODULE, **workers_find(contract.given.files)}
    session = start_session(folder=folder, here=Path(orders.path), settings=settings)
    serve_with(session, contract, inside, orders=orders)
    stop_session(session)


def serve_with(session: SparkSession, contract: Contract, inside: Inside, *, orders: Orders) -> None:
    """It waits for an answer at each point, so that each of its calls is known to come between two of them."""
    services = ServicesInUse(options=ServiceOptions(**orders.options))
    scratch = Scratch(name=f"{contract.name}-simulated", path=Path(orders.path), services=services)
    query = SimulatedQuery(contract, scratch, session)

    one_at_a_time = threading.Lock()

    def visit(point: str) -> None:
        """Threads of the function pass points, too."""
        with one_at_a_time:
            state = query.query
            is_inside = state == MicroBatches(BATCH, BatchPhase.PLANNED)
            inside.send(pickle.dumps((point, state, query.line, is_inside)))
            inside.receive()

    inside.send(pickle.dumps(None))
    while (message := inside.receive()) is not None:
        order: Order = pickle.loads(message)
        with query.given(order.job):
            if order.puts_back:
                ending = query.run(order.state, visit=visit)
            else:
                ending = query.go_on(order.state, visit=visit, may_fail=order.may_fail)
        inside.send(pickle.dumps(ending))
