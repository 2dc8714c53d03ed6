"""Defines the service kind Cassandra: its version and its jars."""

from __future__ import annotations

from typing import Final

from sinkproof.chaos.services.cassandra.local_cassandra import LocalCassandra, start_cassandra, supports_clients
from sinkproof.chaos.services.jars import Artifact
from sinkproof.chaos.services.jvm_service import jvm_kind

VERSION: Final = "5.0.9"  # the behaviour that sinks rely on was measured with this version


# By default the commit log is mapped into memory, and what is written there is no call. A compressed one is written.
WRITES_BY_CALLS: Final = {"disk_access_mode": "standard", "commitlog_compression": [{"class_name": "LZ4Compressor"}]}


def count_nodes(address: str) -> int:
    """1 for every cluster that answers: how many nodes it has is not determined."""
    if not supports_clients(address):
        raise ValueError("it does not speak Cassandra's native protocol")
    return 1


CASSANDRA: Final = jvm_kind(
    LocalCassandra,
    version=VERSION,
    artifacts=lambda version: [Artifact("org.apache.cassandra", "cassandra-all", version)],
    start=start_cassandra,
    count_nodes=count_nodes,
    settings_inside=WRITES_BY_CALLS,
)
