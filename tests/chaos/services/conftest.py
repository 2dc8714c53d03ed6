"""Fixtures: separate folders for the services of a test, and the installations that all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.cache_folders import running_folder
from sinkproof.chaos.services.cassandra.cassandra_jars import CASSANDRA
from sinkproof.chaos.services.jvm import Installation
from sinkproof.chaos.services.kafka.kafka_jars import KAFKA, VERSION
from sinkproof.chaos.services.running_services import await_exit
from sinkproof.chaos.services.service import silent
from sinkproof.chaos.services.service_daemon import DEATH_SECONDS
from sinkproof.subject.scratch import fresh_folder

BROKERS = ("installation", "shared_kafka", "cassandra_installation")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A broker takes seconds to start, and a minute on a busy machine."""
    for item in items:
        if set(BROKERS) & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def homes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Isolates the test from services that run on this machine. Yields the parent folder of service data."""
    data = fresh_folder()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SINKPROOF_SCRATCH", str(data))
    for name in ("KAFKA", "CASSANDRA", "TOXIPROXY"):
        monkeypatch.delenv(f"SINKPROOF_{name}", raising=False)
    yield data
    left = [*running_folder().glob("*.json"), *data.iterdir()]
    data.rmdir() if not left else None
    assert [] == left, "files that a service has left behind"


@pytest.fixture
def assert_gone() -> Callable[[Path], None]:
    """Waits for the removal of a path by a daemon after the death of its owner, which sends no notification."""

    def check(path: Path) -> None:
        deadline = Deadline(DEATH_SECONDS)
        while path.exists() and not deadline.over:
            await_exit(os.getpid(), 0.05)
        assert not path.exists(), f"{path} is still there"

    return check


@pytest.fixture(scope="session")
def installation() -> Installation:
    """Java and the jars of the default version, as resolved by `make services`."""
    return KAFKA.short_lived(KAFKA.install(VERSION, progress=silent))


@pytest.fixture(scope="session")
def cassandra_installation() -> Installation:
    return CASSANDRA.short_lived(CASSANDRA.install(CASSANDRA.version, progress=silent))
