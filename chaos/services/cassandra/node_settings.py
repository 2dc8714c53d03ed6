"""The settings of a Cassandra node: small, fast to start and to restart after a SIGKILL, durable before it replies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.services.local_service import ServiceNode
from sinkproof.chaos.services.ports import HOST

PLAIN: Final[Mapping[str, Any]] = {
    "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
    "endpoint_snitch": "SimpleSnitch",
    "num_tokens": 1,
    "auto_bootstrap": False,
    "start_native_transport": True,
    "commitlog_segment_size": "8MiB",
    "memtable_allocation_type": "heap_buffers",
    "memtable_heap_space": "64MiB",
    "memtable_offheap_space": "64MiB",
    "key_cache_size": "4MiB",
    "counter_cache_size": "0MiB",
    "file_cache_size": "16MiB",
    "networking_cache_size": "8MiB",
    "concurrent_reads": 8,
    "concurrent_writes": 8,
    "concurrent_counter_writes": 4,
    "concurrent_compactors": 1,
    "auto_snapshot": False,  # a dropped table would stay on disk
    "dynamic_snitch": False,
    "paxos_variant": "v2",
    # Short, so that a paused node causes a timeout within a sink's call, for which engines allow ten seconds.
    "read_request_timeout": "3000ms",
    "range_request_timeout": "3000ms",
    "request_timeout": "3000ms",
    "write_request_timeout": "2000ms",
    "cas_contention_timeout": "1800ms",
    "server_encryption_options": {"internode_encryption": "none"},
    "client_encryption_options": {"enabled": False},
}
SYNC: Final = "commitlog_sync"
# How soon an acknowledged write is on disk. "batch": before it is acknowledged. The default is "periodic": a crash
# within the next ten seconds loses acknowledged writes, so no sink can be exactly-once on it.
COMMITLOGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "batch": {},
    "group": {"commitlog_sync_group_window": "5ms"},
    "periodic": {"commitlog_sync_period": "10000ms"},
}
LOGGING: Final = """<configuration><appender name="FILE" class="ch.qos.logback.core.FileAppender"><file>{}</file>
<encoder><pattern>%-5level [%thread] %date{{ISO8601}} %F:%L - %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="FILE"/></root></configuration>
"""
# Internals of Java 17 that Cassandra 5 uses; without each of these it ends at once, or at its first flush.
EXPORTED: Final = (
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.attach/sun.tools.attach",
    "jdk.unsupported/sun.misc",
)
OPENED: Final = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)
OPTIONS: Final = (
    *(f"--add-exports={package}=ALL-UNNAMED" for package in EXPORTED),
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dcassandra-foreground=yes",
    # Waits for other nodes are useless on loopback: with the default settings a start takes half a minute.
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.ring_delay_ms=500",
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-Dcassandra.shutdown_announce_in_ms=0",
    "-Dcassandra.consistent.rangemovement=false",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraNode(ServiceNode):
    storage_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraSpec:
    """The definition of one cluster, constant over restarts."""

    version: str
    nodes: Sequence[CassandraNode]
    settings: Mapping[str, Any] = field(default_factory=dict)  # they override ours

    def yaml(self, node: CassandraNode, folder: Path) -> str:
        """The content of cassandra.yaml; JSON is YAML."""
        data = folder / f"{node.name}-data"
        sync = self.settings.get(SYNC, "batch")
        token = -(1 << 63) + (node.number - 1) * ((1 << 64) // len(self.nodes))  # evenly spread over the ring
        seed = f"{self.nodes[0].host}:{self.nodes[0].storage_port}"
        seeds = {"class_name": "org.apache.cassandra.locator.SimpleSeedProvider", "parameters": [{"seeds": seed}]}
        own = {
            "cluster_name": "sinkproof",
            "initial_token": str(token),
            "listen_address": node.host,
            "rpc_address": node.host,
            "native_transport_port": node.port,
            "storage_port": node.storage_port,
            "ssl_storage_port": node.storage_port,  # not used without encryption
            "seed_provider": [seeds],
            "data_file_directories": [str(data / "data")],
            **{f"{name}_directory": str(data / name) for name in ("commitlog", "saved_caches", "hints", "cdc_raw")},
            SYNC: sync,
            **COMMITLOGS.get(sync, {}),
        }
        return json.dumps({**PLAIN, **own, **self.settings}, indent=1)


def host_of(number: int) -> str:
    """All nodes of a cluster have the same client port, so each needs its own address."""
    return HOST if number == 1 else HOST[: HOST.rindex(".") + 1] + str(number)
