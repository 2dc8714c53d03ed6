"""Hypothesis strategies beyond the bound of a campaign: jobs, interleavings and schedules, drawn at random and shrunk.

For `certify --minutes`, and for tests of your own:

    from hypothesis import given
    from sinkproof.strategies import schedules, tried

    @given(schedule=schedules())
    def test_my_sink(schedule):
        assert not tried("my_sinks.py:MyContract", schedule).anomalies

A failing schedule is shrunk to few faults in a small job and kept in Hypothesis's database; the failure prints it as
one line for `sinkproof replay`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import AROUND_CALLS, COORDINATOR_POINTS, SINK_POINTS
from sinkproof.chaos.schedule import COORDINATOR, STANDARD, STEPS, Fault, Schedule, order_of, trimmed
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.crash_copies import needs_copies, run_with_copies
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.workload.made_jobs import SHAPE, shape_name

DEFAULT_KINDS: Final = ("kill", "kill-job", "stop", "lose", "decline", "error")
SEEDS_MOST: Final = 10_000
OCCURRENCES_MOST: Final = 12  # the standard job passes most points 2 to 8 times, and each restart adds to it
SINK_STEPS: Final = (*AROUND_CALLS, *SINK_POINTS)
SOURCE_STEPS: Final = tuple(f"{call}.{side}" for call in ("acknowledge",) for side in ("before", "after"))


def jobs() -> st.SearchStrategy[str]:
    """Names of jobs: numbers of sources, sinks, rows, rows and batches. They shrink to `standard`."""
    shapes = st.fixed_dictionaries({part: st.integers(*bounds) for part, bounds in SHAPE.items()})
    return st.just(STANDARD) | shapes.map(lambda shape: shape_name(**shape))


def interleavings() -> st.SearchStrategy[int]:
    """Seeds: each gives other latencies, so that other rows and barriers overtake each other."""
    return st.integers(0, SEEDS_MOST)


def orders(*, runs_most: int = 3) -> st.SearchStrategy[tuple[str, ...]]:
    """For each run between two whole-job crashes, the steps in which the last subtask comes first."""
    order = st.sets(st.sampled_from(STEPS)).map(order_of)
    return st.lists(order, max_size=runs_most).map(trimmed)


def faults(*, kinds: Sequence[str] = DEFAULT_KINDS, subtasks: int = 2) -> st.SearchStrategy[Fault]:
    """One fault at a named point. The job may never reach the point: such a run counts for nothing."""
    sinks = [(f"sink[{number}]", point) for number in range(subtasks) for point in SINK_STEPS]
    sources = [(f"source[{number}]", point) for number in range(subtasks) for point in SOURCE_STEPS]
    coordinator = [(COORDINATOR, point) for point in COORDINATOR_POINTS]
    known = [
        (actor, point, kind)
        for kind in kinds
        for actor, point in (*coordinator, *sinks, *sources)
        if KINDS[kind].applies(actor, point)
    ]
    place = st.sampled_from(known)
    return st.builds(
        lambda at, occurrence: Fault(at[0], at[1], occurrence, at[2]), place, st.integers(1, OCCURRENCES_MOST)
    )


def schedules(
    *, kinds: Sequence[str] = DEFAULT_KINDS, faults_most: int = 5, subtasks: int = 2
) -> st.SearchStrategy[Schedule]:
    """A job, an interleaving, and faults one after the other."""
    return st.builds(
        Schedule,
        st.lists(faults(kinds=kinds, subtasks=subtasks), max_size=faults_most).map(tuple),
        seed=st.just(0) | interleavings(),
        job=jobs(),
        ids=st.sampled_from((0, 1, 8, 97)),
        orders=orders(),
    )


def tried(subject: str, schedule: Schedule) -> RunResult:
    """Runs one schedule on one subject, simulated in this process; the result lists injected faults and anomalies."""
    contract, folder = load(subject), fresh_folder()
    try:
        with ScheduleRunner(contract, Scratch(name=f"{contract.name}-tried", path=folder)) as runner:
            return run_in(runner, schedule)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_in(runner: ScheduleRunner, schedule: Schedule) -> RunResult:
    """Raises ContractError for deaths that need `freeze` and `thaw` where the contract has none."""
    if needs_copies(runner, schedule):
        return run_with_copies(runner, schedule, trace_lines=False)
    return runner.run(schedule)
