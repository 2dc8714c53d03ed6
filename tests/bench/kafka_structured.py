"""The Spark peer: Structured Streaming from topic to topic by its own at-least-once connector.

usage: kafka_structured.py FOLDER JARS ENDPOINT FROM TO ROWS_PER_BATCH. Prints rows and ms of each batch as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from sinkproof.chaos.processes.parent_death import die_with
from sinkproof.reference_engine.shells.spark.spark_session import JAVA_OPTIONS, start_session, stop_session


def main(folder: Path, jars: str, *ends: str) -> None:
    die_with(os.getppid())
    endpoint, topic_from, topic_to, rows_per_batch = ends
    optimising = {JAVA_OPTIONS: "-XX:TieredStopAtLevel=4", "spark.jars": jars}
    session = start_session(master="local[2]", folder=folder / "spark", settings=optimising)
    source = session.readStream.format("kafka").option("kafka.bootstrap.servers", endpoint)
    source = source.option("subscribe", topic_from).option("startingOffsets", "earliest")
    rows = source.option("maxOffsetsPerTrigger", rows_per_batch).load()
    sink = rows.selectExpr("key", "upper(cast(value as string)) value").writeStream.format("kafka")
    sink = sink.option("kafka.bootstrap.servers", endpoint).option("topic", topic_to)
    sink = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query = sink.start()
    query.awaitTermination()
    batches = [(one["numInputRows"], one["durationMs"]["triggerExecution"]) for one in query.recentProgress]
    stop_session(session)
    print(json.dumps([batch for batch in batches if batch[0]]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
