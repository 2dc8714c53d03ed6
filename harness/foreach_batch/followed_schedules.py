"""One schedule of a foreachBatch function, from the empty folder to the end of the query, for a campaign or a replay.

Faults at lines and calls in Python strike in the simulated query; those at system calls in a driver that is watched.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from threading import Event, Thread
from typing import Final, Protocol

from sinkproof.chaos.points import is_line, is_system_call
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.foreach_batch.certifying_query import BEFORE_BATCH, BEFORE_COMMIT
from sinkproof.foreach_batch.failing_jobs import FAILING
from sinkproof.foreach_batch.function_results import FunctionResults, run_result
from sinkproof.foreach_batch.seen_by_spark import lose_blocks
from sinkproof.foreach_batch.simulated_batches import CrashState, SimulatedQuery, Trail, Visit, read
from sinkproof.judging.oracle import Observation
from sinkproof.subject.scratch import thaw_folder

RESTART_SECONDS: Final = 0.5  # of a query takes longer: a server sees meanwhile that a connection has ended
WAITS_SECONDS: Final = 2.0  # without passing a point: once to twice as long


class HeldRequest(Protocol):
    """Of a driver that has died: it has still to take effect."""

    def land(self) -> None:
        """Once, however often it is called."""
        ...


class FaultsInside(Protocol):
    """What a fault at a system call of a run from `state` leads to. The trail is what this run has passed. `job`: names
    the batches. `kills_at_points`: deaths at other points than system calls are real, too. `held`: by the last death.
    """

    kills_at_points: bool

    @property
    def held(self) -> HeldRequest | None: ...

    def left_at(self, state: CrashState, fault: Fault, *, job: str) -> tuple[CrashState | None, Trail]:
        """A death: what it leaves, and what was passed up to it. None: no such call was met."""
        ...

    def failed_at(self, state: CrashState, fault: Fault, *, job: str) -> tuple[Observation, CrashState, Trail]:
        """An error: how the run ended. The state has the fault if such a call was met."""
        ...


def follow(
    query: SimulatedQuery, schedule: Schedule, *, inside: FaultsInside | None = None
) -> tuple[Observation, CrashState, Trail]:
    """The ending, the state after its last fault, and every point passed. An error can be its last fault only."""
    state = CrashState(target={})
    trail: Trail = []

    def visit(point: str) -> None:
        trail.append((len(state.faults), point, query.batch))
        if query.input.loses_blocks and is_line(point):
            lose_blocks(query.session)

    with query.given(schedule.job):
        for fault in schedule.faults:
            is_inside = is_system_call(fault.point)
            if inside is not None and inside.kills_at_points:
                is_inside |= fault.kind not in FAILING
            within = inside if is_inside else None
            if fault.kind in FAILING and within is not None:
                ending, state, passed = within.failed_at(state, fault, job=schedule.job)
                return ending, state, trail + passed
            if fault.kind in FAILING:
                ending = query.run(state, visit=visit, error=fault)
                return ending, replace(state, faults=(*state.faults, *query.failed), line=query.failed_line), trail
            if within is not None:
                left, passed = within.left_at(state, fault, job=schedule.job)
                trail += passed
            else:
                left = _left_at(query, state, fault, trail=trail)
            if left is None:
                return query.run(state), state, trail
            state = left
        if inside is not None and inside.held is not None:
            return _run_and_land(query, state, inside.held, visit=visit), state, trail
        return query.run(state, visit=visit), state, trail


def _run_and_land(query: SimulatedQuery, state: CrashState, held: HeldRequest, *, visit: Visit) -> Observation:
    """The request lands when the batch that it belongs to was written again, or has failed, as it may once; and before
    that where the query waits, perhaps for a lock that goes with the request.
    """
    began = Counter[int]()  # by batch
    over = Event()

    def land_if_it_waits() -> None:
        before = -1
        while not over.wait(WAITS_SECONDS):
            if before == query.reached:
                held.land()
            before = query.reached

    def visit_and_land(point: str) -> None:
        began[query.batch] += point == BEFORE_BATCH
        is_again = point == BEFORE_BATCH and began[query.batch] > 1
        if point == BEFORE_COMMIT or is_again:
            held.land()
        if is_again:
            over.wait(RESTART_SECONDS)
        visit(point)

    waiting = Thread(target=land_if_it_waits, daemon=True)
    waiting.start()
    try:
        thaw_folder(query.scratch.path, state.target)
        ending = query.go_on(state, visit=visit_and_land, may_fail=True)
    finally:
        over.set()
        waiting.join()
        held.land()
    ending.committed = read(query.contract, query.scratch, ending)
    return ending


def followed(
    query: SimulatedQuery,
    schedule: Schedule,
    *,
    results: FunctionResults | None = None,
    inside: FaultsInside | None = None,
) -> tuple[RunResult, Trail]:
    """The judged run, and every point passed. `results`: of a campaign."""
    ending, state, trail = follow(query, schedule, inside=inside)
    judged = run_result(
        *(query.contract, schedule, ending), injected=state.faults, line=state.line, trail=trail, results=results
    )
    if results is not None:
        results.coverage.saw(point for _, point, _ in trail)
    return judged, trail


def _left_at(query: SimulatedQuery, state: CrashState, fault: Fault, *, trail: Trail) -> CrashState | None:
    """None if the point was passed less often."""
    left: list[CrashState] = []

    def visit(point: str) -> None:
        if not left:
            trail.append((len(state.faults), point, query.batch))
        if (point, query.passed[point]) == (fault.point, fault.occurrence):
            left.append(query.left_by(state, point, fault.kind))
            query.end_with_this_batch()

    query.run(state, visit=visit)
    return left[0] if left else None
