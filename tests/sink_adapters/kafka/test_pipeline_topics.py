"""`sinkproof run etl` and `run windows` between topics on Spark: exact under every fault and after every resume."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import parse
from sinkproof.chaos.services.kafka.local_kafka import LocalKafka
from sinkproof.chaos.shared.event_log import EventLogReader
from sinkproof.pipeline.output_folder import PipelineError, locked
from sinkproof.pipeline.pipeline_progress import PipelineStatus, StatusLine
from sinkproof.pipeline.pipeline_runner import Pipeline, PipelineOutcome, prepare, run
from sinkproof.pipeline.topic_pipeline import TopicPipeline, TopicPipelineOptions
from sinkproof.reference_engine.checkpointing.restore_and_rescale import covered as offsets_in
from sinkproof.reference_engine.dataflow.windows import expected_results
from sinkproof.reference_engine.inputs.kafka_group import TopicView
from sinkproof.reference_engine.inputs.kafka_source import KafkaInput
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster
from sinkproof.sink_adapters.kafka.topic_admin import make_topics, remove_topics
from sinkproof.sink_adapters.kafka.topic_reader import read
from sinkproof.sink_adapters.protocol import Row
from sinkproof.subject.scratch import fresh_folder

SECONDS = 300.0
FAULTS = (  # each at its first occurrence after the previous one
    "sink[0].write.after#1=kill sink[1].pre_commit.after#1=kill checkpoint.persist.after#1=kill "
    "sink[0].commit.before#1=kill sink[1].commit.after#1=kill-worker checkpoint.notify#1=kill"
)
# So many rows that on a busy machine, too, some are left when the last fault strikes; then those of an aborted one.
FIRST, LATER, LAST = 3000, 3100, 3400
NUMBERS = count(1)
GROUP = "watched"


pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    folder = fresh_folder()
    with Cluster(folder=folder) as made:
        yield made
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def topics(broker: LocalKafka) -> Iterator[tuple[str, str]]:
    """An input and an output topic, two partitions each. Event times in 1970 are older than what a broker retains."""
    name = f"pipeline-{os.getpid()}-{next(NUMBERS)}"
    kept = {"retention.ms": "-1"}
    make_topics(broker.endpoint, {name: kept, f"{name}-out": kept}, partitions=2)
    yield name, f"{name}-out"
    remove_topics(broker.endpoint, [name, f"{name}-out", f"{name}-out-markers"])


def feed(broker: LocalKafka, topic: str, numbers: range, *, aborted: bool = False) -> None:
    """Sends in transactions, like a program that commits at intervals. Event time is ten times the number.

    On return all of it can be read; the broker answers a commit before that.
    """
    view = TopicView(broker.endpoint, topic)
    end = sum(view.extent()[1].values()) + len(numbers) + 2  # plus a transaction marker in each partition
    producer = Producer({"bootstrap.servers": broker.endpoint, "transactional.id": f"{topic}-feeder"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in numbers:
        producer.produce(topic, f"v{number}", f"k{number % 7}", number % 2, timestamp=1_000_000 + 10 * number)
    assert producer.flush(30) == 0
    producer.abort_transaction(30) if aborted else producer.commit_transaction(30)
    while sum(view.extent()[1].values()) < end:
        continue
    view.close()


def wanted(broker: LocalKafka, topics: tuple[str, str], **options: Any) -> TopicPipelineOptions:
    parts = {"parts": {"transform": ""}, "command": "etl", "interval_ms": 20, "batch_rows": 20}
    ends = {"endpoint": broker.endpoint, "topic_from": topics[0], "topic_to": topics[1], "group": GROUP}
    return TopicPipelineOptions(**{**parts, **ends, **options})


class Watching(StatusLine):
    def __init__(self) -> None:
        self.rows = 0

    def show(self, status: PipelineStatus) -> None:
        self.rows = status.rows


def run_topics(
    cluster: Cluster, wished: TopicPipelineOptions, path: Path, *, faults: str = "", stop_at: int = 0, crash_at: int = 0
) -> PipelineOutcome:
    """One command's work. It stops, or ends at once, when a checkpoint covers so many offsets."""
    with locked(path) as folder:
        pipeline = TopicPipeline(wished, folder)
        beginning, watching = prepare(pipeline, folder), Watching()
        folder.run.armed().arm(parse(faults or "no-fault").faults)

        def wished_now() -> bool:
            if crash_at and watching.rows >= crash_at:
                raise KeyboardInterrupt
            return bool(stop_at) and watching.rows >= stop_at

        outcome = run(pipeline, folder, cluster, beginning=beginning, progress=watching, stop_requested=wished_now)
        assert len(faults.split()) == folder.run.armed().position[1]
    return outcome


def output(broker: LocalKafka, topic: str) -> Counter[str]:
    records = read(broker.endpoint, topic)
    return Counter(f"{(record.key or b'').decode()}={(record.value or b'').decode()}" for record in records)


def moved(numbers: range) -> Counter[str]:
    return Counter(f"k{number % 7}=v{number}" for number in numbers)


def offsets_of_group(broker: LocalKafka, topic: str, *, reset_to: int | None = None) -> list[int]:
    """The group's offsets as monitoring sees them; `reset_to`: then changed, as by an administrator."""
    client = Consumer({"bootstrap.servers": broker.endpoint, "group.id": GROUP})
    places = [TopicPartition(topic, number) for number in (0, 1)]
    found = [place.offset for place in client.committed(places, timeout=30)]
    if reset_to is not None:
        client.commit(offsets=[TopicPartition(topic, number, reset_to) for number in (0, 1)], asynchronous=False)
    client.close()
    return found


@pytest.mark.row("S13")
@pytest.mark.row("S17")
def test_records_arrive_once_under_every_fault_and_with_any_offsets_of_the_group(
    cluster: Cluster, broker: LocalKafka, topics: tuple[str, str], tmp_path: Path
) -> None:
    wished, path = wanted(broker, topics), tmp_path / "etl"
    feed(broker, topics[0], range(FIRST))
    feed(broker, topics[0], range(FIRST, LATER), aborted=True)
    stopped = run_topics(cluster, wished, path, faults=FAULTS, stop_at=FIRST + 2)
    assert ("stopped", 0) == (stopped.state, stopped.rows_total - stopped.rows)
    assert moved(range(FIRST)) == output(broker, topics[1])
    _, ends = TopicView(broker.endpoint, topics[0]).extent()
    assert [ends[0], ends[1]] == offsets_of_group(broker, topics[0], reset_to=0)

    feed(broker, topics[0], range(LATER, LAST))
    with pytest.raises(KeyboardInterrupt):
        run_topics(cluster, wished, path, crash_at=stopped.rows + 1)
    offsets_of_group(broker, topics[0], reset_to=5)
    feed(broker, topics[0], range(LAST, LAST + 100))
    bounded = wanted(broker, topics, until_end=True)
    complete = run_topics(cluster, bounded, path, faults="sink[0].open.before#1=kill")
    assert ("complete", True) == (complete.state, complete.rows_before > stopped.rows)
    assert moved(range(FIRST)) + moved(range(LATER, LAST + 100)) == output(broker, topics[1])


@pytest.mark.row("S13")
def test_after_two_rows_offset_and_count_are_two_and_after_a_crash_the_third_is_counted_next(
    cluster: Cluster, broker: LocalKafka, topics: tuple[str, str], tmp_path: Path
) -> None:
    job = {"command": "count", "sink": "files/two-phase", "key": "key", "input": topics[0]}
    for rows, faults in ((2, ""), (3, "sink[0].pre_commit.after#1=kill sink[0].commit.before#1=kill")):
        producer = Producer({"bootstrap.servers": broker.endpoint})
        while TopicView(broker.endpoint, topics[0]).extent()[1][0] < rows:
            producer.produce(topics[0], "v", "k", 0)
            assert producer.flush(30) == 0
        source = KafkaInput(endpoint=broker.endpoint, topic=topics[0], begins={0: 0, 1: 0}, ends={0: rows})
        pipeline = Pipeline(source=source, sink="files/two-phase", job=job, parallelism=1, interval_ms=10)
        with locked(tmp_path / "count") as folder:
            beginning = prepare(pipeline, folder)
            folder.run.armed().arm(parse(faults or "no-fault").faults)
            assert "complete" == run(pipeline, folder, cluster, beginning=beginning, progress=StatusLine()).state
            record = folder.storage().latest()
        assert record is not None
        assert {0: rows} == offsets_in(record)
        assert [{"k": rows}] == [json.loads(state) for state in record.states["sink[0]"]["count"].values()]
    files = (tmp_path / "count").glob("committed/sink/*.jsonl")
    lines = [line for path in files for line in path.read_text().splitlines()]
    assert [(0, "1"), (1, "2"), (2, "3")] == sorted((each["offset"], each["value"]) for each in map(json.loads, lines))


@pytest.mark.row("S16")
def test_windows_count_each_record_once_under_every_fault(
    cluster: Cluster, broker: LocalKafka, topics: tuple[str, str], tmp_path: Path
) -> None:
    parts = {"size_ms": 500, "out_of_order_ms": 100, "idle_after_ms": 1000}
    feed(broker, topics[0], range(1000))
    wished = wanted(broker, topics, command="windows", parts=parts, until_end=True)
    faults = "sink[0].acknowledge.before#1=kill sink[1].pre_commit.after#1=kill sink[0].commit.before#1=kill"
    outcome = run_topics(cluster, wished, tmp_path / "windows", faults=faults)
    assert "complete" == outcome.state
    rows = [
        Row(number % 2, at, f"k{number % 7}", f"v{number}", 1_000_000 + 10 * number)
        for number, at in ((number, number // 2) for number in range(1000))
    ]
    expected = Counter(f"{row.key}={row.value}" for row in expected_results(rows, size_ms=500))
    assert expected == output(broker, topics[1])
    assert 7 * 20 == len(expected)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from", "in", "--to", "kafka:out"], "'in' names no topic. Write kafka:NAME"),
        (["--from", "kafka:a", "--to", "kafka:a"], "would read its own output endlessly"),
        (["--from", "kafka:a", "--to", "kafka:b", "--transform", "no.py:f"], "no.py.*Name a function as path"),
        (["--from", "kafka:no-such", "--to", "kafka:b"], "topic no-such cannot be read"),
        (
            ["--from", "kafka:a", "--to", "kafka:b", "--kafka", "127.0.0.1:1"],
            "no Kafka answers at 127.0.0.1:1: .*refused",
        ),
    ],
)
def test_bad_arguments_end_with_3_and_say_what_to_do(
    arguments: list[str],
    words: str,
    broker: LocalKafka,
    sinkproof_command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    address = [] if "--kafka" in arguments else ["--kafka", broker.endpoint]
    answer = sinkproof_command("run", "etl", *arguments, *address)
    assert (3, "") == (answer.returncode, answer.stdout)
    assert re.search(words, answer.stderr, re.DOTALL), answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_cluster_that_does_not_run_is_named_with_how_to_start_it(
    broker: LocalKafka, topics: tuple[str, str], sinkproof_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    ends = ("--from", f"kafka:{topics[0]}", "--to", f"kafka:{topics[1]}", "--kafka", broker.endpoint)
    answer = sinkproof_command("run", "etl", *ends, "--master", "spark://198.18.0.1:1")
    assert (3, "") == (answer.returncode, answer.stdout)
    assert "there is no Spark cluster at spark://198.18.0.1:1" in answer.stderr
    assert "sinkproof services start spark-cluster" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_another_topic_needs_another_folder(broker: LocalKafka, topics: tuple[str, str], tmp_path: Path) -> None:
    feed(broker, topics[0], range(2))
    with locked(tmp_path / "job") as folder:
        prepare(TopicPipeline(wanted(broker, topics), folder), folder)
        name = (folder.earlier() or {})["name"]
        assert name == TopicPipeline(wanted(broker, topics), folder).job["name"]
        with pytest.raises(PipelineError, match="belongs to another job: its input was"):
            prepare(TopicPipeline(wanted(broker, (topics[1], topics[0])), folder), folder)
    with locked(tmp_path / "other") as folder:
        assert name != TopicPipeline(wanted(broker, topics), folder).job["name"]


# -- the command itself ----------------------------------------------------------------------------

Starts = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(
    broker: LocalKafka, topics: tuple[str, str], tmp_path: Path, command_environment: dict[str, str]
) -> Iterator[Starts]:
    started: list[subprocess.Popen[str]] = []
    (tmp_path / "mine.py").write_text("def loud(value):\n    return None if value == b'v3' else value.upper()\n")
    ends = ["--from", f"kafka:{topics[0]}", "--to", f"kafka:{topics[1]}", "--kafka", broker.endpoint]
    options = ["--transform", "mine.py:loud", "--checkpoints", "state", "--checkpoint-interval", "20ms", "--json"]

    def begin(*more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "sinkproof", "run", "etl", *ends, *options, *more]
        pipe = subprocess.PIPE
        started.append(
            subprocess.Popen(command, cwd=tmp_path, env=command_environment, stdout=pipe, stderr=pipe, text=True)
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def wait_for_offsets(process: subprocess.Popen[str], state: Path, *, at_least: int) -> None:
    """Waits until a checkpoint of this command covers that many offsets."""
    events = state / ".sinkproof" / "events"
    before = events.stat().st_ino if events.exists() else 0
    deadline, poll = Deadline(SECONDS), select.poll()
    descriptor = os.pidfd_open(process.pid)
    poll.register(descriptor, select.POLLIN)
    while not poll.poll(20) and not deadline.over:
        if events.exists() and events.stat().st_ino != before and covered(events) >= at_least:
            os.close(descriptor)
            return
    process.kill()
    pytest.fail(f"it ended, or took too long: {process.communicate()}")


def covered(events: Path) -> int:
    reader = EventLogReader(events)
    rows = [each["rows"] for each in reader.new() if each["what"] == "complete"]
    reader.close()
    return max(rows, default=0)


@pytest.mark.row("S13")
@pytest.mark.longer
def test_ctrl_c_stops_with_a_checkpoint_sigkill_loses_nothing_and_the_same_command_resumes(
    start: Starts, broker: LocalKafka, topics: tuple[str, str], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    feed(broker, topics[0], range(200))
    stopped = start()
    wait_for_offsets(stopped, state, at_least=200)
    stopped.send_signal(signal.SIGINT)
    report = json.loads(stopped.communicate()[0])
    assert (130, "stopped", 202) == (stopped.returncode, report["state"], report["rows"])

    feed(broker, topics[0], range(200, 400))
    killed = start()
    wait_for_offsets(killed, state, at_least=400)
    killed.kill()
    killed.communicate()

    feed(broker, topics[0], range(400, 500))
    last = start("--until-end")
    report = json.loads(last.communicate()[0])
    assert (0, "complete", 0) == (last.returncode, report["state"], report["rows_total"] - report["rows"])
    assert Counter(f"k{number % 7}=V{number}" for number in range(500) if number != 3) == output(broker, topics[1])
