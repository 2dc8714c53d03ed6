"""One real broker for all tests of a run, also when several pytest workers share it; and topics of a test's own."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path

import pytest

from sinkproof.chaos.services import kafka
from sinkproof.chaos.services.kafka_local import LocalKafka, Wanted, start_kafka
from sinkproof.chaos.services.kept import Entry, Kept
from sinkproof.sink_adapters.kafka_records import MARKERS
from sinkproof.sink_adapters.kafka_topics import COMPACTED, make_topics


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A broker takes seconds to start, and on a machine that does much else a minute."""
    for item in items:
        if {"broker", "own_broker", "old_broker"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(400))


def start(owner: int, *, features: tuple[str, ...] = ()) -> LocalKafka:
    installation = kafka.short_lived(kafka.install(kafka.VERSION, progress=kafka.silent))
    return start_kafka(installation, Wanted(owner=owner, features=features), version=kafka.VERSION)


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """It must not be broken: others use it. It ends with the process that all workers are children of."""
    if not hasattr(request.config, "workerinput"):
        with start(os.getpid()) as service:
            yield service
        return
    place = tmp_path_factory.getbasetemp().parent / "broker.json"
    with Path(f"{place}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            made = start(os.getppid())
            place.write_text(json.dumps(asdict(made.entry)))
    yield LocalKafka(Kept(Entry(**json.loads(place.read_text()))), owned=False)


@pytest.fixture
def own_broker() -> Iterator[LocalKafka]:
    """One that may be broken."""
    with start(os.getpid()) as service:
        yield service


@pytest.fixture
def old_broker() -> Iterator[LocalKafka]:
    """One that ends transactions as clusters did before they gave each end another epoch."""
    with start(os.getpid(), features=("transaction.version=0",)) as service:
        yield service


NUMBERS = count(1)


@pytest.fixture
def make_topic() -> Callable[[str], str]:
    """Makes a topic with two partitions, and the one of its markers; its name."""

    def make(endpoint: str) -> str:
        topic = f"test-{os.getpid()}-{next(NUMBERS)}"
        make_topics(endpoint, {topic: {}, topic + MARKERS: COMPACTED}, partitions=2)
        return topic

    return make


@pytest.fixture
def topic(broker: LocalKafka, make_topic: Callable[[str], str]) -> str:
    return make_topic(broker.endpoint)
