"""One real node for all tests of a run, also when several pytest workers share it; and a keyspace of a test's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from sinkproof.chaos.services.cassandra.cassandra_jars import CASSANDRA
from sinkproof.chaos.services.cassandra.local_cassandra import LocalCassandra
from sinkproof.chaos.services.local_service import WantedService
from sinkproof.chaos.services.service import silent
from sinkproof.sink_adapters.cassandra.cassandra_client import CassandraClient
from sinkproof.sink_adapters.cassandra.cassandra_contracts import CassandraContract
from sinkproof.subject.cassandra_service import CassandraService

from ...support.real_services import give_time, one_for_the_run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_time(items, {"node"})


def start(owner: int) -> LocalCassandra:
    installation = CASSANDRA.short_lived(CASSANDRA.install(CASSANDRA.version, progress=silent))
    return CASSANDRA.start(installation, WantedService(owner=owner), version=CASSANDRA.version)


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCassandra]:
    yield from one_for_the_run(request, tmp_path_factory, LocalCassandra, start)


NUMBERS = count(1)


@pytest.fixture
def clients(node: LocalCassandra) -> Iterator[Callable[[], CassandraClient]]:
    """Clients of one new keyspace with the tables of all pairs."""
    service = CassandraService(endpoint=node.endpoint, direct_endpoint=node.endpoint, identity=node.identity)
    name = f"test_{os.getpid()}_{next(NUMBERS)}"
    service.make_keyspace(name, tables=CassandraContract.tables)
    made: list[CassandraClient] = []

    def make() -> CassandraClient:
        made.append(CassandraClient(node.endpoint, name))
        return made[-1]

    yield make
    for client in made:
        client.close()
    service.remove_keyspace(name)
