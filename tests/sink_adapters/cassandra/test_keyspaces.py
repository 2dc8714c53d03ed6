"""The rows of a certification are in a keyspace of its own, on the current cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from cassandra import InvalidRequest

from sinkproof.chaos.services.cassandra.local_cassandra import LocalCassandra
from sinkproof.sink_adapters.cassandra.cassandra_client import CassandraClient
from sinkproof.sink_adapters.cassandra.cassandra_contracts import PLACE, CassandraContract, RunPlace
from sinkproof.subject.cassandra_service import CLIENTS, CassandraService

SETUP = """
import sys
from pathlib import Path
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

load("cassandra/masked").given.setup(Scratch(name="test", path=Path(sys.argv[1])))
"""


def keyspaces(node: LocalCassandra) -> set[str]:
    client = CassandraClient(node.endpoint, "")
    found = client.read("SELECT keyspace_name FROM system_schema.keyspaces", ())
    client.close()
    return {name for (name,) in found}


def place(folder: Path) -> RunPlace:
    return RunPlace(*(folder / PLACE).read_text().split())


@dataclass(frozen=True)
class Finds:
    """A scratch that finds this service."""

    service_found: CassandraService
    path: Path

    def service(self, _: str, *, start: bool = False, settings: Mapping[str, object] | None = None) -> CassandraService:
        return self.service_found


def test_another_cluster_at_the_same_address_gets_a_keyspace_of_its_own(node: LocalCassandra, tmp_path: Path) -> None:
    """As after one cluster has ended and another got its port. In the test one node serves as both."""
    contract = CassandraContract("masked", claims=("EXACTLY_ONCE",), grade="exactly-once")
    found = []
    for identity in ("this", "this", "the next one"):
        service = CassandraService(endpoint=node.endpoint, direct_endpoint=node.endpoint, identity=identity, own=True)
        contract.setup(Finds(service, tmp_path))
        found.append(place(tmp_path).keyspace)
    first, again, other = found
    assert first == again != other
    assert {first, other} <= keyspaces(node)
    for name in (first, other):
        service.remove_keyspace(name)


def test_nothing_stays_on_a_cluster_of_the_user(
    node: LocalCassandra, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SINKPROOF_CASSANDRA", f"external:{node.endpoint}")
    run = subprocess.run([sys.executable, "-c", SETUP, str(tmp_path)], capture_output=True, text=True)
    assert (0, "") == (run.returncode, run.stderr)
    assert place(tmp_path).keyspace not in keyspaces(node)


def test_readings_of_one_cluster_share_a_session_until_one_fails(node: LocalCassandra) -> None:
    first, later = (
        CassandraService(endpoint=node.endpoint, direct_endpoint=node.endpoint, identity=identity)
        for identity in ("this", "the next one")
    )
    first.make_keyspace("shared", tables=["CREATE TABLE IF NOT EXISTS {ks}.rows (id int PRIMARY KEY)"])
    (session,) = CLIENTS.values()
    assert (
        []
        == first.read("shared", "SELECT id FROM {ks}.rows", ())
        == first.read("shared", "SELECT * FROM {ks}.rows", ())
    )
    assert [session] == [*CLIENTS.values()]
    assert [] == later.read("shared", "SELECT id FROM {ks}.rows", ())
    assert session not in CLIENTS.values()
    later.remove_keyspace("shared")
    with pytest.raises(InvalidRequest):
        later.read("shared", "SELECT id FROM {ks}.missing", ())
    assert {} == CLIENTS
