"""A real Cassandra node: it starts, dies, restarts with its data, is paused, and leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.services.cassandra.cassandra_jars import CASSANDRA
from sinkproof.chaos.services.cassandra.local_cassandra import LocalCassandra, start_cassandra, supports_clients
from sinkproof.chaos.services.cassandra.node_settings import CassandraNode, CassandraSpec
from sinkproof.chaos.services.jvm import Installation
from sinkproof.chaos.services.local_service import WantedService
from sinkproof.chaos.services.ports import HOST, free_ports
from sinkproof.chaos.services.service import ServiceUnavailable, silent
from sinkproof.subject.cassandra_service import CassandraService

TABLE = "CREATE TABLE IF NOT EXISTS {ks}.kept (a int PRIMARY KEY)"


@pytest.fixture
def service(homes: Path, cassandra_installation: Installation) -> Iterator[LocalCassandra]:
    with CASSANDRA.use("local") as service:
        assert isinstance(service, LocalCassandra)
        yield service


def tables(service: LocalCassandra) -> list[tuple[str]]:
    client = CassandraService(
        endpoint=service.endpoint, direct_endpoint=service.direct_endpoint, identity=service.identity
    )
    return client.read("system_schema", "SELECT table_name FROM {ks}.tables WHERE keyspace_name = ?", ["mine"])


@pytest.mark.longer
def test_a_killed_node_restarts_with_its_data(service: LocalCassandra) -> None:
    CassandraService(
        endpoint=service.endpoint, direct_endpoint=service.endpoint, identity=service.identity
    ).make_keyspace("mine", tables=[TABLE])
    before = service.pid(1)
    service.kill()
    assert ([], False) == (service.living(), supports_clients(service.endpoint))
    service.start()
    assert before != service.pid(1)
    assert ([("kept",)], "") == (tables(service), service.died_by_itself())
    service.pause()
    assert not supports_clients(service.endpoint)
    service.resume()
    assert [("kept",)] == tables(service)
    service.pause()
    service.stop()
    assert [] == service.living()


@pytest.mark.parametrize("version", ["five", "5", "5.0.9; rm"])
def test_a_malformed_version_is_refused(version: str) -> None:
    with pytest.raises(ServiceUnavailable, match="is no version of Cassandra"):
        CASSANDRA.install(version, progress=silent)


def test_an_unknown_commit_log_mode_is_refused() -> None:
    installation = Installation(java="java", libs="libs")
    with pytest.raises(ServiceUnavailable, match="commitlog_sync: never"):
        start_cassandra(installation, WantedService(settings={"commitlog_sync": "never"}), version="5.0.9")


def test_an_address_without_a_listener_is_reported() -> None:
    [port] = free_ports(1, taken=())
    where = f"external:{HOST}:{port}"
    with pytest.raises(ServiceUnavailable, match="no Cassandra answers"), CASSANDRA.use(where):
        pass


def test_acknowledged_writes_are_on_disk_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    """Each mode has the settings that it needs, or the node would refuse it."""
    node = CassandraNode(number=1, host=HOST, port=1, storage_port=2)

    def log_settings(**settings: str) -> dict[str, object]:
        spec = CassandraSpec(version="5.0.9", nodes=[node], settings=settings)
        return {name: value for name, value in json.loads(spec.yaml(node, tmp_path)).items() if "log_sync" in name}

    assert {"commitlog_sync": "batch"} == log_settings()
    assert {"commitlog_sync", "commitlog_sync_period"} == set(log_settings(commitlog_sync="periodic"))
    assert {"commitlog_sync", "commitlog_sync_group_window"} == set(log_settings(commitlog_sync="group"))
