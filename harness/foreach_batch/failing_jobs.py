"""Errors that a foreachBatch function gets: jobs of Spark fail as they read a row of their batch, from its beginning or
from a line of the function on; calls to the outside fail; and tasks die, and are run again.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.refused_statement import REFUSED_STATEMENT
from sinkproof.chaos.points import is_line, line_point
from sinkproof.chaos.requests.socket_points import RAISED_AT_CALLS
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.foreach_batch.certifying_query import (
    BEFORE_BATCH,
    ERROR,
    FAIL,
    INJECTED,
    POINTS,
    RETRIED_TASK_JOB,
)
from sinkproof.foreach_batch.retried_tasks import has_tasks_in_python
from sinkproof.generators.fault_sites import KINDS_AT_CALLS, SINK, faults_of_replies
from sinkproof.subject.contract import Contract
from sinkproof.subject.static_analysis.names_in_code import tries_again
from sinkproof.workload.job_names import LARGE_BATCHES_JOB
from sinkproof.workload.ledger import Identity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Passed = tuple[int, str, int]  # (runs before, point, batch)
BETWEEN_MORE_MOST: Final = 12  # errors
PROPERTY: Final = "sinkproof-jobs-fail"  # of the JVM in which a local session runs its jobs, too
TOLD: Final = "yes"
FAILING: Final[dict[str, type[OSError]]] = {**RAISED_AT_CALLS, FAIL: OSError, REFUSED_STATEMENT.word: OSError}
READING: Final = frozenset(  # methods of frames and of their writers that run jobs
    {
        *(
            "checkpoint",
            "collect",
            "count",
            "first",
            "foreach",
            "foreachPartition",
            "head",
            "isEmpty",
            "localCheckpoint",
        ),
        *("reduce", "show", "tail", "take", "toArrow", "toLocalIterator", "toPandas"),
        *("append", "create", "createOrReplace", "csv", "insertInto", "jdbc", "json", "orc", "overwrite"),
        *("overwritePartitions", "parquet", "replace", "save", "saveAsTable", "saveAsTextFile", "text"),
    }
)


def fails_jobs(fault: Fault | None) -> bool:
    return fault is not None and fault.kind == ERROR and (fault.point == BEFORE_BATCH or is_line(fault.point))


def failing_if_told(frame: DataFrame, row: Identity) -> DataFrame:
    """The same batch; each job that reads this row fails while `let_jobs_fail` says so."""
    split, offset = row
    told = f"reflect('java.lang.System', 'getProperty', '{PROPERTY}') = '{TOLD}'"
    fails = f"CAST(raise_error('{INJECTED}') AS BOOLEAN)"
    return frame.where(f"CASE WHEN split = {split} AND offset = {offset} AND {told} THEN {fails} ELSE true END")


def let_jobs_fail(session: SparkSession, *, fail: bool) -> None:
    system: Any = session.sparkContext._jvm.java.lang.System  # type: ignore[union-attr]
    if fail:
        system.setProperty(PROPERTY, TOLD)
    else:
        system.clearProperty(PROPERTY)


def lines_with_jobs(files: Mapping[str, str]) -> set[str]:
    """Points of the lines on which statements begin that call such a method. `files`: path -> name in points."""
    return {
        line_point(name, statement.lineno)
        for path, name in files.items()
        for statement in ast.walk(ast.parse(Path(path).read_bytes()))
        if isinstance(statement, ast.stmt) and any(map(_reads, _of_its_own(statement)))
    }


def _of_its_own(statement: ast.stmt) -> list[ast.AST]:
    """Its expressions, without those of the statements in it."""
    found: list[ast.AST] = []
    work: list[ast.AST] = [each for each in ast.iter_child_nodes(statement) if not isinstance(each, ast.stmt)]
    while work:
        each = work.pop()
        found.append(each)
        work += [inner for inner in ast.iter_child_nodes(each) if not isinstance(inner, ast.stmt)]
    return found


def _reads(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READING


class FunctionCampaign(Protocol):
    """What is known of a function: `usual`: the run without faults."""

    contract: Contract
    results: Any
    usual: Any
    trails: Mapping[str, Sequence[Passed]]  # of other queries without faults, by job


def errors(campaign: FunctionCampaign) -> Iterator[Schedule]:
    """In the second of the batches: in its rows, from its beginning and from each later line on that runs jobs of
    Spark, and before and after each of its calls to the outside; those of HTTP are refused, too. In the first one
    if it comes to lines that the second one does not come to.
    """
    yield from _errors_of_jobs(campaign)
    files = campaign.contract.given.files
    kinds = [*KINDS_AT_CALLS, *faults_of_replies(files)]
    kinds += [FAIL] if tries_again(files) else []
    passed: Counter[str] = Counter()
    first, second = ({point for _, point, at in campaign.usual.trail if at == batch} for batch in (0, 1))
    tried = (0, 1) if any(map(is_line, first - second)) else (1,)
    for _, point, batch in campaign.usual.trail:
        passed[point] += 1
        for kind in kinds if batch in tried and point not in POINTS else ():
            if KINDS[kind].applies(SINK, point):
                yield Schedule((Fault(COORDINATOR, point, passed[point], kind),))


def retried_tasks(campaign: FunctionCampaign) -> Iterator[Schedule]:
    """The first task that has ended dies: from the beginning of the second batch on, and from each later line with
    jobs. What Spark writes by itself it commits for one attempt of a task only.
    """
    if has_tasks_in_python(campaign.contract.given.files):
        yield from (replace(schedule, job=RETRIED_TASK_JOB) for schedule in _errors_of_jobs(campaign))


def errors_elsewhere(campaign: FunctionCampaign) -> Iterator[Schedule]:
    """At each kind of call that only other batches make, or recoveries; and where large ones make it more often."""
    failed = campaign.results.coverage.calls_failed
    for place in list(campaign.results.calls.values()):
        last = place.faults[-1]
        for kind in KINDS_AT_CALLS:
            if KINDS[kind].applies(SINK, last.point) and (last.point, kind) not in failed:
                yield replace(place, faults=(*place.faults[:-1], replace(last, kind=kind)))
    yield from _errors_between_more(campaign.usual.trail, campaign.trails.get(LARGE_BATCHES_JOB, ()))


def _errors_between_more(usual: Sequence[Passed], larger: Sequence[Passed]) -> list[Schedule]:
    """At the second and the last call of the second batch, where the usual one makes fewer: pages, chunks."""
    few, (earlier, many) = _calls_in(usual)[1], _calls_in(larger)
    places = [
        (point, earlier[point] + time)
        for point, times in many.items()
        for time in ((2, times) if times > max(1, few[point]) else ())
    ]
    faults = [
        Fault(COORDINATOR, point, occurrence, kind)
        for point, occurrence in dict.fromkeys(places)
        for kind in KINDS_AT_CALLS
        if KINDS[kind].applies(SINK, point)
    ]
    return [Schedule((fault,), job=LARGE_BATCHES_JOB) for fault in faults[:BETWEEN_MORE_MOST]]


def _calls_in(trail: Sequence[Passed]) -> tuple[Counter[str], Counter[str]]:
    """Of the first batch, and of the second one."""
    calls = [(point, batch) for _, point, batch in trail if point not in POINTS and not is_line(point)]
    first, second = (Counter(point for point, batch in calls if batch == number) for number in (0, 1))
    return first, second


def _errors_of_jobs(campaign: FunctionCampaign) -> Iterator[Schedule]:
    jobs, passed = lines_with_jobs(campaign.contract.given.files), Counter[str]()
    found: dict[str, Fault] = {}
    for _, point, batch in campaign.usual.trail:
        passed[point] += 1
        if batch == 1 and point in jobs:
            found.setdefault(point, Fault(COORDINATOR, point, passed[point], ERROR))
    yield Schedule((Fault(COORDINATOR, BEFORE_BATCH, 2, ERROR),))
    yield from (Schedule((fault,)) for fault in [*found.values()][1:])
