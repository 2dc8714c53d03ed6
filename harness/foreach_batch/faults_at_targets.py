"""Deaths and errors at calls to a target that cannot be copied: which of them are tried, and what counts as struck."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice, takewhile
from typing import Final

from sinkproof.campaign.outward_coverage import OutwardCoverage
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.land_late_write import LAND
from sinkproof.chaos.faults.refused_statement import REFUSED_STATEMENT
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.chaos.system_calls.place_names import is_sent
from sinkproof.chaos.system_calls.watched_program import NotWatched
from sinkproof.foreach_batch.certifying_query import (
    AFTER_COMMIT,
    BATCHES,
    BEFORE_COMMIT,
    ERROR,
    KILL,
    LOSE,
    NULL_KEYS_JOB,
    SMALLER_CLUSTER_JOB,
    UNANSWERED,
    jobs_of_larger_batches,
    named_query,
)
from sinkproof.foreach_batch.followed_schedules import FaultsInside, followed
from sinkproof.foreach_batch.function_results import INTERIOR, FunctionResults
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.foreach_batch.struck_driver import StruckDrivers
from sinkproof.foreach_batch.watched_query import CallToTarget, NotRun
from sinkproof.generators.fault_sites import SINK, evenly, in_turn
from sinkproof.workload.job_names import (
    EMPTY_BATCHES_JOB,
    EQUAL_ROWS_JOB,
    LARGE_BATCHES_JOB,
    MANY_CHECKPOINTS_JOB,
    OUTAGE_JOB,
    SHARED_KEYS_JOB,
)

OpenDrivers = Callable[[], AbstractContextManager[StruckDrivers]]
EDGES_MOST: Final = 12  # whatever the budget: for each of these deaths a driver is started, which takes seconds
DEATHS_MOST: Final = 36
MORE_MOST: Final = 4  # as for the edges, whatever the budget: deaths where batches are large
PARTS_LEAST: Final = 4
PARTS_MOST, PARTS_NAMES_MOST = 3, 2  # the last names: what begins a part leaves less of it
ERRORS_MOST: Final = 24
COPIED_ERRORS_MOST: Final = 12  # where the target can be copied, calls of libraries fail in so many runs
ELSEWHERE_MOST: Final = 8
STATEMENTS_OF_A_LINE_MOST: Final = 3
STATEMENTS_MOST: Final = 12
LATE_OF_A_LINE_MOST: Final = 2
LATE_MOST: Final = 6  # a driver is started for each


def strike_calls(
    open_drivers: OpenDrivers,
    query: SimulatedQuery,
    results: FunctionResults,
    *,
    elsewhere: Iterable[Schedule],
    deadline: Deadline,
    holds: bool,
) -> int:
    """How many runs it took. `elsewhere`: deaths at lines that only other batches execute. `holds`: nothing begins
    after the deadline.
    """
    outward = results.coverage.outward
    outward.is_native = True
    run = 0
    try:
        with open_drivers() as drivers:
            usual = drivers.calls()
            planned = [(each, True) for each in islice(elsewhere, ELSEWHERE_MOST)]
            larger = {job: drivers.calls(job=job) for job in jobs_of_larger_batches(results.contract.given.files)}
            planned += _planned(usual, larger, outward, rows=results.contract.rows)
            results.cover_lines_of_workers(drivers.driver.lines_of_workers())
            for schedule, _ in takewhile(lambda each: not deadline.over or (each[1] and not holds), planned):
                strike(schedule, drivers, query, results=results)
                run += 1
    except NotWatched as why:
        outward.unwatched = str(why)
    except NotRun as why:
        results.unknowns.append(f"deaths inside single calls were not examined: {why}")
    else:
        results.notes.remove(INTERIOR)
    return run


def fail_calls(
    open_drivers: OpenDrivers, query: SimulatedQuery, results: FunctionResults, *, ends: Deadline | None
) -> int:
    """Errors of calls that libraries make in native code, and programs: those of Python fail in the simulated query,
    and jobs of Spark as a whole. How many runs it took. `ends`: of a budget that holds. Raises NotWatched, NotRun.
    """
    run = 0
    with open_drivers() as drivers:
        for fault in takewhile(lambda fault: ends is None or not ends.over, errors_of_libraries(drivers.calls())):
            strike(Schedule((fault,)), drivers, query, results=results)
            run += 1
    return run


def _planned(
    usual: Sequence[CallToTarget],
    larger: Mapping[str, Sequence[CallToTarget]],
    outward: OutwardCoverage,
    *,
    rows: str,
) -> list[tuple[Schedule, bool]]:
    """`larger`: by job. `rows`: how the contract says that they are written. The second part: whether the budget does
    not count.
    """
    edges = deaths_at_edges(usual)
    outward.calls = {Schedule((call.death,)): False for call in usual}
    outward.edges = [Schedule((death,)) for death in edges]
    singles = (*errors_at(usual), *refused_statements(usual), *late_requests(usual), *edges)
    always = [*deaths_around_commits(rows), *(Schedule((fault,)) for fault in singles)]
    always += [
        Schedule((death,), job=job) for job, calls in larger.items() for death in deaths_between_more(usual, calls)
    ]
    return [(each, True) for each in always] + [(Schedule((death,)), False) for death in deaths_elsewhere(usual)]


def strike(schedule: Schedule, inside: FaultsInside, query: SimulatedQuery, *, results: FunctionResults) -> None:
    outward = results.coverage.outward
    results.progress.step(str(schedule), 0)
    result, _ = followed(query, schedule, results=results, inside=inside)
    results.add(result)
    if schedule in outward.calls:
        outward.calls[schedule] = result.fired


def deaths_around_commits(rows: str) -> Iterator[Schedule]:
    """The function has returned, and Spark has not noted it yet, or has lost the note: in batches of the usual query,
    without the second one, in which real queries do it, and of others.
    """
    for batch in (1, BATCHES):
        yield Schedule((Fault(COORDINATOR, BEFORE_COMMIT, batch, KILL),))
        yield Schedule((Fault(COORDINATOR, AFTER_COMMIT, batch, LOSE),))
    keys = (NULL_KEYS_JOB, SHARED_KEYS_JOB) if rows == "append" else ()  # else the last row of a key is one of several
    larger = (MANY_CHECKPOINTS_JOB, OUTAGE_JOB, SMALLER_CLUSTER_JOB, LARGE_BATCHES_JOB, EMPTY_BATCHES_JOB)
    for job in (*larger, EQUAL_ROWS_JOB, *keys):
        batch = max(2, len(named_query(job).batches) - 1)
        yield Schedule((Fault(COORDINATOR, BEFORE_COMMIT, batch, KILL),), job=job)


def deaths_at_edges(calls: Sequence[CallToTarget]) -> list[Fault]:
    """Before the second and the last call of each name that a line makes, and before the first, unless it is the
    line's own first: a death there leaves what one before the line leaves.
    """
    first_of_line = {id(call) for call in {call.place: call for call in reversed(calls)}.values()}
    seconds, lasts, firsts = [], [], []
    for alike in _by_name(calls):
        seconds += alike[1:2]
        lasts += alike[-1:] if len(alike) > 2 else []
        firsts += [call for call in alike[:1] if id(call) not in first_of_line]
    return [call.death for call in (*seconds, *lasts, *firsts)][:EDGES_MOST]


def deaths_between_more(usual: Sequence[CallToTarget], larger: Sequence[CallToTarget]) -> list[Fault]:
    """Before the second and the last call of each name that a line makes more often where batches are large, or only
    there: some of them. Not before the first call of a line: that leaves what a death before the line leaves.
    """
    times = {alike[0].name: len(alike) for alike in _by_name(usual)}
    first_of_line = {id(call) for call in {call.place: call for call in reversed(larger)}.values()}
    more = [alike for alike in _by_name(larger) if len(alike) > times.get(alike[0].name, 0)]
    calls = [call for alike in more for call in (*alike[1:2], alike[-1]) if id(call) not in first_of_line]
    return evenly(list(dict.fromkeys(call.death for call in calls)), MORE_MOST)


def deaths_between_parts(calls: Sequence[CallToTarget]) -> list[Fault]:
    """Between calls that tasks of the function make for each of their parts: some of them."""
    of_parts = [alike[1:] for alike in _by_name(calls) if len(alike) >= PARTS_LEAST and not alike[0].of_spark]
    return [
        death for alike in of_parts[-PARTS_NAMES_MOST:] for death in evenly([each.death for each in alike], PARTS_MOST)
    ]


def deaths_elsewhere(calls: Sequence[CallToTarget]) -> list[Fault]:
    """Those with many calls between them first."""
    edges = set(deaths_at_edges(calls))
    left = [call.death for call in calls if call.death not in edges]
    halves, step = [], len(left)
    while step > 1:
        halves += left[step // 2 :: step]
        step //= 2
    return list(dict.fromkeys((*halves, *left)))[: DEATHS_MOST - len(edges)]


def errors_at(calls: Sequence[CallToTarget]) -> list[Fault]:
    """Before the first and the last call of each name that a line makes, and after the last; but those of Python that
    are points of their own, and fail there.
    """
    found: list[Fault] = []
    for alike in _by_name([call for call in calls if is_line(call.after)]):
        first, last = alike[0].death, alike[-1].death
        for place, kind in ((last, UNANSWERED), (last, ERROR), (first, ERROR)):
            if KINDS[kind].applies(SINK, place.point):
                found.append(Fault(place.actor, place.point, place.occurrence, kind))
    return list(dict.fromkeys(found))[:ERRORS_MOST]


def refused_statements(calls: Sequence[CallToTarget]) -> list[Fault]:
    """Some of those that each line sends to a database, which refuses them."""
    sent: dict[tuple[str, int], list[Fault]] = {}
    for call in calls:
        if call.is_statement:
            sent.setdefault(call.place, []).append(replace(call.death, kind=REFUSED_STATEMENT.word))
    return [*in_turn(evenly(faults, STATEMENTS_OF_A_LINE_MOST) for faults in sent.values())][:STATEMENTS_MOST]


def late_requests(calls: Sequence[CallToTarget]) -> list[Fault]:
    """The last requests of each line that sends any, those of the last line first: what is sent there may commit."""
    sent: dict[tuple[str, int], list[Fault]] = {}
    for call in calls:
        if is_sent(call.death.point):
            sent.setdefault(call.place, []).insert(0, replace(call.death, kind=LAND.word))
    return [*in_turn(faults[:LATE_OF_A_LINE_MOST] for faults in reversed(sent.values()))][:LATE_MOST]


def errors_of_libraries(calls: Sequence[CallToTarget]) -> list[Fault]:
    return errors_at([call for call in calls if not call.of_spark])[:COPIED_ERRORS_MOST]


def _by_name(calls: Sequence[CallToTarget]) -> list[list[CallToTarget]]:
    found: dict[tuple[str, int, str], list[CallToTarget]] = {}
    for call in calls:
        found.setdefault(call.name, []).append(call)
    return list(found.values())
