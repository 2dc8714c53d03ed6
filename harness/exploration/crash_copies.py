"""Replays a schedule with whole-job crashes on copies of the durable state.

The run that crashes goes on, and the next run starts from a copy of what was durable at the crash. Closures crash sinks
without freeze and thaw this way, and their findings are replayed this way, because attempts that end inside this
process may still hold locks and connections.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sinkproof.chaos.schedule import COORDINATOR, IN_ORDER, Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.job_world import JobState, JobWorld
from sinkproof.reports.document import SourceLine
from sinkproof.subject.contract import ContractError

DEATHS = ("kill", "stop", "pause")


def needs_copies(runner: ScheduleRunner, schedule: Schedule) -> bool:
    """Raises ContractError for deaths that neither a copy nor this process can show."""
    if runner.contract.copies:
        return False
    for fault in schedule.faults:
        if fault.kind in DEATHS and fault.actor != COORDINATOR and not fault.actor.startswith("source"):
            raise ContractError(
                f"{fault}: without freeze and thaw, an attempt that ends in the simulated shell may still hold locks "
                "and connections. Replay it with --on process"
            )
    return any(fault.kind == "kill-job" for fault in schedule.faults)


def run_with_copies(runner: ScheduleRunner, schedule: Schedule, *, trace_lines: bool) -> RunResult:
    """From the empty target to the end, as `ScheduleRunner.run`."""
    world = JobWorld(runner, job=schedule.job, trace_lines=trace_lines, ids=schedule.ids)
    (state,) = world.beginnings()
    history: list[tuple[Any, ...]] = []
    passed: list[tuple[str, str]] = []  # (actor, point) before each whole-job crash
    struck: list[Fault] = []
    lines: list[SourceLine | None] = [None]  # in which each whole-job crash struck
    segments = _segments(schedule.faults)
    orders = [*schedule.orders, *[IN_ORDER] * len(segments)]
    for (prelude, crash), order in zip(segments, orders, strict=False):
        here = tuple(_from_here(fault, world, state) for fault in prelude)
        state = replace(state, prelude=here, orders=(*state.orders[:-1], order))
        state_next = _run_until(world, state, crash=crash, history=history, passed=passed, lines=lines)
        last = world.last_result(schedule)
        struck += prelude[: len(last.struck)]
        if crash is None or state_next is None:
            break
        struck.append(crash)
        state = state_next
    line = last.struck_line if last.struck else lines[-1]
    names = (*last.names, *sorted({actor for actor, _ in passed} - {*last.names}))
    trace = [*((names.index(actor), point) for actor, point in passed), *last.trace]
    whole = replace(last, history=[*history, *last.history], names=names, trace=trace)
    return replace(whole, struck=tuple(struck), struck_line=line)


def _segments(faults: Sequence[Fault]) -> list[tuple[tuple[Fault, ...], Fault | None]]:
    """The faults before each whole-job crash, and the crash; None after the last one."""
    found: list[tuple[tuple[Fault, ...], Fault | None]] = []
    before: list[Fault] = []
    for fault in faults:
        if fault.kind == "kill-job":
            found.append((tuple(before), fault))
            before = []
        else:
            before.append(fault)
    return [*found, (tuple(before), None)]


def _passed(state: JobState, world: JobWorld, fault: Fault) -> int:
    names = world.names
    actor = names.index(fault.actor) if fault.actor in names else -1
    return (state.passed or Counter())[actor, fault.point]


def _from_here(fault: Fault, world: JobWorld, state: JobState) -> Fault:
    """Occurrences count from the start of the schedule; a run counts from its own."""
    return replace(fault, occurrence=max(1, fault.occurrence - _passed(state, world, fault)))


def _run_until(
    world: JobWorld,
    state: JobState,
    *,
    crash: Fault | None,
    history: list[tuple[Any, ...]],
    passed: list[tuple[str, str]],
    lines: list[SourceLine | None],
) -> JobState | None:
    """The state that the crash leaves; None if its point was not passed that often."""
    left: list[JobState] = []
    ahead = 0 if crash is None else crash.occurrence - _passed(state, world, crash)

    def visit() -> None:
        nonlocal ahead
        assert world.simulation is not None
        actor, point = world.simulation.trace[-1]
        if crash is None or (world.names[actor], point) != (crash.actor, crash.point):
            return
        ahead -= 1
        if ahead == 0 and len(world.simulation.faults.injected) == len(state.prelude):
            left.append(world.freeze())
            world.observer.injecting(world.simulation, crash)
            lines.append(world.observer.struck_line)
            world.simulation.note(crash.actor, crash.point, crash.kind)
            history.extend(world.simulation.history)
            passed.extend((world.names[actor], point) for actor, point in world.simulation.trace)

    world.run(state, visit)
    return left[0] if left else None
