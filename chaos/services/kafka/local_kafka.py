"""Runs a real Kafka cluster on this machine's loopback, from jars: each broker is also a controller (KRaft)."""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.messages.message_points import MessageFaults
from sinkproof.chaos.services.jvm import CONTAINED, Installation, class_path
from sinkproof.chaos.services.jvm_service import JvmService, details_of
from sinkproof.chaos.services.kafka.broker_readiness import is_ready
from sinkproof.chaos.services.kafka.broker_settings import LOGGING, KafkaNode, KafkaSpec
from sinkproof.chaos.services.local_service import WantedService, ports_for, started
from sinkproof.chaos.services.ports import HOST
from sinkproof.chaos.services.service import ServiceFailed

FORMAT_SECONDS: Final = 60.0  # takes 1
PROXY: Final = "proxy"  # the name of its process
PROXY_PORT: Final = "proxy_port"  # in the entry: its control port; 0: no proxy
PORTS_OF_NODE: Final = ("number", "port", "controller_port", "front_port", "back_port")


class LocalKafka(JvmService):
    """Made by `start_kafka`, or from the entry of a running cluster."""

    name = "kafka"
    title = "Kafka"
    spec_type = KafkaSpec
    node_type = KafkaNode

    @property
    def endpoint(self) -> str:
        return ",".join(node.front for node in self.nodes)

    @property
    def direct_endpoint(self) -> str:
        return super().endpoint

    @property
    def messages(self) -> MessageFaults | None:
        """The client of the proxy, if there is a proxy."""
        port = self.entry.details.get(PROXY_PORT, 0)
        return MessageFaults(f"{HOST}:{port}") if port else None

    def lead_through(self, way: Callable[[str], str]) -> str:
        """Brokers still advertise the message proxy; that proxy now connects to `way(address)` of each broker."""
        assert self.messages is not None, "a breakable cluster has a proxy"
        addresses = {one.back_port: way(f"{HOST}:{one.back_port}") for one in self.nodes}
        self.messages.reroute({port: int(address.rpartition(":")[2]) for port, address in addresses.items()})
        return self.endpoint

    def start(self, *, node: int | None = None) -> None:
        port = self.entry.details.get(PROXY_PORT, 0)
        if port and not self._handle.lives(PROXY):
            routes = [(one.front_port, one.back_port) for one in self.nodes]
            program = f"from sinkproof.chaos.messages.message_proxy import main; main({port}, {routes})"
            self._handle.spawn(PROXY, [sys.executable, "-P", "-c", program])
        super().start(node=node)

    def prepare(self) -> None:
        """Formats the storage of every node: cluster id and voters."""
        cluster_id = base64.urlsafe_b64encode(hashlib.sha256(str(self.folder).encode()).digest()[:16]).decode()
        cluster_id = "A" + cluster_id.rstrip("=")[1:]  # a name that begins with a dash would be an option
        for one in self.spec.nodes:
            self._properties(one).write_text(self.spec.properties(one, self.folder))
            self._logging(one).write_text(LOGGING.format(self.folder / f"{one.name}.log"))
            features = [word for feature in self.spec.features for word in ("--feature", feature)]
            what = ["format", "--cluster-id", cluster_id, "--config", str(self._properties(one)), *features]
            command = self._java(one, "kafka.tools.StorageTool", *what)
            self._handle.spawn(f"format-{one.number}", command, image=self.image)
        deadline = Deadline(FORMAT_SECONDS)
        for one in self.spec.nodes:
            name = f"format-{one.number}"
            self._handle.await_end(name, deadline)
            status = self._handle.status_of(name)
            if status is None or status.exit_status != 0:
                raise ServiceFailed(
                    f"Kafka {self.spec.version} cannot prepare the folder of {one.name}",
                    evidence=self._handle.last_output(name) or f"status {status and status.exit_status}",
                    next_step="Check the requested settings and features",
                )

    def command(self, node: KafkaNode) -> list[str]:
        return self._java(node, "kafka.Kafka", str(self._properties(node)))

    def is_ready(self, node: KafkaNode) -> bool:
        return is_ready(node.address, node=node.number, nodes=len(self.living_nodes(None)))

    def _java(self, node: KafkaNode, main: str, *arguments: str) -> list[str]:
        heap = "256m" if len(self.spec.nodes) == 1 else "320m"
        logging = f"-Dlog4j2.configurationFile={self._logging(node)}"
        where = [f"-Djava.io.tmpdir={self.folder}", f"-XX:ErrorFile={self.folder}/{node.name}.crash", logging]
        options = [f"-Xmx{heap}", f"-Xms{heap}", *CONTAINED, *self.installation.options, *self.spec.java_options]
        path = class_path(Path(self.installation.libs))
        return [self.installation.java, *options, *where, "-cp", path, main, *arguments]

    def _properties(self, node: KafkaNode) -> Path:
        return self.folder / f"{node.name}.properties"

    def _logging(self, node: KafkaNode) -> Path:
        return self.folder / f"{node.name}.log4j2.xml"


def start_kafka(installation: Installation, wanted: WantedService, *, version: str) -> LocalKafka:
    """A new cluster that is ready for clients."""

    def reserve() -> dict[str, Any]:
        each = 4 if wanted.breakable else 2
        ports = ports_for(each * wanted.nodes + wanted.breakable, named=wanted.ports_named)
        clients, rest = ports[: wanted.nodes], ports[wanted.nodes :]
        proxy_port = rest.pop() if wanted.breakable else 0
        nodes = [
            KafkaNode(
                **dict[str, Any](zip(PORTS_OF_NODE, (number, port, *rest[number - 1 :: wanted.nodes]), strict=False))
            )
            for number, port in enumerate(clients, 1)
        ]
        spec = KafkaSpec(
            version=version,
            nodes=nodes,
            settings=dict(wanted.settings),
            features=wanted.features,
            java_options=wanted.java_options,
        )
        return {**details_of(installation, spec, ports=ports, wanted=wanted), PROXY_PORT: proxy_port}

    return started(LocalKafka, wanted, reserve)
