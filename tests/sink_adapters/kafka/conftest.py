"""One real broker for all tests of a run, also when several pytest workers share it; and topics of a test's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from sinkproof.chaos.services.kafka.kafka_jars import KAFKA, VERSION
from sinkproof.chaos.services.kafka.local_kafka import LocalKafka, start_kafka
from sinkproof.chaos.services.local_service import WantedService
from sinkproof.chaos.services.service import silent
from sinkproof.sink_adapters.kafka.record_sender import MARKERS
from sinkproof.sink_adapters.kafka.topic_admin import COMPACTED, make_topics

from ...support.real_services import give_time, one_for_the_run
from ...support.secured_kafka import add_user, secured_address, settings_text, wanted_with_tls


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_time(items, {"broker", "own_broker", "old_broker"})


def start(owner: int, *, breakable: bool = False, features: tuple[str, ...] = ()) -> LocalKafka:
    installation = KAFKA.short_lived(KAFKA.install(VERSION, progress=silent))
    return start_kafka(
        installation, WantedService(owner=owner, breakable=breakable, features=features), version=VERSION
    )


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """It has a second listener, with TLS and a password (secured_kafka.py)."""

    def with_tls(owner: int) -> LocalKafka:
        installation = KAFKA.short_lived(KAFKA.install(VERSION, progress=silent))
        service = start_kafka(
            installation, wanted_with_tls(tmp_path_factory.mktemp("tls"), owner=owner), version=VERSION
        )
        add_user(service)
        return service

    yield from one_for_the_run(request, tmp_path_factory, LocalKafka, with_tls)


@pytest.fixture
def secured(broker: LocalKafka, tmp_path: Path) -> str:
    """The address of that listener, with a file of settings."""
    return secured_address(broker, tmp_path / "client.properties", settings_text(broker))


@pytest.fixture
def own_broker() -> Iterator[LocalKafka]:
    """A broker that faults may hit."""
    with start(os.getpid(), breakable=True) as service:
        yield service


@pytest.fixture
def old_broker() -> Iterator[LocalKafka]:
    """A broker with the older transaction protocol, without a new epoch at each end."""
    with start(os.getpid(), features=("transaction.version=0",)) as service:
        yield service


NUMBERS = count(1)


@pytest.fixture
def make_topic() -> Callable[[str], str]:
    """Makes a topic with two partitions and its markers' topic; returns its name."""

    def make(endpoint: str) -> str:
        topic = f"test-{os.getpid()}-{next(NUMBERS)}"
        make_topics(endpoint, {topic: {}, topic + MARKERS: COMPACTED}, partitions=2)
        return topic

    return make


@pytest.fixture
def topic(broker: LocalKafka, make_topic: Callable[[str], str]) -> str:
    return make_topic(broker.endpoint)
