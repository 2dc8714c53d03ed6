"""Defines the service kind Cassandra: its version, its jars, and its external form."""

from __future__ import annotations

from typing import Final

from sinkproof.chaos.services.cassandra.local_cassandra import LocalCassandra, start_cassandra, supports_clients
from sinkproof.chaos.services.external_service import ExternalService
from sinkproof.chaos.services.jars import Artifact
from sinkproof.chaos.services.jvm_service import jvm_kind

VERSION: Final = "5.0.9"  # the behaviour that sinks rely on was measured with this version


class ExternalCassandra(ExternalService):
    """A cluster that sinkproof does not run. Its number of nodes is not determined."""

    name = "cassandra"
    title = "Cassandra"

    @staticmethod
    def count_nodes(address: str) -> int:
        if not supports_clients(address):
            raise ValueError("it does not speak Cassandra's native protocol")
        return 1


CASSANDRA: Final = jvm_kind(
    LocalCassandra,
    version=VERSION,
    artifacts=lambda version: [Artifact("org.apache.cassandra", "cassandra-all", version)],
    start=start_cassandra,
    external=ExternalCassandra,
)
