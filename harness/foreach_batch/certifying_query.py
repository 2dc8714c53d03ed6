"""The streaming query that certifies foreachBatch functions: three batches of four rows, the same at every replay.

Row number v of the source is row (v % 2, v // 2). Both shells select from a column of such numbers: the simulated one
from a range, the real one from Spark's rate-micro-batch source, which is endless and is cut after the last row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sinkproof.judging.altered_rows import Fields
from sinkproof.judging.oracle import Anomaly, Observation, judge
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.workload.ledger import Identity, Ledger
from sinkproof.workload.rows import make_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCHES: Final = 3
BATCH_ROWS: Final = 4
SPLITS: Final = 2
ROWS: Final = BATCHES * BATCH_ROWS
PARTITIONS: Final = 2
LEDGER: Final = Ledger(GeneratedInput(make_row, splits=SPLITS, rows_per_split=ROWS // SPLITS))

BEFORE_BATCH: Final = "micro_batch.batch.before"
BEFORE_COMMIT: Final = "micro_batch.commit.before"
AFTER_COMMIT: Final = "micro_batch.commit.after"
POINTS: Final[Mapping[str, str]] = {
    BEFORE_BATCH: "offsets/N is written, the function is about to be called",
    BEFORE_COMMIT: "the function has returned, commits/N is not written",
    AFTER_COMMIT: "commits/N was written",
}
KILL: Final = "kill-job"
LOSE: Final = "lose"
EARLY: Final = "O3"  # the oracle


def anomalies_of(ending: Observation, rows: str, *, fields: Fields | None = None) -> tuple[Anomaly, ...]:
    """Of one run of the query. `ending`: how it ended, and what a reader read then; its early rows are those of a batch
    that was not recorded. `rows`: of the contract. `fields`: that the reader shows, as a run without faults tells.
    """
    return judge(LEDGER, replace(ending, finished=not ending.failure), rows=rows, fields=fields)


def identities_of_batch(batch: int) -> set[Identity]:
    return {(value % SPLITS, value // SPLITS) for value in range(batch * BATCH_ROWS, (batch + 1) * BATCH_ROWS)}


def frame_of_batch(session: SparkSession, batch: int) -> DataFrame:
    first = batch * BATCH_ROWS
    return rows_of(session.range(first, first + BATCH_ROWS, 1, PARTITIONS).toDF("value"))


def endless_frame(session: SparkSession) -> DataFrame:
    """For a query that is started once per batch: the source gives one batch to each start."""
    options: dict[str, Any] = {"rowsPerBatch": BATCH_ROWS, "numPartitions": PARTITIONS, "startTimestamp": 1000}
    return rows_of(session.readStream.format("rate-micro-batch").options(**options).load())


def rows_of(numbers: DataFrame) -> DataFrame:
    """The columns of Row. Keys, values and times are literals, so that no Python runs in Spark."""
    made = [LEDGER.rows[value % SPLITS, value // SPLITS] for value in range(ROWS)]
    at = "cast(value AS int) + 1"
    return numbers.where(f"value < {ROWS}").selectExpr(
        f"cast(value % {SPLITS} AS int) AS split",
        f"cast(value div {SPLITS} AS bigint) AS offset",
        f"element_at(array({_texts([row.key for row in made])}), {at}) AS key",
        f"element_at(array({_texts([row.value for row in made])}), {at}) AS value",
        f"element_at(array({', '.join(f'{row.event_time_ms}L' for row in made)}), {at}) AS event_time_ms",
    )


def _texts(words: list[str]) -> str:
    assert all(re.fullmatch(r"[\w.]+", word) for word in words)
    return ", ".join(f"'{word}'" for word in words)
