"""Each command that runs on Spark, on hosts of this machine: those of a cluster of its own, and of one that stays.

Kafka is on this machine's loopback, where no host is: relays lead there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sinkproof.chaos.clock import utc_now
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.namespace_hosts import NamespaceHosts
from sinkproof.chaos.services.spark_cluster.standing_cluster import NAME

from .conftest import assert_counted_exactly, keys_of, write_rows

pytestmark = [pytest.mark.longer, pytest.mark.timeout(1200)]
Command = Callable[..., str]
ROWS_PER_FILE, RECORDS, MINUTE_MS = 500, 600, 60_000
TRANSFORM = "def shout(value):\n    return value.upper()\n"
OWN = "cluster:3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        with NamespaceHosts(1, shared=[]):
            pass
    except ServiceUnavailable as unavailable:
        pytest.skip(" ".join(str(unavailable).split()))
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def command(folder: Path) -> Iterator[Command]:
    """Runs sinkproof to its end, with services of its own; returns what it has printed."""

    def run(*arguments: str) -> str:
        chosen = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "SINKPROOF_FRESH": "1", "COLUMNS": "120"}
        line = [sys.executable, "-m", "sinkproof", *arguments]
        done = subprocess.run(line, cwd=folder, env=chosen, capture_output=True, text=True)
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    yield run
    run("services", "stop")


@pytest.fixture(scope="module")
def kafka(command: Command) -> str:
    endpoint = command("services", "start", "kafka").strip()
    admin = AdminClient({"bootstrap.servers": endpoint})
    for made in admin.create_topics([NewTopic("in", 2, 1)]).values():
        made.result()
    producer = Producer({"bootstrap.servers": endpoint})
    begins = int(1000 * utc_now().timestamp())  # brokers remove what is old
    for number in range(RECORDS):
        at = begins + number * MINUTE_MS // 60
        producer.produce("in", key=f"k{number % 5}", value=f"v{number}", timestamp=at)
    assert 0 == producer.flush(60)
    return endpoint


@pytest.fixture(scope="module", params=[OWN, NAME])
def master(request: pytest.FixtureRequest, command: Command, folder: Path) -> str:
    if request.param == OWN:
        return OWN
    return command("services", "start", NAME, "--shared", str(folder)).strip()


def test_rows_of_files_are_counted(master: str, command: Command, folder: Path) -> None:
    out = folder / f"counts-{master.partition(':')[0]}"
    rows = folder / f"rows-{master.partition(':')[0]}"
    rows.mkdir()
    write_rows(rows, ROWS_PER_FILE)
    command("run", "count", "--rows", str(rows), "--key", "user", "--out", str(out), "--master", master)
    assert_counted_exactly(out, keys_of(ROWS_PER_FILE))


def test_records_are_moved_and_counted_by_windows(master: str, command: Command, folder: Path, kafka: str) -> None:
    (folder / "shouted.py").write_text(TRANSFORM)
    etl, windows = f"etl-{master.partition(':')[0]}", f"windows-{master.partition(':')[0]}"
    more = ["--kafka", kafka, "--until-end", "--master", master]
    command("run", "etl", "--from", "kafka:in", "--to", f"kafka:{etl}", "--transform", "shouted.py:shout", *more)
    assert Counter(f"V{number}" for number in range(RECORDS)) == records_of(kafka, etl)
    command("run", "windows", "--from", "kafka:in", "--to", f"kafka:{windows}", "--size", "1m", *more)
    assert RECORDS == sum(times * json.loads(value)["count"] for value, times in records_of(kafka, windows).items())


@pytest.mark.parametrize("master", [NAME], indirect=True)
def test_a_sink_is_certified(master: str, command: Command, folder: Path) -> None:
    """The cluster that stays is not broken: its hosts are those of others, too. On hosts of its own it takes longer."""
    out = folder / "certificate"
    command("certify", "files/two-phase", "--on", "spark", "--master", master, "--no-canaries", "--out", str(out))
    (subject,) = json.loads((out / "certificate.json").read_text())["subjects"]
    assert ("upheld", "exactly-once") == (subject["verdict"], subject["grade"])
    assert not [each for each in subject["shells"][0]["outcomes"] if each["fault"] in ("cut", "kill-host")]


def records_of(endpoint: str, topic: str) -> Counter[str]:
    options = {"bootstrap.servers": endpoint, "group.id": "test", "isolation.level": "read_committed"}
    reader = Consumer({**options, "enable.auto.commit": False, "enable.partition.eof": True})
    left = set(reader.list_topics(topic).topics[topic].partitions)
    reader.assign([TopicPartition(topic, number, 0) for number in left])
    found = Counter[str]()
    while left:
        message = reader.poll(30)
        assert message is not None
        if message.error():
            left.discard(message.partition())
        else:
            found[message.value().decode()] += 1
    reader.close()
    return found
