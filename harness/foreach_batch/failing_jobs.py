"""Jobs of Spark that fail as they read a row of their batch: from its beginning, or from a line of the function on."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sinkproof.chaos.points import is_line, line_point
from sinkproof.foreach_batch.certifying_query import BEFORE_BATCH, ERROR, INJECTED
from sinkproof.workload.ledger import Identity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sinkproof.chaos.schedule import Fault

PROPERTY: Final = "sinkproof-jobs-fail"  # of the JVM in which a local session runs its jobs, too
FAIL: Final = "yes"
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
    told = f"reflect('java.lang.System', 'getProperty', '{PROPERTY}') = '{FAIL}'"
    fails = f"CAST(raise_error('{INJECTED}') AS BOOLEAN)"
    return frame.where(f"CASE WHEN split = {split} AND offset = {offset} AND {told} THEN {fails} ELSE true END")


def let_jobs_fail(session: SparkSession, *, fail: bool) -> None:
    system: Any = session.sparkContext._jvm.java.lang.System  # type: ignore[union-attr]
    if fail:
        system.setProperty(PROPERTY, FAIL)
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
