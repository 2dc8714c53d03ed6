"""What `scratch.service("cassandra")` returns: a cluster that all processes of one certification share."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from atexit import register as at_exit  # the true one, as in services_in_use.py
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sinkproof.chaos.services.cassandra.cassandra_jars import CASSANDRA
from sinkproof.sink_adapters.cassandra.cassandra_client import CassandraClient
from sinkproof.subject.services_in_use import NO_SETTINGS, ServicesInUse

REMOVE: Final = "import sys; from sinkproof.subject.cassandra_service import drop; drop(*sys.argv[1:])"

CLIENTS: Final[dict[tuple[int, str, str], CassandraClient]] = {}  # of this process, to one cluster: the last one used


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraService:
    """A running cluster. `endpoint`: for sinks; `direct_endpoint`: for readers. `own`: it ends with the certification.
    `identity`: of the cluster and its data; another cluster may have the same address later.
    """

    endpoint: str
    direct_endpoint: str
    identity: str
    node_count: int = 1
    own: bool = False

    def make_keyspace(self, name: str, *, tables: Sequence[str] = ()) -> None:
        """A keyspace with one copy on each node, at most three. `tables`: statements that call the keyspace {ks}."""
        copies = min(self.node_count, 3)
        replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {copies}}}"
        created = f"CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = {replication}"
        self._client(name).define([created, *tables])

    def remove_keyspace(self, name: str) -> None:
        drop(self.direct_endpoint, name)

    def remove_keyspace_at_exit(self, name: str) -> None:
        """When this process ends, but not when a forked child of it ends. The cluster may have ended before."""
        at_exit(_drop_in_new_process, self.direct_endpoint, name, os.getpid())

    def read(self, keyspace: str, statement: str, values: Sequence[Any]) -> list[Any]:
        """Rows as tuples, read over a connection that no sink has. The statement calls the keyspace {ks}."""
        client = self._client(keyspace)
        try:
            return client.read(statement, values)
        except BaseException:
            close_clients()  # it may wait for an answer
            raise

    def _client(self, keyspace: str) -> CassandraClient:
        """Kept, as a session takes 40 ms, and a reader reads after each checkpoint."""
        key = os.getpid(), self.identity, keyspace
        if key not in CLIENTS:
            close_clients()
            close_at_exit()
            CLIENTS[key] = CassandraClient(self.direct_endpoint, keyspace)
        return CLIENTS[key]


@cache
def close_at_exit() -> None:
    """Before executors end, which the driver's threads use while a session is open: `atexit` is later."""
    import concurrent.futures.thread  # noqa: F401  # what is registered first is called last

    threading._register_atexit(close_clients)  # type: ignore[attr-defined]


def close_clients() -> None:
    """Those of other clusters would try to reconnect for ever when these have ended."""
    while CLIENTS:
        CLIENTS.popitem()[1].close()


def drop(endpoint: str, keyspace: str) -> None:
    outside = CassandraClient(endpoint, "")
    outside.define([f"DROP KEYSPACE IF EXISTS {keyspace}"])
    outside.close()


def _drop_in_new_process(endpoint: str, keyspace: str, owner: int) -> None:
    """The driver needs threads, and a process that ends cannot start any."""
    if os.getpid() == owner:
        command = [sys.executable, "-P", "-c", REMOVE, endpoint, keyspace]
        subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True)


def cassandra_service(
    services: ServicesInUse, *, start: bool, settings: Mapping[str, Any] = NO_SETTINGS
) -> CassandraService:
    """See ServicesInUse.find."""
    used = services.find(CASSANDRA, start=start, settings=settings)
    return CassandraService(
        endpoint=services.sink_address(used),
        direct_endpoint=used.service.direct_endpoint,
        identity=used.service.identity,
        node_count=used.service.node_count,
        own=used.own,
    )
