"""The oracle for outputs that are too large for one process: a multiset difference on Spark, against the ledger.

Called by name in the driver's process, with its session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sinkproof.execution.spark_recipes import SubjectAnywhere
from sinkproof.workload.ledger import Identity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_SHOWN_MOST: Final = 50
PARTITIONS: Final = 4  # Spark's default of 200 costs more than the work itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Rows that an independent reader should not see (or not so often), and rows that it does not see."""

    rows: int  # that an independent reader sees
    lost: tuple[Identity, ...]  # as many as are shown
    lost_total: int
    extra: tuple[Identity, ...]
    extra_total: int  # repeats, and rows that were not read from the source


def difference(session: SparkSession, subject: SubjectAnywhere, lengths: Mapping[int, int]) -> Difference:
    """`lengths`: split -> rows that were read."""
    from pyspark.sql import functions as f

    session.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
    counted = _committed(session, subject).groupBy("split", "offset").agg(f.count("*").alias("times"))
    joined = _ledger(session, lengths).join(counted, ["split", "offset"], "full_outer").cache()
    lost = joined.where(f.col("times").isNull())
    surplus = f.col("times") - f.when(f.col("expected").isNull(), 0).otherwise(1)
    extra = joined.where(f.col("times").isNotNull()).withColumn("surplus", surplus).where("surplus > 0")
    totals = joined.agg(
        f.coalesce(f.sum("times"), f.lit(0)).alias("rows"),
        f.count(f.when(f.col("times").isNull(), 1)).alias("lost"),
    ).first()
    more = extra.agg(f.coalesce(f.sum("surplus"), f.lit(0)).alias("extra")).first()
    if totals is None or more is None:
        raise RuntimeError("Spark has returned no row for an aggregate of everything")
    found = Difference(
        rows=int(totals["rows"]),
        lost=_rows(lost),
        lost_total=int(totals["lost"]),
        extra=_rows(extra),
        extra_total=int(more["extra"]),
    )
    joined.unpersist()
    return found


def _committed(session: SparkSession, subject: SubjectAnywhere) -> DataFrame:
    contract, scratch = subject.contract(), subject.scratch()
    frame_of = contract.optional("committed_frame")
    if frame_of is not None:
        frame: DataFrame = frame_of(session, scratch)
        return frame
    import pyarrow as pa

    rows = contract.committed(scratch)
    columns = {"split": [split for split, _ in rows], "offset": [offset for _, offset in rows]}
    table = pa.table(columns, schema=pa.schema([("split", pa.int32()), ("offset", pa.int64())]))
    return session.createDataFrame(table)


def _ledger(session: SparkSession, lengths: Mapping[int, int]) -> DataFrame:
    from pyspark.sql import functions as f

    parts = [
        session.range(length).select(f.lit(split).cast("int").alias("split"), f.col("id").alias("offset"))
        for split, length in sorted(lengths.items())
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    return whole.withColumn("expected", f.lit(1))


def _rows(frame: DataFrame) -> tuple[Identity, ...]:
    few = frame.select("split", "offset").orderBy("split", "offset").limit(ROWS_SHOWN_MOST).collect()
    return tuple((int(row["split"]), int(row["offset"])) for row in few)
