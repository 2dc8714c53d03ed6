"""Runs a real Cassandra cluster on this machine's loopback, from jars."""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.cassandra.node_settings import (
    COMMITLOGS,
    LOGGING,
    OPTIONS,
    SYNC,
    CassandraNode,
    CassandraSpec,
    host_of,
)
from sinkproof.chaos.services.jvm import CONTAINED, Installation, class_path
from sinkproof.chaos.services.jvm_service import JvmService, details_of
from sinkproof.chaos.services.local_service import WantedService, ports_for, started
from sinkproof.chaos.services.service import ServiceUnavailable

ANSWER_SECONDS: Final = 2.0
HEAP: Final = "512m"  # 320 is enough for an idle node
MAIN: Final = "org.apache.cassandra.service.CassandraDaemon"
# The native protocol, version 4: a request for the options that a node supports, and the header of its reply.
OPTIONS_REQUEST: Final = bytes([4, 0, 0, 0, 5, 0, 0, 0, 0])
HEAD_BYTES: Final = 9
SUPPORTED: Final = 6
# A restart flushes and compacts some fifty of them in the same way; the tables of a keyspace, too. What clients have
# requested is also in those of Paxos and of batches.
SYSTEM_TABLE: Final = re.compile(r"^/data/system\w*/(?!paxos-|batches-)\w+-[0-9a-f]{32}(?![^/])")
OTHER_TABLE: Final = re.compile(r"^(/data/(?!system)[^/]+)/\w+-[0-9a-f]{32}(?![^/])")


class LocalCassandra(JvmService):
    """Made by `start_cassandra`, or from the entry of a running cluster."""

    name = "cassandra"
    title = "Cassandra"
    alike = ((SYSTEM_TABLE, "/data/system/0"), (OTHER_TABLE, r"\1/0"))
    spec_type = CassandraSpec
    node_type = CassandraNode

    def prepare(self) -> None:
        for one in self.nodes:
            self._own(one, "yaml").write_text(self.spec.yaml(one, self.folder))
            self._own(one, "logback.xml").write_text(LOGGING.format(self._own(one, "log")))
            self._own(one, "tmp").mkdir()

    def command(self, node: CassandraNode) -> list[str]:
        libs = Path(self.installation.libs)
        where = [
            f"-Dcassandra.config=file://{self._own(node, 'yaml')}",
            f"-Dcassandra.storagedir={self.folder / f'{node.name}-data'}",
            f"-Dlogback.configurationFile={self._own(node, 'logback.xml')}",
            f"-XX:ErrorFile={self._own(node, 'crash')}",
            *(f"-D{name}={self._own(node, 'tmp')}" for name in ("java.io.tmpdir", "jna.tmpdir", "java.library.path")),
        ]
        memory = [f"-Xms{HEAP}", f"-Xmx{HEAP}", "-Xss512k", "-XX:MaxDirectMemorySize=256m"]
        options = [*memory, *CONTAINED, *self.installation.options, *OPTIONS, *where]
        return [self.installation.java, *options, "-cp", class_path(libs), MAIN]

    def is_ready(self, node: CassandraNode) -> bool:
        return supports_clients(node.address)

    def start(self, *, node: int | None = None) -> None:
        """Starts one node after the other: concurrent joins of a ring are refused."""
        for one in self.chosen(node):
            super().start(node=one.number)

    def _own(self, node: CassandraNode, what: str) -> Path:
        return self.folder / f"{node.name}.{what}"


def start_cassandra(installation: Installation, wanted: WantedService, *, version: str) -> LocalCassandra:
    """A new cluster that is ready for clients. The setting `commitlog_sync` implies the settings that it needs."""
    sync = wanted.settings.get(SYNC, "batch")
    if sync not in COMMITLOGS:
        raise ServiceUnavailable(
            f"{SYNC}: {sync} is not known", evidence=f"known: {', '.join(COMMITLOGS)}", next_step="Choose one of them"
        )

    def reserve() -> dict[str, Any]:
        port, storage_port = ports_for(2, named=[wanted.port] if wanted.port else ())
        nodes = [
            CassandraNode(number=number, host=host_of(number), port=port, storage_port=storage_port)
            for number in range(1, wanted.nodes + 1)
        ]
        spec = CassandraSpec(version=version, nodes=nodes, settings=dict(wanted.settings))
        return details_of(installation, spec, ports=[port, storage_port], wanted=wanted)

    return started(LocalCassandra, wanted, reserve)


def supports_clients(address: str) -> bool:
    """Whether a node serves clients: it opens this port as the last step of its start."""
    host, _, port = address.rpartition(":")
    deadline = Deadline(ANSWER_SECONDS)
    with suppress(OSError), socket.create_connection((host, int(port)), deadline.left) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.sendall(OPTIONS_REQUEST)
        head = connection.recv(HEAD_BYTES, socket.MSG_WAITALL)
        return len(head) == HEAD_BYTES and head[4] == SUPPORTED
    return False
