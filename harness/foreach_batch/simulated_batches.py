"""A foreachBatch function crashed at every line and every change outside, and again in every recovery from that.

The query is the state machine of batch_state_machine.py; DataFrames and the function are real. A crash is a copy: at
each point the scratch folder is frozen, the run continues, and later another run starts from the copy. Copies that are
equal but for random names are one state, so each is run once. After a crash the modules of the function are imported
anew, as another driver does; after an error the same driver starts the query again, and they remember what they did. A
query that fails there once more is started by another driver.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import EIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sinkproof.chaos.error_text import describe_error
from sinkproof.chaos.lines import LineTracer, line_on_stack
from sinkproof.chaos.points import is_line
from sinkproof.chaos.processes.seen_machine import be_named
from sinkproof.chaos.schedule import COORDINATOR, STANDARD, Fault
from sinkproof.foreach_batch.batch_state_machine import BatchEvent, BatchPhase, MicroBatches
from sinkproof.foreach_batch.certifying_query import (
    AFTER_COMMIT,
    BEFORE_BATCH,
    BEFORE_COMMIT,
    FAIL,
    INJECTED,
    LEDGER,
    LOSE,
    frame_of_batch,
    named_query,
)
from sinkproof.foreach_batch.failing_jobs import FAILING, failing_if_told, fails_jobs, let_jobs_fail
from sinkproof.foreach_batch.outside_points import outside_points
from sinkproof.foreach_batch.retried_tasks import clock_of_workers
from sinkproof.foreach_batch.seen_by_spark import OTHER_HOST, cluster_of_cores, day_of_spark
from sinkproof.judging.altered_rows import shows_more
from sinkproof.judging.observer import Observer
from sinkproof.judging.oracle import Observation, named
from sinkproof.reports.document import SourceLine
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.loading import function_anew
from sinkproof.subject.scratch import FrozenFolder, Scratch, freeze_folder, thaw_folder
from sinkproof.subject.source_files import source_line
from sinkproof.workload.ledger import Identity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RANDOM_NAME: Final = re.compile(  # a UUID, or the time of a job of Spark with its number
    rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\d{14,}_\d{4,}_m_\d{6}(?:_\d+)?"
)
PASSES_MOST: Final = 3_000  # further passes of one line are no points: each takes longer than what most lines do
Visit = Callable[[str], None]
Trail = list[tuple[int, str, int]]  # (runs before, point, batch) of every point passed


def ignore_point(point: str) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashState:
    """The state after a crash, and the faults that led to it."""

    target: FrozenFolder
    query: MicroBatches = field(default_factory=MicroBatches)
    faults: tuple[Fault, ...] = ()
    passed: Counter[str] = field(default_factory=Counter)  # points, in all runs up to the crash
    line: SourceLine | None = None  # in which the last fault struck; of the function the last one, if behind that

    @property
    def key(self) -> tuple[str, MicroBatches]:
        """Random names are replaced by their order of appearance."""
        ranks: dict[bytes, bytes] = {}

        def ranked(match: re.Match[bytes]) -> bytes:
            return ranks.setdefault(match[0], b"<%d>" % len(ranks))

        entries = [
            (os.fsencode(name), b"" if contents is None else b"=" + contents) for name, contents in self.target.items()
        ]
        entries.sort(key=lambda entry: (RANDOM_NAME.sub(b"", entry[0]), entry[1]))
        text = RANDOM_NAME.sub(ranked, b"\0".join(part for entry in entries for part in entry))
        return hashlib.sha256(text).hexdigest(), self.query


class SimulatedQuery:
    """Runs the query from a state to its end. The working directory is the scratch folder."""

    def __init__(
        self, contract: Contract, scratch: Scratch, session: SparkSession, *, kills_task: Path | None = None
    ) -> None:
        """`kills_task`: a task dies while this file is there (retried_tasks.py); None: in this session none does."""
        self.contract, self.scratch, self.session, self.kills_task = contract, scratch, session, kills_task
        self.tracer = LineTracer(contract.given.files, threads=True)
        self.input = named_query(STANDARD)
        self.query = MicroBatches()
        self.batch = 0  # the last one that ran
        self.passed: Counter[str] = Counter()
        self.reached = 0  # points, in all runs
        self.line: SourceLine | None = None
        self.failed: tuple[Fault, ...] = ()  # the error of this run, once it was injected
        self.failed_line: SourceLine | None = None
        self._error: Fault | None = None
        self._write_batch: Callable[[Any, int], Any] = contract.given.write_batch  # of the current driver
        self._is_called = False
        self._is_restart = False
        self._seconds = 0.0  # by which the wall clock is ahead, after an outage
        self._restarts: list[Callable[[], None]] = []  # the function may raise, as an error was injected
        self._may_fail = False
        self._visit: Visit = ignore_point
        self._is_over = False
        self._ending = Observation()

    @contextmanager
    def given(self, job: str) -> Iterator[None]:
        """The batches of this job."""
        before, self.input = self.input, named_query(job)
        try:
            yield
        finally:
            self.input = before

    def run(self, state: CrashState, *, visit: Visit = ignore_point, error: Fault | None = None) -> Observation:
        """`error`: is injected once. If the function raises then, the query is started again."""
        if state.faults:  # what lies outside of the folder is as the last run has left it
            thaw_folder(self.scratch.path, state.target)
        else:
            put_back(self.contract, self.scratch, state.target)
        ending = self.go_on(state, visit=visit, error=error, notes_early=not (state.faults or error))
        ending.committed = read(self.contract, self.scratch, ending)
        return ending

    def go_on(
        self,
        state: CrashState,
        *,
        visit: Visit = ignore_point,
        error: Fault | None = None,
        may_fail: bool = False,
        notes_early: bool = False,
    ) -> Observation:
        """From what is there, and without a reader at its end. `may_fail`: an error may come from elsewhere, once."""
        self.query, self.passed, self.line = state.query, Counter(state.passed), None
        self.failed, self.failed_line, self._error, self._restarts = (), None, error, []
        self._may_fail, self._goes_on_failing = may_fail, False
        self._visit, self._ending, self._is_over = visit, Observation(), False
        self._is_restart = bool(state.faults)
        self._seconds, cores = self.input.outage_seconds if state.faults else 0.0, self.input.cores[self._is_restart]
        outside = outside_points(self.scratch.path, self._reach_if_called, files=self.contract.given.files)
        with outside, cluster_of_cores(self.session, cores):
            self._start_driver()
            if cores and state.faults:
                be_named(OTHER_HOST, self.contract.given.files)
            while self.query != MicroBatches(len(self.input.batches)) and not (self._ending.failure or self._is_over):
                if self.query.phase is BatchPhase.COMMITTED:
                    self.query = self.query.after(BatchEvent.PLAN)
                with self._wall_clock():
                    self._run_batch(notes_early=notes_early)
        return self._ending

    def end_with_this_batch(self) -> None:
        """No further one runs."""
        self._is_over = True

    def rows_left(self) -> str:
        """Which rows a reader sees in an empty folder; empty if there are none. Leaves the folder as it was."""
        before = freeze_folder(self.scratch.path)
        put_back(self.contract, self.scratch, {})
        rows = read(self.contract, self.scratch, Observation())
        thaw_folder(self.scratch.path, before)
        return rows_left_behind(rows)

    @contextmanager
    def _wall_clock(self) -> Iterator[None]:
        clock, seconds = self.input.wall_clock, self._seconds
        if clock is None:
            yield
            return
        from sinkproof.chaos.moved_clock import MovedClock

        moved = MovedClock(clock, seconds)
        try:
            day = day_of_spark(self.session, self.contract.given.files, is_next=seconds > 0)
            with day, clock_of_workers(self.kills_task, clock, seconds):
                yield
        finally:
            moved.stop()
        clock.date_files(self.scratch.path, seconds)

    def _start_driver(self) -> None:
        with self._wall_clock():  # a day may be read when a module is imported
            self._write_batch = function_anew(self.contract)

    def _keep_driver(self) -> None:
        pass

    def _run_batch(self, *, notes_early: bool) -> None:
        batch = self.query.batch
        frame = frame_of_batch(self.session, self.input, batch, is_restart=self._is_restart)
        self.batch = batch
        self.reach(BEFORE_BATCH)
        rows = self.input.identities(batch)
        if rows and fails_jobs(self._error):
            frame = failing_if_told(frame, rows[-1])
        try:
            with self.contract.state(), self._calling(), self.tracer(self.reach):
                self._write_batch(frame, self.input.first_id + batch)
        except ContractError:
            raise
        except Exception as error:  # the border to the user's function: Spark's query would fail
            if self._may_fail:
                self._expect_failures()
            if self._restarts:
                self.query = self.query.after(BatchEvent.CRASH)
                self._restarts.pop(0)()
                return
            raised = describe_error(error, self.contract.given.files)
            self._ending.failure = f"with batch {batch} the function raised {raised}"
            return
        finally:
            self._goes_on_failing = False
            if fails_jobs(self._error):
                self._let_jobs_fail(fail=False)
        self._restarts = []
        self.query = self.query.after(BatchEvent.WRITE)
        if notes_early:
            self._note_early_rows(batch)
        self.reach(BEFORE_COMMIT)
        self.query = self.query.after(BatchEvent.COMMIT)
        self.reach(AFTER_COMMIT)

    @contextmanager
    def _calling(self) -> Iterator[None]:
        self._is_called = True
        try:
            yield
        finally:
            self._is_called = False

    def _reach_if_called(self, point: str) -> None:
        """What the reader does outside, and what Spark does, is not the function's."""
        if self._is_called:
            self.reach(point)

    def reach(self, point: str) -> None:
        self.reached += 1
        self.passed[point] += 1
        if self.passed[point] > PASSES_MOST and is_line(point):
            return
        files = self.contract.given.files
        self.line = source_line(line_on_stack(files), files) or self.line
        self._visit(point)
        if self._fails_at(point):
            assert self._error is not None
            if not fails_jobs(self._error):
                raise FAILING[self._error.kind](EIO, INJECTED)
            self._let_jobs_fail(fail=True)

    def _let_jobs_fail(self, *, fail: bool) -> None:
        """Or one task, which is run again."""
        if not self.input.task_dies:
            let_jobs_fail(self.session, fail=fail)
        elif self.kills_task is not None and fail:
            self.kills_task.touch()
        elif self.kills_task is not None:
            self.kills_task.unlink(missing_ok=True)

    def _fails_at(self, point: str) -> bool:
        """A job of Spark can fail only where it has a row to read."""
        error = self._error
        if self.failed:
            return self._goes_on_failing and point == self.failed[0].point
        if error is None or (point, self.passed[point]) != (error.point, error.occurrence):
            return False
        if fails_jobs(error) and not self.input.identities(self.batch):
            return False
        self.failed, self.failed_line = (error,), self.line
        self._goes_on_failing = error.kind == FAIL
        self._expect_failures()
        return True

    def _expect_failures(self) -> None:
        """The query is started again in the same driver, and then in another one."""
        self._may_fail = False
        self._restarts = [self._keep_driver, self._start_driver]

    def left_by(self, state: CrashState, point: str, kind: str) -> CrashState:
        """The state that a crash at this point would leave of the current run from `state`."""
        fault = Fault(COORDINATOR, point, self.passed[point], kind)
        return CrashState(
            target=freeze_folder(self.scratch.path),
            query=self.query.after(BatchEvent.LOSE_COMMIT if kind == LOSE else BatchEvent.CRASH),
            faults=(*state.faults, fault),
            passed=Counter(self.passed),
            line=self.line,
        )

    def _note_early_rows(self, batch: int) -> None:
        rows = set(read(self.contract, self.scratch, Observation()))
        self._ending.early += [(row, batch) for row in sorted(rows.intersection(self.input.identities(batch)))]


def can_be_copied(contract: Contract) -> bool:
    """All that it changes lies in its folder."""
    return not (contract.offers("setup") or contract.offers("teardown"))


def put_back(contract: Contract, scratch: Scratch, target: FrozenFolder) -> None:
    """Everything is as before a first run, and the folder as it was frozen."""
    contract.call_if_there("teardown", scratch)
    thaw_folder(scratch.path, target)
    contract.call_if_there("setup", scratch)


def read(contract: Contract, scratch: Scratch, ending: Observation) -> list[Identity]:
    """The committed view; if it cannot be read, the reason is set in the ending, as are rows that show more than
    identities.
    """
    observer = Observer(contract, scratch, LEDGER)  # of the ledger a reader knows nothing
    rows = observer.read_rows() or []
    ending.unreadable = observer.observation.unreadable
    ending.rows = [tuple(map(plain, row)) for row in rows] if shows_more(rows) else []
    return contract.identities(rows)


def plain(cell: Any) -> Any:
    """What a reader gives is sent to another process."""
    return cell if isinstance(cell, (str, bytes, int, float)) else repr(cell)


def rows_left_behind(rows: Sequence[Identity]) -> str:
    """`rows`: seen after everything was removed. Why nothing can be concluded then; empty if there are none."""
    if not rows:
        return ""
    return (
        f"{len(rows)} rows of an earlier run are still there: {named(rows)}. Keep everything in the working directory, "
        "or remove in the module's teardown(scratch) what is elsewhere"
    )
