"""A real Kafka cluster on this machine's loopback, from jars: brokers that are their own controllers (KRaft)."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.jvm import CONTAINED, class_path
from sinkproof.chaos.services.kafka_metadata import is_ready
from sinkproof.chaos.services.kafka_settings import LOGGING, KafkaSpec, Node
from sinkproof.chaos.services.kept import Entry, Kept, keep, pause, running, tail
from sinkproof.chaos.services.places import locked, running_folder
from sinkproof.chaos.services.ports import free_ports, is_free
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable

KIND: Final = "kafka"
FORMAT_SECONDS: Final = 60.0  # takes 1
START_SECONDS: Final = 120.0  # takes 3; three nodes 12; a busy machine five times that
STOP_SECONDS: Final = 20.0  # takes 1; the last of several waits for the others in vain
DEATH_SECONDS: Final = 30.0
LOOK_AGAIN_SECONDS: Final = 0.05  # whether a broker answers
PORT_TAKEN: Final = "Address already in use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What one version is run with."""

    java: str
    libs: str  # the folder of the jars
    options: tuple[str, ...] = ()  # of the JVM


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a new cluster should be like."""

    nodes: int = 1
    port: int = 0  # of the first node, the others follow; 0: any that is free
    settings: Mapping[str, str] = field(default_factory=dict)  # of the brokers; they win over ours
    features: tuple[str, ...] = ()  # name=level
    owner: int | None = None  # the process that it ends with: None: this one; 0: none, it runs until it is stopped


class PortTaken(ServiceFailed):
    """Between being found free and being used."""


class LocalKafka:
    """See Service. Made by `start_kafka`, or from the entry of one that runs."""

    name = KIND

    def __init__(self, kept: Kept, *, owned: bool) -> None:
        self._kept, self._owned = kept, owned
        details = kept.entry.details
        self.installation = Installation(**details["installation"])
        self.spec = KafkaSpec(**{**details["spec"], "nodes": [Node(**node) for node in details["spec"]["nodes"]]})

    @classmethod
    def attach(cls, entry: Entry) -> LocalKafka:
        return cls(Kept(entry), owned=False)

    @property
    def endpoint(self) -> str:
        return ",".join(node.address for node in self.spec.nodes)

    direct_endpoint = endpoint

    @property
    def node_count(self) -> int:
        return len(self.spec.nodes)

    @property
    def entry(self) -> Entry:
        """By which another process finds it."""
        return self._kept.entry

    @property
    def owner(self) -> int:
        """The process that it ends with; 0: it runs until it is stopped."""
        return self.entry.owner

    @property
    def folder(self) -> Path:
        """Logs and data; gone when the service is closed."""
        return self._kept.folder

    # -- nodes ------------------------------------------------------------------------------------

    def start(self, *, node: int | None = None) -> None:
        deadline = Deadline(START_SECONDS)
        chosen = [one for one in self._chosen(node) if not self._kept.lives(one.name)]
        for one in chosen:
            self._kept.spawn(one.name, self._java(one, "kafka.Kafka", str(self._properties(one))))
        for one in chosen:
            self._await_ready(one, deadline)

    def stop(self, *, node: int | None = None) -> None:
        deadline = Deadline(STOP_SECONDS)
        for one in self._living(node):
            self._kept.signal(one.name, signal.SIGTERM)
            self._kept.signal(one.name, signal.SIGCONT)  # a paused one does not hear the other
        for one in self._living(node):
            if not self._kept.await_end(one.name, deadline):
                self.kill(node=one.number)

    def kill(self, *, node: int | None = None) -> None:
        living = self._living(node)
        for one in living:
            self._kept.signal(one.name, signal.SIGKILL)
        deadline = Deadline(DEATH_SECONDS)
        for one in living:
            if not self._kept.await_end(one.name, deadline):
                raise self._failed(one, f"does not die of SIGKILL within {DEATH_SECONDS:.0f} s")

    def pause(self, *, node: int | None = None) -> None:
        self._signal_and_await(node, signal.SIGSTOP, stopped=True)

    def resume(self, *, node: int | None = None) -> None:
        self._signal_and_await(node, signal.SIGCONT, stopped=False)

    def restart(self, *, node: int | None = None) -> None:
        self.stop(node=node)
        self.start(node=node)

    def died_by_itself(self) -> str:
        fates = self._kept.fates()
        dead = [
            f"{name} ended with status {fate.status}; it last said: {self._said(name)}"
            for name, fate in sorted(fates.items())
            if fate.status is not None and not fate.ordered and name.startswith("node-")
        ]
        return "\n".join(dead)

    def living(self) -> list[int]:
        """The numbers of the nodes that run, paused or not."""
        return [one.number for one in self._living(None)]

    def pid(self, node: int) -> int:
        """Of its last process."""
        fate = self._kept.fate(self._chosen(node)[0].name)
        return 0 if fate is None else fate.pid

    def close(self) -> None:
        if self._owned:
            self.end()

    def end(self) -> None:
        """Whoever runs it: `services stop`."""
        self._kept.end()

    def __enter__(self) -> LocalKafka:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside -----------------------------------------------------------------------------------

    def format(self) -> None:
        """Once, before the first start: every node is told its cluster and who votes."""
        cluster_id = base64.urlsafe_b64encode(hashlib.sha256(str(self.folder).encode()).digest()[:16]).decode()
        cluster_id = "A" + cluster_id.rstrip("=")[1:]  # a name that begins with a dash would be an option
        for one in self.spec.nodes:
            self._properties(one).write_text(self.spec.properties(one, self.folder))
            self._logging(one).write_text(LOGGING.format(self.folder / f"{one.name}.log"))
            features = [word for feature in self.spec.features for word in ("--feature", feature)]
            what = ["format", "--cluster-id", cluster_id, "--config", str(self._properties(one)), *features]
            self._kept.spawn(f"format-{one.number}", self._java(one, "kafka.tools.StorageTool", *what))
        deadline = Deadline(FORMAT_SECONDS)
        for one in self.spec.nodes:
            name = f"format-{one.number}"
            self._kept.await_end(name, deadline)
            fate = self._kept.fate(name)
            if fate is None or fate.status != 0:
                raise ServiceFailed(
                    f"Kafka {self.spec.version} cannot prepare the folder of {one.name}",
                    evidence=self._kept.said(name) or f"status {fate and fate.status}",
                    next_step="Check the settings and features that were asked for",
                )

    def _java(self, node: Node, main: str, *arguments: str) -> list[str]:
        heap = "256m" if len(self.spec.nodes) == 1 else "320m"
        logging = f"-Dlog4j2.configurationFile={self._logging(node)}"
        where = [f"-Djava.io.tmpdir={self.folder}", f"-XX:ErrorFile={self.folder}/{node.name}.crash", logging]
        options = [f"-Xmx{heap}", f"-Xms{heap}", *CONTAINED, *self.installation.options, *self.spec.java_options]
        path = class_path(Path(self.installation.libs))
        return [self.installation.java, *options, *where, "-cp", path, main, *arguments]

    def _properties(self, node: Node) -> Path:
        return self.folder / f"{node.name}.properties"

    def _logging(self, node: Node) -> Path:
        return self.folder / f"{node.name}.log4j2.xml"

    def _chosen(self, number: int | None) -> list[Node]:
        chosen = [node for node in self.spec.nodes if number in (None, node.number)]
        if not chosen:
            raise ServiceUnavailable(
                f"there is no node {number}", evidence=f"this cluster has {self.node_count}", next_step="Name another"
            )
        return chosen

    def _living(self, number: int | None) -> list[Node]:
        fates = self._kept.fates()
        return [node for node in self._chosen(number) if node.name in fates and fates[node.name].status is None]

    def _await_ready(self, node: Node, deadline: Deadline) -> None:
        while (fate := self._kept.fate(node.name)) is not None and fate.status is None:
            if is_ready(node.address, node=node.number, nodes=len(self._living(None))):
                return
            if deadline.over:
                raise self._failed(node, "does not answer in time")
            pause(fate.pid, LOOK_AGAIN_SECONDS)
        if PORT_TAKEN in self._said(node.name):
            raise PortTaken(
                f"{node.name} cannot listen at {node.address}", evidence=PORT_TAKEN, next_step="Choose another port"
            )
        raise self._failed(node, "died while it was starting")

    def _signal_and_await(self, number: int | None, what: signal.Signals, *, stopped: bool) -> None:
        living = self._living(number)
        for one in living:
            self._kept.signal(one.name, what)
        deadline = Deadline(DEATH_SECONDS)
        for one in living:
            if not self._kept.await_stopped(one.name, stopped, deadline):
                raise self._failed(one, f"does not heed {what.name}")

    def _said(self, name: str) -> str:
        return tail(self.folder / f"{name}.log") + "\n" + self._kept.said(name)

    def _failed(self, node: Node, what: str) -> ServiceFailed:
        return ServiceFailed(
            f"{node.name} of Kafka {self.spec.version} {what}",
            evidence=f"it last said:\n{self._said(node.name).strip()}",
            next_step="`sinkproof doctor` says whether memory or disk are short",
        )


def start_kafka(installation: Installation, wanted: Wanted, *, version: str) -> LocalKafka:
    """A new cluster, ready to be used. Ports that somebody else takes at the last moment are chosen again."""
    attempts = 1 if wanted.port else 3
    while True:
        attempts -= 1
        service = _reserve(installation, wanted, version)
        try:
            service.format()
            service.start()
            return service
        except PortTaken:
            service.end()
            if not attempts:
                raise
        except BaseException:
            service.end()
            raise


def _reserve(installation: Installation, wanted: Wanted, version: str) -> LocalKafka:
    """Ports and entry, one process at a time."""
    owner = os.getpid() if wanted.owner is None else wanted.owner
    with locked(running_folder() / ".lock"):
        ports = _ports(wanted)
        nodes = [
            Node(number=number, port=port, controller_port=controller_port)
            for number, (port, controller_port) in enumerate(ports, 1)
        ]
        spec = KafkaSpec(version=version, nodes=nodes, settings=dict(wanted.settings), features=wanted.features)
        details = {"installation": asdict(installation), "spec": asdict(spec)}
        return LocalKafka(keep(KIND, details, owner=owner), owned=True)


def _ports(wanted: Wanted) -> Iterable[tuple[int, int]]:
    taken = {
        port
        for entry in running(KIND)
        for node in entry.details["spec"]["nodes"]
        for port in (node["port"], node["controller_port"])
    }
    if not wanted.port:
        ports = free_ports(2 * wanted.nodes, taken=taken)
        return list(zip(ports[::2], ports[1::2], strict=True))
    named = range(wanted.port, wanted.port + wanted.nodes)
    if busy := [port for port in named if port in taken or not is_free(port)]:
        raise ServiceUnavailable(
            f"port {busy[0]} is in use",
            evidence="somebody listens there, or a service of ours has reserved it",
            next_step="Choose another one, or none: a free one is found",
        )
    return list(zip(named, free_ports(wanted.nodes, taken=taken | set(named)), strict=True))
