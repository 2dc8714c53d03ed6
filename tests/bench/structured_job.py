"""The job of the Spark peer: Structured Streaming's own file sink, exactly once through its checkpoint and metadata.

Rows are made by Spark itself, with the columns of ours. usage: structured_job.py FOLDER FORMAT ROWS_PER_BATCH
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sinkproof.chaos.processes.parent_death import die_with
from sinkproof.reference_engine.shells.spark.spark_session import JAVA_OPTIONS, start_session

COLUMNS = (
    "cast(value % 2 as int) split",
    "value div 2 offset",
    "concat('k', lpad(cast(value % 1000 as string), 7, '0')) key",
    "concat('v', lpad(cast(value % 4096 as string), 7, '0')) value",
    "value div 2 event_time_ms",
)


def main(folder: Path, form: str, rows_per_batch: int) -> None:
    die_with(os.getppid())
    optimising = {JAVA_OPTIONS: "-XX:TieredStopAtLevel=4"}  # our sessions do not: their JVM has nothing to do
    session = start_session(master="local[2]", folder=folder / "spark", settings=optimising)
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", rows_per_batch)
    rows = source.option("numPartitions", 2).load().selectExpr(*COLUMNS)
    sink = rows.writeStream.format(form).option("checkpointLocation", str(folder / "checkpoint"))
    sink.trigger(processingTime="0 seconds").start(str(folder / "out")).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
