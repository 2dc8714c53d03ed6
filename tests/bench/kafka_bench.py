"""The Kafka part of `make bench`: topic to topic, exactly once, beside a loop by hand and Spark's own Kafka sink."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import kafka_loop
import kafka_rows
import kafka_structured

from sinkproof.chaos.services.cache_folders import cache_folder, made_once
from sinkproof.chaos.services.jars import DEPENDENCY, POM, Artifact
from sinkproof.chaos.services.kafka.kafka_jars import KAFKA
from sinkproof.chaos.services.local_service import WantedService
from sinkproof.chaos.services.service import silent
from sinkproof.pipeline.output_folder import locked
from sinkproof.pipeline.pipeline_progress import PipelineStatus, StatusLine
from sinkproof.pipeline.pipeline_runner import prepare, run
from sinkproof.pipeline.topic_pipeline import TopicPipeline, TopicPipelineOptions
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster
from sinkproof.sink_adapters.kafka.pipeline_output import KafkaOutput, ensure_topics
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.subject.scratch import fresh_folder

INTERVAL_MS = 200
# On two cores with nothing else to do. A record takes 5 us of them: 2.9 in Python (consume 0.7, produce 0.9, the rest
# is calls on each), 0.4 in the client's threads, 1.7 in the broker. So about 400,000 is what they could do at most.
AIM = 300_000
ROWS_PER_SECOND = 400_000  # of what is made beforehand: enough for a machine that is faster than the aim
TRANSACTIONS = 20
ROOM = ("-Xms512m", "-Xmx512m")  # with the 256 MiB of a broker for tests a tenth of its time goes into making room
# As Spark's documents name them for the connector, but one by one: they do not resolve as a package for every PySpark.
CONNECTOR = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.2"),
    Artifact("org.apache.commons", "commons-pool2", "2.13.1"),
)
WITHOUT_ITS_OWN = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
Measured = dict[str, Any]


class Noting(StatusLine):
    """When complete checkpoints covered how many rows."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def show(self, status: PipelineStatus) -> None:
        if status.rows and (not self.seen or self.seen[-1][1] != status.rows):
            self.seen.append((monotonic(), status.rows))

    @property
    def rows_per_s(self) -> float:
        (began, first), (ended, last) = self.seen[0], self.seen[-1]
        return (last - first) / (ended - began) if ended > began else 0.0


def etl(cluster: Cluster, endpoint: str, folder: Path) -> float:
    wanted = TopicPipelineOptions(
        command="etl",
        endpoint=endpoint,
        topic_from="in",
        topic_to="etl",
        until_end=True,
        interval_ms=INTERVAL_MS,
        parts={"transform": f"{kafka_rows.__file__}:upper"},
    )
    noting = Noting()
    with locked(folder / "etl") as home:
        pipeline = TopicPipeline(wanted, home)
        run(pipeline, home, cluster, beginning=prepare(pipeline, home), progress=noting)
    return noting.rows_per_s


def by_hand(endpoint: str, rows: int, *, topic: str) -> float:
    """One process for each partition, as there is one subtask for each."""
    ensure_topics(endpoint, topic, partitions=kafka_rows.PARTITIONS)
    each = str(rows // kafka_rows.PARTITIONS)
    command = [sys.executable, kafka_loop.__file__, endpoint, "in", topic]
    started = [
        subprocess.Popen([*command, str(number), each], stdout=subprocess.PIPE, text=True)
        for number in range(kafka_rows.PARTITIONS)
    ]
    printed = [process.communicate()[0].split() for process in started]
    began, ended = min(float(one[0]) for one in printed), max(float(one[1]) for one in printed)
    return sum(int(one[2]) for one in printed) / (ended - began) if ended > began else 0.0


def structured(endpoint: str, folder: Path, rows: int) -> float:
    """Without its first batch, in which everything is compiled."""
    ensure_topics(endpoint, "structured", partitions=kafka_rows.PARTITIONS)
    libs = cache_folder() / "spark-kafka-connector"
    made_once(libs, fetch_connector, progress=silent)
    jars = ",".join(str(libs / f"{one.name}-{one.version}.jar") for one in CONNECTOR)
    ends = [str(folder), jars, endpoint, "in", "structured", str(rows // 4)]
    answer = subprocess.run([sys.executable, kafka_structured.__file__, *ends], stdout=subprocess.PIPE, check=True)
    batches = json.loads(answer.stdout)[1:]
    return 1000 * sum(count for count, _ in batches) / sum(took for _, took in batches)


def fetch_connector(folder: Path) -> None:
    """These jars and no others: what they name besides is in PySpark, or does not resolve."""
    wanted = [DEPENDENCY.format(*one).replace("</version>", f"</version>{WITHOUT_ITS_OWN}") for one in CONNECTOR]
    pom = folder / "pom.xml"
    pom.write_text(POM.format("\n".join(wanted)))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *goal], check=True, stdout=sys.stderr)
    pom.unlink()


def transaction_ms(endpoint: str, *, anew: bool) -> float:
    """The median time of a hundred records, from the beginning of their transaction to its end."""
    ensure_topics(endpoint, "costs", partitions=kafka_rows.PARTITIONS)
    rows = Batch([Row(0, number, f"k{number}", "v" * kafka_rows.VALUE_BYTES) for number in range(100)])
    once = _with_a_producer_each(endpoint, rows) if anew else _with_one_producer(endpoint, rows)
    times = []
    for number in range(TRANSACTIONS):
        began = monotonic()
        once(number)
        times.append(1000 * (monotonic() - began))
    return median(times)


def _with_a_producer_each(endpoint: str, rows: Batch) -> Callable[[int], None]:
    target = KafkaOutput(endpoint, "costs", prefix=f"costs-{os.getpid()}")
    target.producers_made_ahead = False
    target.attach(Context(generation=1))

    def once(number: int) -> None:
        made = target.begin(Transaction.of(Owner("sink", 0, 1), 1, number))
        target.write(made, rows)
        target.commit(target.pre_commit(made))

    return once


def _with_one_producer(endpoint: str, rows: Batch) -> Callable[[int], None]:
    """As the library's documentation shows it; but no other process could commit such a transaction."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": endpoint, "transactional.id": f"one-{os.getpid()}", "linger.ms": 1})
    producer.init_transactions()

    def once(number: int) -> None:
        producer.begin_transaction()
        for row in rows:
            producer.produce("costs", row.value, row.key)
        producer.commit_transaction()

    return once


def measure(seconds: float) -> list[Measured]:
    rows = int(ROWS_PER_SECOND * seconds)
    # As for a short life: what the optimising compiler takes for itself, it does not give back in a few seconds.
    installation = KAFKA.short_lived(KAFKA.install(KAFKA.version, progress=silent))
    folder = fresh_folder()
    try:
        with KAFKA.start(installation, WantedService(java_options=ROOM), version=KAFKA.version) as service:
            return _lines(service.endpoint, folder, rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _lines(endpoint: str, folder: Path, rows: int) -> list[Measured]:
    ensure_topics(endpoint, "in", partitions=kafka_rows.PARTITIONS)
    kafka_rows.fill(endpoint, "in", rows)
    by_hand(endpoint, rows, topic="warm-up")  # for some seconds the broker compiles its code; nothing is measured then
    with Cluster(folder=folder / "spark", master="local[2,100000]") as cluster:
        ours = etl(cluster, endpoint, folder)
    wrong = kafka_rows.difference(endpoint, "etl", rows)
    hand = by_hand(endpoint, rows, topic="loop")
    try:
        theirs = structured(endpoint, folder, rows)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"bench: Spark's own Kafka sink is not measured: {error}", file=sys.stderr)
        theirs = 0.0
    anew, same = transaction_ms(endpoint, anew=True), transaction_ms(endpoint, anew=False)
    return [
        {
            **_line(f"ETL exactly once, checkpoints every {INTERVAL_MS} ms", ours, "records/s", aim=AIM),
            **{
                name: round(ours / value, 2)
                for name, value in (("against_hand", hand), ("against_spark", theirs))
                if value
            },
            **({"wrong": wrong} if wrong else {}),
        },
        _line("a transactional loop by hand, two processes", hand, "records/s"),
        _line("Spark's own Kafka sink, at least once", theirs, "records/s"),
        _line("a transaction of 100 records, a producer each", anew, "ms"),
        _line("the same, one producer for all", same, "ms"),
    ]


def _line(what: str, value: float, unit: str, *, aim: int | None = None) -> Measured:
    return {"what": what, "value": round(value) if value > 1000 else round(value, 1), "unit": unit, "aim": aim}


def table(rows: list[Measured]) -> Iterator[str]:
    yield f"{'Kafka to Kafka':52}{'':>12} {'':14}{'aim':>10}  x by hand  x Spark's sink"
    for row in rows:
        value, aim = f"{row['value']:,}", f"{row['aim']:,}" if row["aim"] else ""
        ratios = f"{row.get('against_hand', ''):9}  {row.get('against_spark', ''):14}"
        wrong = f"  WRONG: {row['wrong']}" if "wrong" in row else ""
        yield f"{row['what']:52}{value:>12} {row['unit']:14}{aim:>10}  {ratios}{wrong}".rstrip()


if __name__ == "__main__":
    print(*table(measure(float(sys.argv[1]) if sys.argv[1:] else 2.5)), sep="\n")
