"""A foreachBatch function crashed at every line that it executes, and again in every recovery from that.

The query is the state machine of micro_batch.py; DataFrames and the function are real. A crash is a copy: at each point
the scratch folder is frozen, the run goes on undisturbed, and later another run starts from the copy. Copies that are
equal but for random names are one state, so each is run once.
"""

from __future__ import annotations

import hashlib
import linecache
import re
import traceback
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sinkproof.chaos.lines import LineTracer
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.foreach_batch.batch_state_machine import Event, MicroBatches, Phase
from sinkproof.foreach_batch.streaming_query import (
    AFTER_COMMIT,
    BATCHES,
    BEFORE_BATCH,
    BEFORE_COMMIT,
    EARLY,
    KILL,
    LEDGER,
    LOSE,
    Ending,
    frame_of_batch,
    identities_of_batch,
)
from sinkproof.judging.observer import Observer
from sinkproof.judging.oracle import Anomaly
from sinkproof.reports.document import SourceLine
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.scratch import FrozenFolder, Scratch, freeze_folder, thaw_folder
from sinkproof.subject.source_files import source_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RANDOM_NAME: Final = re.compile(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
Visit = Callable[[str], None]


def nobody(point: str) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashState:
    """What a crash leaves, and how it came about."""

    target: FrozenFolder
    query: MicroBatches = field(default_factory=MicroBatches)
    faults: tuple[Fault, ...] = ()
    passed: Counter[str] = field(default_factory=Counter)  # points, by everybody so far
    line: SourceLine | None = None  # that the last fault struck, or that was executed last before it

    @property
    def key(self) -> tuple[str, MicroBatches]:
        """Random names count by the order in which they appear."""
        ranks: dict[bytes, bytes] = {}

        def ranked(match: re.Match[bytes]) -> bytes:
            return ranks.setdefault(match[0], b"<%d>" % len(ranks))

        digest = hashlib.sha256()
        entries = [
            (name.encode(), b"" if contents is None else b"=" + contents) for name, contents in self.target.items()
        ]
        for entry in sorted(entries, key=lambda entry: (RANDOM_NAME.sub(b"", entry[0]), entry[1])):
            for part in entry:
                digest.update(RANDOM_NAME.sub(ranked, part) + b"\0")
        return digest.hexdigest(), self.query


class SimulatedQuery:
    """Runs the query from a state to its end. The working directory is the scratch folder."""

    def __init__(self, contract: Contract, scratch: Scratch, session: SparkSession) -> None:
        self.contract, self.scratch, self.session = contract, scratch, session
        self.tracer = LineTracer(contract.given.files)
        self.query = MicroBatches()
        self.batch = 0  # that was run last
        self.passed: Counter[str] = Counter()
        self.line: SourceLine | None = None
        self._visit: Visit = nobody
        self._ending = Ending()

    def run(self, state: CrashState, *, visit: Visit = nobody) -> Ending:
        thaw_folder(self.scratch.path, state.target)
        self.query, self.passed, self.line = state.query, Counter(state.passed), None
        self._visit, self._ending = visit, Ending()
        while self.query != MicroBatches(BATCHES) and not self._ending.failure:
            if self.query.phase is Phase.COMMITTED:
                self.query = self.query.after(Event.PLAN)
            self._run_batch(looks=not state.faults)
        self._read()
        return self._ending

    def _run_batch(self, *, looks: bool) -> None:
        batch = self.query.batch
        frame = frame_of_batch(self.session, batch)
        self.batch = batch
        self.reach(BEFORE_BATCH)
        try:
            with self.tracer(self.reach):
                self.contract.given.write_batch(frame, batch)
        except ContractError:
            raise
        except Exception as error:  # the border to somebody else's function: Spark's query would fail
            self._ending.failure = f"with batch {batch} the function raised {told(error, self.contract.given.files)}"
            return
        self.query = self.query.after(Event.WRITE)
        if looks:
            self._look(batch)
        self.reach(BEFORE_COMMIT)
        self.query = self.query.after(Event.COMMIT)
        self.reach(AFTER_COMMIT)

    def reach(self, point: str) -> None:
        self.passed[point] += 1
        if is_line(point):
            self.line = source_line(point, self.contract.given.files)
        self._visit(point)

    def left_by(self, state: CrashState, point: str, kind: str) -> CrashState:
        """What a crash at this point, here and now, would leave of the run from `state`."""
        fault = Fault(COORDINATOR, point, self.passed[point], kind)
        return CrashState(
            target=freeze_folder(self.scratch.path),
            query=self.query.after(Event.LOSE_COMMIT if kind == LOSE else Event.CRASH),
            faults=(*state.faults, fault),
            passed=Counter(self.passed),
            line=self.line,
        )

    def _look(self, batch: int) -> None:
        rows = set(read(self.contract, self.scratch, Ending()))
        self._ending.early += [(row, batch) for row in sorted(rows & identities_of_batch(batch))]

    def _read(self) -> None:
        self._ending.committed = read(self.contract, self.scratch, self._ending)


def read(contract: Contract, scratch: Scratch, ending: Ending) -> list[tuple[int, int]]:
    """What a reader sees; why it cannot, in the ending."""
    observer = Observer(contract, scratch, LEDGER)
    rows = observer.read()
    ending.unreadable = observer.observation.unreadable
    return rows or []


def told(error: BaseException, files: dict[str, str]) -> str:
    """With the innermost line of the function's own file."""
    first = (str(error).strip().splitlines() or [""])[0][:300]
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(file, line) for file, line in places if file in files]
    if not own:
        return f"{type(error).__name__}: {first}"
    file, line = own[-1]
    text = linecache.getline(file, line).strip()
    return f"{type(error).__name__} at {files[file]}:{line} ({text}): {first}"


@dataclass(slots=True, kw_only=True)
class Judged:
    """One state, every crash that has led to it, and what came of it."""

    first: CrashState
    anomalies: tuple[Anomaly, ...] = ()
    rows: int = 0
    is_run: bool = False
    crashes: list[Fault] = field(default_factory=list)  # the last fault of each way to it


class Exploration:
    """Every crash from every state, breadth first, until no state is new or it was enough."""

    def __init__(self, query: SimulatedQuery, *, should_stop: Callable[[], bool], step: Callable[[str], None]) -> None:
        self.query, self.should_stop, self.step = query, should_stop, step
        self.states: dict[Any, Judged] = {}
        self.waiting: deque[Any] = deque()
        self.bad_states = 0
        self.base = Ending()

    def run(self) -> None:
        """Single crashes are always tried; sequences of crashes while it is not enough."""
        start = CrashState(target=freeze_folder(self.query.scratch.path))
        self.base = self._explore(start)
        if any(anomaly.oracle != EARLY for anomaly in self.base.anomalies(self.query.contract.rows)):
            return  # nothing can be said of crashes where it goes wrong without one
        while self.waiting and not (self.should_stop() and len(self.states[self.waiting[0]].first.faults) > 1):
            judged = self.states[self.waiting.popleft()]
            self.step(str(Schedule(judged.first.faults)))
            ending = self._explore(judged.first)
            judged.anomalies = ending.anomalies(self.query.contract.rows)
            judged.rows, judged.is_run = len(ending.committed), True

    def _explore(self, state: CrashState) -> Ending:
        left: list[CrashState] = []
        ending = self.query.run(state, visit=lambda point: left.append(self.query.left_by(state, point, KILL)))
        if state.faults and ending.anomalies(self.query.contract.rows):
            self.bad_states += 1
            return ending  # what is wrong already is not crashed again
        for crashed in left:
            known = self.states.get(crashed.key)
            if known is None:
                known = self.states[crashed.key] = Judged(first=crashed)
                self.waiting.append(crashed.key)
            known.crashes.append(crashed.faults[-1])
        return ending

    @property
    def complete(self) -> bool:
        return not self.waiting and not self.bad_states


def follow(query: SimulatedQuery, schedule: Schedule) -> tuple[Ending, CrashState, list[tuple[int, str, int]]]:
    """One schedule from the empty folder: the ending, the last state that a fault left, and every point passed."""
    state = CrashState(target=freeze_folder(query.scratch.path))
    trail: list[tuple[int, str, int]] = []
    for fault in schedule.faults:
        left = _left_at(query, state, fault, trail=trail)
        if left is None:
            return query.run(state), state, trail
        state = left
    ending = query.run(state, visit=lambda point: trail.append((len(state.faults), point, query.batch)))
    return ending, state, trail


def _left_at(
    query: SimulatedQuery, state: CrashState, fault: Fault, *, trail: list[tuple[int, str, int]]
) -> CrashState | None:
    """None if nobody passed there that often."""
    left: list[CrashState] = []

    def visit(point: str) -> None:
        if not left:
            trail.append((len(state.faults), point, query.batch))
        if (point, query.passed[point]) == (fault.point, fault.occurrence):
            left.append(query.left_by(state, point, fault.kind))

    query.run(state, visit=visit)
    return left[0] if left else None
