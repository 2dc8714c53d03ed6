"""What `scratch.service("cassandra")` gives to contracts: a cluster that all processes of one certification find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sinkproof.chaos.services.cassandra import CASSANDRA
from sinkproof.network import way_to
from sinkproof.services_in_use import NO_SETTINGS, service_in_use
from sinkproof.sink_adapters.cassandra_client import CassandraClient


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraService:
    """A cluster that is there. `endpoint`: for sinks; `direct_endpoint`: for readers. `own`: it ends with us."""

    endpoint: str
    direct_endpoint: str
    node_count: int = 1
    own: bool = False

    def make_keyspace(self, name: str, *, tables: Sequence[str] = ()) -> None:
        """With as many copies as the cluster can have, up to three. `tables`: statements that call it {ks}."""
        copies = min(self.node_count, 3)
        replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {copies}}}"
        outside = CassandraClient(self.direct_endpoint, "")
        outside.define([f"CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = {replication}"])
        outside.close()
        inside = CassandraClient(self.direct_endpoint, name)
        inside.define(tables)
        inside.close()

    def remove_keyspace(self, name: str) -> None:
        outside = CassandraClient(self.direct_endpoint, "")
        outside.define([f"DROP KEYSPACE IF EXISTS {name}"])
        outside.close()

    def read(self, keyspace: str, statement: str, values: Sequence[Any]) -> list[Any]:
        """Rows as tuples, by a reader of its own. The statement calls the keyspace {ks}."""
        reader = CassandraClient(self.direct_endpoint, keyspace)
        try:
            return reader.read(statement, values)
        finally:
            reader.close()


def cassandra_service(*, start: bool, settings: Mapping[str, Any] = NO_SETTINGS) -> CassandraService:
    """See services_in_use.service_in_use."""
    used = service_in_use(CASSANDRA, start=start, settings=settings)
    return CassandraService(
        endpoint=way_to(used),
        direct_endpoint=used.service.direct_endpoint,
        node_count=used.service.node_count,
        own=used.own,
    )
