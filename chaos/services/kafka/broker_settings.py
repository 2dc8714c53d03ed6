"""The settings of a Kafka broker: small, fast to start and to restart after a SIGKILL, strict with data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sinkproof.chaos.services.local_service import ServiceNode
from sinkproof.chaos.services.ports import HOST

FEW: Final = "4"  # partitions of internal topics; the default of 50 means 50 folders to make and to recover

BROKER: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "listener.security.protocol.map": "DIRECT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "DIRECT",
    "auto.create.topics.enable": "false",  # a misspelt topic is an error, not an empty view
    "num.partitions": "3",
    "offsets.topic.num.partitions": FEW,
    "transaction.state.log.num.partitions": FEW,
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "unclean.leader.election.enable": "false",  # would lose acknowledged rows, which no sink could prevent
    "transaction.max.timeout.ms": "3600000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",  # expired ones end within a second
    # A killed broker can register again only after its old session has expired: 9 s by default, 3 to 5 s with these.
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "250",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "initial.broker.registration.timeout.ms": "60000",
    "log.retention.hours": "24",
}
LOGGING: Final = """<Configuration><Appenders>
<File name="file" fileName="{}" append="true"><PatternLayout pattern="[%d] %p %m (%c{{1}})%n"/></File>
</Appenders><Loggers><Root level="INFO"><AppenderRef ref="file"/></Root></Loggers></Configuration>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaNode(ServiceNode):
    """One process, which is both broker and controller."""

    controller_port: int
    front_port: int = 0  # of the proxy, advertised to clients; 0: no proxy
    back_port: int = 0  # the listener that the proxy connects to

    @property
    def front(self) -> str:
        return f"{HOST}:{self.front_port}" if self.front_port else self.address

    @property
    def listeners(self) -> tuple[str, str]:
        """(listeners, advertised listeners). Clients of the proxy get only addresses of the proxy."""
        listeners, advertised = (
            f"DIRECT://{self.address},CONTROLLER://{HOST}:{self.controller_port}",
            f"DIRECT://{self.address}",
        )
        if not self.front_port:
            return listeners, advertised
        return f"{listeners},PROXIED://{HOST}:{self.back_port}", f"{advertised},PROXIED://{self.front}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSpec:
    """The definition of one cluster, constant over restarts."""

    version: str
    nodes: Sequence[KafkaNode]
    settings: Mapping[str, str] = field(default_factory=dict)  # they override ours
    features: Sequence[str] = ()  # name=level, for formatting the storage
    java_options: Sequence[str] = ()

    def properties(self, node: KafkaNode, folder: Path) -> str:
        """The content of server.properties."""
        count = len(self.nodes)
        voters = ",".join(f"{other.number}@{HOST}:{other.controller_port}" for other in self.nodes)
        copies, needed = ("3", "2") if count >= 3 else ("1", "1")
        own = {
            "node.id": str(node.number),
            "controller.quorum.voters": voters,
            "listeners": node.listeners[0],
            "advertised.listeners": node.listeners[1],
            "log.dirs": str(folder / f"{node.name}-data"),
            "default.replication.factor": copies,
            "min.insync.replicas": needed,
            **{f"{topic}.replication.factor": copies for topic in INTERNAL},
            **{f"{topic}.min.isr": needed for topic in INTERNAL[1:]},  # offsets follow min.insync.replicas
        }
        chosen = {**BROKER, **own, **self.settings}
        return "".join(f"{name}={value}\n" for name, value in chosen.items())


INTERNAL: Final = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
