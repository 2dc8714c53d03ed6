"""A driver that dies at a point or a system call, or gets an error there, where the target cannot be copied.

What `setup` has made lies outside of the folder. So each death is a real one, of the driver, its JVM and its workers,
and the simulated query goes on from what they have left. The calls are those that change the folder, and those that
send something to a server which the driver has not started itself, by whichever client. A request that lands late is
all that is left of its driver: the query that goes on may finish its batch before it takes effect.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.faults.land_late_write import LAND
from sinkproof.chaos.faults.refused_statement import REFUSED_STATEMENT
from sinkproof.chaos.points import is_system_call
from sinkproof.chaos.processes.spawn import ForkServer, ForkServerError, NoReply
from sinkproof.chaos.schedule import STANDARD, Fault
from sinkproof.chaos.system_calls.acts import Act
from sinkproof.chaos.system_calls.supervisor import NotifiedCall, is_statement
from sinkproof.foreach_batch.certifying_query import ERROR, UNANSWERED
from sinkproof.foreach_batch.simulated_batches import CrashState, Trail, put_back, read
from sinkproof.foreach_batch.watched_query import ENTRY, CallsPassed, CallToTarget, NotRun, Order, WatchedDriver
from sinkproof.judging.oracle import Observation
from sinkproof.reports.document import SourceLine
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import Scratch, freeze_folder

ACTS: Final = {ERROR: Act.FAIL, UNANSWERED: Act.LOSE_REPLY, REFUSED_STATEMENT.word: Act.REFUSE}
ENDS_IT: Final = Act.KILL, Act.HOLD
LANDS_SECONDS: Final = 2.0  # until the request is answered


class CallsToTarget(CallsPassed):
    """Those of the second batch."""

    def begin(self, state: CrashState) -> None:
        super().begin(state)
        self.calls: list[CallToTarget] = []
        self.is_statement = False  # the call that is about to be carried out

    def carry_out(self, call: NotifiedCall) -> None:
        self.is_statement = is_statement(call)
        super().carry_out(call)

    def examine(self, death: Fault) -> None:
        self.calls.append(CallToTarget(death, self.line, self.last, self.of_spark, self.is_statement))


class StruckDriver(WatchedDriver):
    """Runs from what is there. Raises NotWatched, NotRun."""

    record: CallsToTarget

    def __init__(self, server: ForkServer, contract: Contract, scratch: Scratch, *, folder: Path, entry: str) -> None:
        self.struck: Act | None = None  # in this run
        self.struck_line: SourceLine | None = None  # of the function, that has made the call
        self.is_held = False  # at a request, until it lands
        self._lands = Lock()
        self.dies_at: tuple[str, int] | None = None  # a point that is no call, and its occurrence
        record = CallsToTarget()
        super().__init__(server, contract, scratch, folder=folder, record=record, to_servers=True, entry=entry)
        self.child.end_waits_at(self.watch.struck)

    def calls(self, job: str) -> list[CallToTarget]:
        """Of a run without faults."""
        self.run(Order(CrashState(target={}), job, puts_back=False))
        return self.record.calls

    def strike(self, state: CrashState, fault: Fault, act: Act, *, job: str) -> Observation | None:
        """How the run ended; None: the driver died, or waits for `close`. `struck` tells whether the call was met."""
        self.struck, self.struck_line = None, None
        self.watch.take_points()
        if is_system_call(fault.point):
            self.watch.arm(fault.point, fault.occurrence - state.passed[fault.point], act)
        else:
            self.dies_at = fault.point, fault.occurrence
        try:
            return self.run(Order(state, job, puts_back=False, may_fail=True))
        except NotRun:  # its death may be seen before the strike, which comes first
            self.struck = self.struck or self.watch.take_strike()
            if not self._is_dead():
                raise
            return None
        finally:
            self.watch.disarm()
            self.dies_at = None

    def passed(self, point: str) -> None:
        if self.dies_at == (point, self.record.passed[point]):
            self.struck = Act.KILL
            raise NotRun("it waits there to be killed")

    def _is_dead(self) -> bool:
        return self.struck in ENDS_IT

    def react(self) -> None:
        self.struck, self.struck_line = self.watch.take_strike(), self.record.line
        self.is_held = self.struck is Act.HOLD
        if self.is_held:
            raise NotRun("its request waits to be sent")
        if not self._is_dead():  # else what the JVM and the workers do next waits for their death
            self.watch.go_on()

    def land(self) -> None:
        """The held request takes effect, and nothing after it."""
        with self._lands:
            if not self.is_held:
                return
            self.is_held = False
            self.watch.go_on(then_die=True)
            with suppress(NoReply):
                self.child.receive(Deadline(LANDS_SECONDS))
            self.close()


class StruckDrivers:
    """A driver after the other: each lives until it is killed. Raises NotWatched, NotRun."""

    kills_at_points = True

    def __init__(
        self, server: ForkServer, contract: Contract, scratch: Scratch, *, folder: Path, entry: str = ENTRY
    ) -> None:
        self.server, self.contract, self.scratch, self.folder, self.entry = server, contract, scratch, folder, entry
        self._driver: StruckDriver | None = None
        self._held: StruckDriver | None = None  # its request lands late

    @property
    def driver(self) -> StruckDriver:
        if self._driver is None:
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            self._driver = StruckDriver(self.server, self.contract, self.scratch, folder=folder, entry=self.entry)
        return self._driver

    def calls(self, *, job: str = STANDARD) -> list[CallToTarget]:
        """Of the second batch, in a run without faults."""
        put_back(self.contract, self.scratch, {})
        return self.driver.calls(job)

    def left_at(self, state: CrashState, fault: Fault, *, job: str) -> tuple[CrashState | None, Trail]:
        """As FaultsInside.left_at. What lies outside of the folder is as the death has left it."""
        self._begin(state)
        record, is_held = self.driver.record, fault.kind == LAND.word
        if self.driver.strike(state, fault, Act.HOLD if is_held else Act.KILL, job=job) is not None:
            return None, record.trail
        if is_held:
            self._held, self._driver = self._driver, None
        self.close()
        if is_system_call(fault.point):
            record.passed[fault.point] += 1
            record.trail.append((len(state.faults), fault.point, record.query.batch))
        return record.left_by(fault, freeze_folder(self.scratch.path)), record.trail

    def failed_at(self, state: CrashState, fault: Fault, *, job: str) -> tuple[Observation, CrashState, Trail]:
        """As FaultsInside.failed_at."""
        self._begin(state)
        driver = self.driver
        ending = driver.strike(state, fault, ACTS[fault.kind], job=job)
        if ending is None:
            raise NotRun("its driver died of an error of one call")
        ending.committed = read(self.contract, self.scratch, ending)
        faults = (*state.faults, fault) if driver.struck is not None else state.faults
        return ending, CrashState(target={}, faults=faults, line=driver.struck_line), driver.record.trail

    @property
    def held(self) -> StruckDriver | None:
        return self._held if self._held is not None and self._held.is_held else None

    def _begin(self, state: CrashState) -> None:
        self.close_held()
        if not state.faults:
            put_back(self.contract, self.scratch, {})

    def close(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def close_held(self) -> None:
        if self.held is not None:
            self.held.land()


@contextmanager
def struck_drivers(contract: Contract, scratch: Scratch) -> Iterator[StruckDrivers]:
    """Raises NotWatched, NotRun."""
    with ForkServer() as server, tempfile.TemporaryDirectory(dir=scratch.path.parent) as folder:
        drivers = StruckDrivers(server, contract, scratch, folder=Path(folder))
        try:
            yield drivers
        except ForkServerError as error:
            raise NotRun(str(error)) from error
        finally:
            drivers.close_held()
            drivers.close()
