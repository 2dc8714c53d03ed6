"""The base class of services with nodes on this machine (processes or containers): start, stop, kill, pause."""

from __future__ import annotations

import os
import re
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.cache_folders import locked, running_folder
from sinkproof.chaos.services.ports import HOST, free_ports, is_free
from sinkproof.chaos.services.running_services import Entry, ServiceHandle, await_exit, new_service, running, tail
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable
from sinkproof.chaos.system_calls.watched_program import NotWatched

START_SECONDS: Final = 120.0  # one node takes at most 5, three take 12; on a busy machine five times as long
STOP_SECONDS: Final = 20.0  # it takes one; the last of several Kafka nodes waits for the others until this is over
DEATH_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05  # between two checks whether a node is ready
PORT_TAKEN: Final = "ddress already in use"  # Java and Go differ in the first letter
PORT_TRIALS: Final = 3
PORTS: Final = "ports"  # in the details of an entry
BREAKABLE: Final = "breakable"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedService:
    """The options of a new service."""

    nodes: int = 1
    port: int = 0  # of the first node, the next ones follow; 0: any free port
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the nodes; they override ours
    features: tuple[str, ...] = ()  # of Kafka: name=level
    java_options: tuple[str, ...] = ()  # of Kafka: they override ours
    breakable: bool = False  # faults will be injected: clients of Kafka connect through messages/message_proxy.py
    shared: tuple[Path, ...] = ()  # of a Spark cluster: folders that all hosts see, although they lie in their own ones
    owner: int | None = None  # the pid that it ends with; None: this process; 0: none, it runs until it is stopped

    @property
    def ports_named(self) -> Sequence[int]:
        return range(self.port, self.port + self.nodes) if self.port else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceNode:
    """One process of a service."""

    number: int = 1  # from 1
    host: str = HOST
    port: int

    @property
    def name(self) -> str:
        """The name of its process in the daemon."""
        return f"node-{self.number}"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class PortTaken(ServiceFailed):
    """The port was taken between the search for a free port and its use."""


class LocalService(ABC):
    """Implements Service. Its entry has all of its properties, so that every process can attach to it."""

    name: ClassVar[str]  # also the kind of its entries
    title: ClassVar[str]  # in messages
    alike: ClassVar[Sequence[tuple[re.Pattern[str], str]]] = ()  # paths below a data folder that one name stands for

    def __init__(self, handle: ServiceHandle, *, owned: bool) -> None:
        self._handle, self._owned = handle, owned
        self.on_spawn: Callable[[int], None] | None = None  # gets the listener of a new node's system calls

    @classmethod
    def attach(cls, entry: Entry) -> Self:
        return cls(ServiceHandle(entry), owned=False)

    # -- what each kind defines ---------------------------------------------------------------------

    @property
    @abstractmethod
    def nodes(self) -> Sequence[ServiceNode]: ...

    @property
    @abstractmethod
    def version(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that were requested for its nodes."""
        return {}

    def data_folder(self, node: Any) -> Path:
        """What one of `nodes` finds again when it is restarted, and nothing else."""
        return self.folder / f"{node.name}-data"

    def lead_through(self, way: Callable[[str], str]) -> str:
        """The endpoint for sinks behind a second proxy. `way`: the address of the proxy before an address."""
        return way(self.direct_endpoint)

    @property
    def image(self) -> str:
        """The image of its nodes' containers; "": no containers."""
        return ""

    @abstractmethod
    def prepare(self) -> None:
        """Called once, before the first start."""

    @abstractmethod
    def command(self, node: Any) -> list[str]:
        """The command line of one of `nodes`."""

    @abstractmethod
    def is_ready(self, node: Any) -> bool:
        """Whether the node serves clients."""

    # -- what they share --------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        return self.folder.name  # never used twice

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
        """The entry by which another process finds this service."""
        return self._handle.entry

    @property
    def owner(self) -> int:
        """The pid that it ends with; 0: it runs until it is stopped."""
        return self.entry.owner

    @property
    def folder(self) -> Path:
        """Logs and data; removed when the service is closed."""
        return self._handle.folder

    def how_to_use(self) -> Sequence[str]:
        """Lines for the user beside its address."""
        return ()

    def start(self, *, node: int | None = None) -> None:
        deadline = Deadline(START_SECONDS)
        chosen = [one for one in self.chosen(node) if not self._handle.lives(one.name)]
        for one in chosen:
            self._spawn(one)
        for one in chosen:
            self._await_ready(one, deadline)

    def stop(self, *, node: int | None = None) -> None:
        deadline = Deadline(STOP_SECONDS)
        for one in self.living_nodes(node):
            self._handle.signal(one.name, signal.SIGTERM)
            self._handle.signal(one.name, signal.SIGCONT)  # a paused process handles SIGTERM only after SIGCONT
        for one in self.living_nodes(node):
            if not self._handle.await_end(one.name, deadline):
                self.kill(node=one.number)

    def kill(self, *, node: int | None = None) -> None:
        living = self.living_nodes(node)
        for one in living:
            self._handle.signal(one.name, signal.SIGKILL)
        deadline = Deadline(DEATH_SECONDS)
        for one in living:
            if not self._handle.await_end(one.name, deadline):
                raise self._failed(one, f"does not die of SIGKILL within {DEATH_SECONDS:.0f} s")

    def pause(self, *, node: int | None = None) -> None:
        self._signal_and_await(node, signal.SIGSTOP, stopped=True)

    def resume(self, *, node: int | None = None) -> None:
        self._signal_and_await(node, signal.SIGCONT, stopped=False)

    def restart(self, *, node: int | None = None) -> None:
        self.stop(node=node)
        self.start(node=node)

    def died_by_itself(self) -> str:
        statuses = self._handle.statuses()
        dead = [
            f"{name} ended with status {status.exit_status}; its last output: {self.last_output(name)}"
            for name, status in sorted(statuses.items())
            if status.exit_status is not None and not status.end_requested and name.startswith("node-")
        ]
        return "\n".join(dead)

    def living(self) -> list[int]:
        """The numbers of the running nodes, paused or not."""
        return [one.number for one in self.living_nodes(None)]

    def pid(self, node: int) -> int:
        """The pid of the node's last process; 0 if it was never started."""
        status = self._handle.status_of(self.chosen(node)[0].name)
        return 0 if status is None else status.pid

    def close(self) -> None:
        if self._owned:
            self.end()

    def disown(self) -> None:
        """It runs until it is stopped, and no longer ends with this process."""
        self._handle.disown()

    def end(self) -> None:
        """Ends the service, also if another process started it (`services stop`)."""
        self._handle.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def strike(self, node: Any) -> None:
        """SIGKILL to one of `nodes`; does not wait for its death."""
        self._handle.signal(node.name, signal.SIGKILL)

    def await_death(self, node: Any) -> int:
        """Of one that was struck: its exit status, as Popen.returncode."""
        if not self._handle.await_end(node.name, Deadline(DEATH_SECONDS)):
            raise self._failed(node, f"does not die of SIGKILL within {DEATH_SECONDS:.0f} s")
        status = self._handle.status_of(node.name)
        return 0 if status is None or status.exit_status is None else status.exit_status

    # -- inside -----------------------------------------------------------------------------------

    def _spawn(self, node: ServiceNode) -> None:
        if self.on_spawn is None:
            self._handle.spawn(node.name, self.command(node), image=self.image)
        else:
            if self.image:
                raise NotWatched("the system calls of a container are not watched: leave out `container`")
            self.on_spawn(self._handle.spawn_watched(node.name, self.command(node)))

    def chosen(self, number: int | None) -> list[Any]:
        chosen = [node for node in self.nodes if number in (None, node.number)]
        if not chosen:
            raise ServiceUnavailable(
                f"there is no node {number}", evidence=f"this cluster has {self.node_count}", next_step="Name another"
            )
        return chosen

    def living_nodes(self, number: int | None) -> list[Any]:
        living = {name for name, status in self._handle.statuses().items() if status.exit_status is None}
        return [node for node in self.chosen(number) if node.name in living]

    def last_output(self, name: str) -> str:
        """The end of its log and of its output."""
        return f"{tail(self.folder / f'{name}.log')}\n{self._handle.last_output(name)}".strip()

    def _await_ready(self, node: ServiceNode, deadline: Deadline) -> None:
        while (status := self._handle.status_of(node.name)) is not None and status.exit_status is None:
            if self.is_ready(node):
                return
            if deadline.over:
                raise self._failed(node, "does not reply in time")
            await_exit(status.pid, POLL_SECONDS)
        if PORT_TAKEN in self.last_output(node.name):
            raise PortTaken(
                f"{node.name} cannot listen at {node.address}",
                evidence="another process has taken the port",
                next_step="Choose another one",
            )
        raise self._failed(node, "died while it was starting")

    def _signal_and_await(self, number: int | None, what: signal.Signals, *, stopped: bool) -> None:
        living = self.living_nodes(number)
        for one in living:
            self._handle.signal(one.name, what)
        deadline = Deadline(DEATH_SECONDS)
        for one in living:
            if not self._handle.await_stopped(one.name, stopped, deadline):
                raise self._failed(one, f"does not react to {what.name}")

    def _failed(self, node: ServiceNode, what: str) -> ServiceFailed:
        return ServiceFailed(
            f"{node.name} of {self.title} {self.version} {what}",
            evidence=f"its last output:\n{self.last_output(node.name)}",
            next_step="`sinkproof doctor` checks whether memory or disk space is short",
        )


Made = TypeVar("Made", bound=LocalService)


def started(service_type: type[Made], wanted: WantedService, reserve: Callable[[], dict[str, Any]]) -> Made:
    """A new service that is ready for clients. If another process takes one of its ports first, ports are chosen again.

    `reserve` returns the details of its entry, which contain the ports. A lock allows one process at a time to call it.
    """
    trials = 1 if wanted.port else PORT_TRIALS
    owner = wanted.owner or os.getpid()  # until it is ready: what is killed while it starts leaves nothing
    while True:
        trials -= 1
        with locked(running_folder() / ".lock"):
            service = service_type(new_service(service_type.name, reserve(), owner=owner), owned=True)
        try:
            service.prepare()
            service.start()
            if wanted.owner == 0:
                service.disown()
            return service
        except PortTaken:
            service.end()
            if not trials:
                raise
        except BaseException:
            service.end()
            raise


def ports_for(count: int, *, named: Sequence[int] = ()) -> list[int]:
    """`named`, then free ports. None of them is reserved by another entry, even if that service is down."""
    taken = {port for entry in running() for port in entry.details.get(PORTS, ())}
    if busy := [port for port in named if port in taken or not is_free(port)]:
        raise ServiceUnavailable(
            f"port {busy[0]} is in use",
            evidence="another process listens there, or a service of sinkproof has reserved it",
            next_step="Choose another port, or none: a free port is found",
        )
    return [*named, *free_ports(count - len(named), taken=taken | set(named))]
