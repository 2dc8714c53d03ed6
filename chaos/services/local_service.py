"""What all services have in common that are processes of this machine: nodes that a keeper keeps."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.cache_folders import locked, running_folder
from sinkproof.chaos.services.ports import free_ports, is_free
from sinkproof.chaos.services.running_services import Entry, Kept, pause, running, tail
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable

START_SECONDS: Final = 120.0  # one node takes 5 at most, three 12; a busy machine five times that
STOP_SECONDS: Final = 20.0  # takes 1; the last of several Kafka nodes waits for the others in vain
DEATH_SECONDS: Final = 30.0
LOOK_AGAIN_SECONDS: Final = 0.05  # whether a node answers
PORT_TAKEN: Final = "ddress already in use"  # Java and Go begin it differently
PORT_TRIALS: Final = 3
PORTS: Final = "ports"  # in the details of an entry
BREAKABLE: Final = "breakable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What one version is run with."""

    java: str
    libs: str  # the folder of the jars
    options: tuple[str, ...] = ()  # of the JVM
    image: str = ""  # of the containers that it runs in, where all of this lies at the same paths; "": in none


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a new service should be like."""

    nodes: int = 1
    port: int = 0  # of the first node, the others follow; 0: any that is free
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the nodes; they win over ours
    features: tuple[str, ...] = ()  # of Kafka: name=level
    java_options: tuple[str, ...] = ()  # of Kafka: they win over ours
    breakable: bool = (
        False  # it is there to be broken; sinks of Kafka are led through a proxy (chaos/messages/message_proxy.py)
    )
    owner: int | None = None  # the process that it ends with: None: this one; 0: none, it runs until it is stopped

    @property
    def ports_named(self) -> Sequence[int]:
        return range(self.port, self.port + self.nodes) if self.port else ()


class Node(Protocol):
    """One process of a service."""

    @property
    def number(self) -> int:
        """From 1."""

    @property
    def name(self) -> str:
        """Of its process, for the keeper: it begins with "node-"."""

    @property
    def address(self) -> str: ...


class PortTaken(ServiceFailed):
    """Between being found free and being used."""


class LocalService(ABC):
    """See Service. What it is made of stands in its entry, so that every process may attach to it."""

    name: ClassVar[str]  # the kind of its entries, too
    title: ClassVar[str]  # for people

    def __init__(self, kept: Kept, *, owned: bool) -> None:
        self._kept, self._owned = kept, owned

    @classmethod
    def attach(cls, entry: Entry) -> Self:
        return cls(Kept(entry), owned=False)

    # -- what kinds differ in ---------------------------------------------------------------------

    @property
    @abstractmethod
    def nodes(self) -> Sequence[Node]: ...

    @property
    @abstractmethod
    def version(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """With which its nodes were asked for."""
        return {}

    def lead_through(self, way: Callable[[str], str]) -> str:
        """Where sinks find it when their connections go a way of its own. `way`: the address that leads to another."""
        return way(self.direct_endpoint)

    @property
    def image(self) -> str:
        """Of the containers that its nodes run in; "": in none."""
        return ""

    @abstractmethod
    def prepare(self) -> None:
        """Once, before the first start."""

    @abstractmethod
    def command(self, node: Any) -> list[str]:
        """That runs one of `nodes`."""

    @abstractmethod
    def is_ready(self, node: Any) -> bool:
        """Whether it serves clients."""

    # -- what they share --------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        return self.folder.name  # no two have had the same one

    @property
    def endpoint(self) -> str:
        return ",".join(node.address for node in self.nodes)

    @property
    def direct_endpoint(self) -> str:
        return self.endpoint

    @property
    def node_count(self) -> int:
        return len(self.nodes)

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

    def start(self, *, node: int | None = None) -> None:
        deadline = Deadline(START_SECONDS)
        chosen = [one for one in self.chosen(node) if not self._kept.lives(one.name)]
        for one in chosen:
            self._kept.spawn(one.name, self.command(one), image=self.image)
        for one in chosen:
            self._await_ready(one, deadline)

    def stop(self, *, node: int | None = None) -> None:
        deadline = Deadline(STOP_SECONDS)
        for one in self.living_nodes(node):
            self._kept.signal(one.name, signal.SIGTERM)
            self._kept.signal(one.name, signal.SIGCONT)  # a paused one does not hear the other
        for one in self.living_nodes(node):
            if not self._kept.await_end(one.name, deadline):
                self.kill(node=one.number)

    def kill(self, *, node: int | None = None) -> None:
        living = self.living_nodes(node)
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
            f"{name} ended with status {fate.status}; it last said: {self.said(name)}"
            for name, fate in sorted(fates.items())
            if fate.status is not None and not fate.ordered and name.startswith("node-")
        ]
        return "\n".join(dead)

    def living(self) -> list[int]:
        """The numbers of the nodes that run, paused or not."""
        return [one.number for one in self.living_nodes(None)]

    def pid(self, node: int) -> int:
        """Of its last process."""
        fate = self._kept.fate(self.chosen(node)[0].name)
        return 0 if fate is None else fate.pid

    def close(self) -> None:
        if self._owned:
            self.end()

    def end(self) -> None:
        """Whoever runs it: `services stop`."""
        self._kept.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside -----------------------------------------------------------------------------------

    def chosen(self, number: int | None) -> list[Any]:
        chosen = [node for node in self.nodes if number in (None, node.number)]
        if not chosen:
            raise ServiceUnavailable(
                f"there is no node {number}", evidence=f"this cluster has {self.node_count}", next_step="Name another"
            )
        return chosen

    def living_nodes(self, number: int | None) -> list[Any]:
        fates = self._kept.fates()
        return [node for node in self.chosen(number) if node.name in fates and fates[node.name].status is None]

    def said(self, name: str) -> str:
        """Last, in its log and on its output."""
        return f"{tail(self.folder / f'{name}.log')}\n{self._kept.said(name)}".strip()

    def _await_ready(self, node: Node, deadline: Deadline) -> None:
        while (fate := self._kept.fate(node.name)) is not None and fate.status is None:
            if self.is_ready(node):
                return
            if deadline.over:
                raise self._failed(node, "does not answer in time")
            pause(fate.pid, LOOK_AGAIN_SECONDS)
        if PORT_TAKEN in self.said(node.name):
            raise PortTaken(
                f"{node.name} cannot listen at {node.address}",
                evidence="somebody else has the port by now",
                next_step="Choose another one",
            )
        raise self._failed(node, "died while it was starting")

    def _signal_and_await(self, number: int | None, what: signal.Signals, *, stopped: bool) -> None:
        living = self.living_nodes(number)
        for one in living:
            self._kept.signal(one.name, what)
        deadline = Deadline(DEATH_SECONDS)
        for one in living:
            if not self._kept.await_stopped(one.name, stopped, deadline):
                raise self._failed(one, f"does not heed {what.name}")

    def _failed(self, node: Node, what: str) -> ServiceFailed:
        return ServiceFailed(
            f"{node.name} of {self.title} {self.version} {what}",
            evidence=f"it last said:\n{self.said(node.name)}",
            next_step="`sinkproof doctor` says whether memory or disk are short",
        )


Made = TypeVar("Made", bound=LocalService)


def started(reserve: Callable[[int], Made], wanted: Wanted) -> Made:
    """A new service, ready to be used. Ports that somebody else takes at the last moment are chosen again.

    `reserve(owner)` makes its entry with the ports in it, and is called by one process at a time.
    """
    trials = 1 if wanted.port else PORT_TRIALS
    owner = os.getpid() if wanted.owner is None else wanted.owner
    while True:
        trials -= 1
        with locked(running_folder() / ".lock"):
            service = reserve(owner)
        try:
            service.prepare()
            service.start()
            return service
        except PortTaken:
            service.end()
            if not trials:
                raise
        except BaseException:
            service.end()
            raise


def ports_for(count: int, *, named: Sequence[int] = ()) -> list[int]:
    """`named`, then free ones. None is reserved by a service of ours, even if that is down."""
    taken = {port for entry in running() for port in entry.details.get(PORTS, ())}
    if busy := [port for port in named if port in taken or not is_free(port)]:
        raise ServiceUnavailable(
            f"port {busy[0]} is in use",
            evidence="somebody listens there, or a service of ours has reserved it",
            next_step="Choose another one, or none: a free one is found",
        )
    return [*named, *free_ports(count - len(named), taken=taken | set(named))]
