"""Deaths inside single calls of a function: which states they leave, and what counts as struck by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.chaos.system_calls.watched_program import NotWatched
from sinkproof.foreach_batch.certifying_query import BEFORE_COMMIT, KILL, SMALLER_CLUSTER_JOB, jobs_of_larger_batches
from sinkproof.foreach_batch.crash_exploration import Exploration
from sinkproof.foreach_batch.faults_at_targets import deaths_between_more, deaths_between_parts, strike
from sinkproof.foreach_batch.function_results import INTERIOR, FunctionResults
from sinkproof.foreach_batch.simulated_batches import CrashState
from sinkproof.foreach_batch.watched_query import NotRun, WatchedQuery

Watch = Callable[[], AbstractContextManager[WatchedQuery]]


class StatesInside(NamedTuple):
    """`left`: in the second batch. `left_again`: in that batch when it runs again, as its commit was not noted.
    `lines`: that only Python workers have executed.
    """

    left: Sequence[CrashState]
    left_again: Sequence[CrashState]
    lines: set[str]


def look_inside(
    watch: Watch, exploration: Exploration, results: FunctionResults, *, deadline: Deadline, ends: Deadline | None
) -> StatesInside | None:
    """None: no driver could be watched, which the results say. `ends`: of a budget that holds."""
    results.coverage.outward.is_native = True
    try:
        with watch() as watched:
            left = watched.states_inside(CrashState(target={}))
            again = [] if deadline.over else _left_again(watched, exploration)
            if ends is None or not ends.over:
                _strike_large_batches(watched, exploration, results)
                _strike_in_a_larger_cluster(watched, exploration, results)
            return StatesInside(left, again, watched.lines_of_workers())
    except NotWatched as why:
        results.coverage.outward.unwatched = str(why)
    except NotRun as why:
        results.unknowns.append(f"deaths inside single calls were not examined: {why}")
    return None


def _strike_large_batches(watched: WatchedQuery, exploration: Exploration, results: FunctionResults) -> None:
    """What is wrong with such batches without any death is found elsewhere."""
    try:
        for job in jobs_of_larger_batches(results.contract.given.files):
            for death in deaths_between_more(watched.calls(), watched.calls(job=job)):
                strike(Schedule((death,), job=job), watched, exploration.query, results=results)
    except NotRun as why:
        results.unknowns.append(f"deaths inside calls of large batches were not examined: {why}")


def _strike_in_a_larger_cluster(watched: WatchedQuery, exploration: Exploration, results: FunctionResults) -> None:
    """Some of its tasks have done their parts, which the tasks of the smaller cluster divide in another way."""
    try:
        for death in deaths_between_parts(watched.calls(job=SMALLER_CLUSTER_JOB)):
            strike(Schedule((death,), job=SMALLER_CLUSTER_JOB), watched, exploration.query, results=results)
    except NotRun as why:
        results.unknowns.append(f"deaths inside calls of a larger cluster were not examined: {why}")


def _left_again(watched: WatchedQuery, exploration: Exploration) -> list[CrashState]:
    before_commit = (Fault(COORDINATOR, BEFORE_COMMIT, 2, KILL),)
    begun = [each.first for each in exploration.states.values() if each.first.faults == before_commit]
    return [left for state in begun for left in watched.states_inside(state)]


def crash_inside_calls(found: StatesInside, exploration: Exploration, results: FunctionResults) -> None:
    new, edges = exploration.crash_inside(found.left)
    exploration.add(found.left_again)
    outward = results.coverage.outward
    outward.calls = {schedule: exploration.has_run(key) for schedule, key in new.items()}
    outward.edges = edges
    outward.calls_alike = len(found.left) - len(new)
    results.notes.remove(INTERIOR)
    results.cover_lines_of_workers(found.lines)
