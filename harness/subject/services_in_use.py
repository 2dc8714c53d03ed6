"""The external systems of one certification: started by the process that outlives all attempts, found by the others."""

from __future__ import annotations

import os
from atexit import register as at_exit  # the true one: that of the module ignores what a subject's calls lead to
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from sinkproof.chaos.messages.message_points import MessageFaults
from sinkproof.chaos.services.choose_service import EXTERNAL, LOCAL, Kind
from sinkproof.chaos.services.local_service import BREAKABLE, LocalService, WantedService
from sinkproof.chaos.services.running_services import running
from sinkproof.chaos.services.service import Service
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.heartbeat import Report, heartbeat, no_report
from sinkproof.subject.service_options import DEFAULT_SERVICES, TOXIPROXY_NETWORK, ServiceOptions

if TYPE_CHECKING:
    from sinkproof.chaos.services.toxiproxy.toxic_network import Network

NO_SETTINGS: Final[Mapping[str, Any]] = {}
AwaitSettled = Callable[[Service], None]


def nothing_pending(service: Service) -> None:
    """For a kind that finishes each request before it answers."""


class InUse(NamedTuple):
    service: Service
    own: bool  # it ends with this certification, which may break it


class ServicesInUse:
    """The services that one scratch's contract uses, as one process knows them. `own`: by kind, those that the
    certification started and may break. `used`: kinds that the contract requested here, external ones included.

    A copy in another process (a worker, an attempt, a Spark task) holds the options only. It finds a service that this
    process or its nearest ancestor started in the folder of running services.
    """

    def __init__(
        self, *, options: ServiceOptions = DEFAULT_SERVICES, apart: bool = False, report: Report = no_report
    ) -> None:
        """`apart`: ignore services of this process's ancestors, which break them for runs of their own. `report` is
        called every few seconds while a service starts.
        """
        self.options, self.report = options, report
        self.own: dict[str, LocalService] = {}
        self.used: set[str] = set()
        self._await_settled: dict[str, AwaitSettled] = {}
        self._ignored_owners = {*ancestors()} - {os.getpid()} if apart else set[int]()

    def __reduce__(self) -> tuple[partial[ServicesInUse], tuple[()]]:
        return partial(type(self), options=self.options), ()

    def breakable(self) -> list[LocalService]:
        """What the contract uses and no other certification does. The proxy has network faults of its own."""
        own = [service for name, service in self.own.items() if name != TOXIPROXY_NETWORK]
        family = ancestors() if own else {}  # it reads a file for each: 0.2 ms, several times in each run
        return [service for service in own if service.owner in family]

    def network(self) -> Network | None:
        """The toxiproxy between the sinks and their services, if there is one."""
        toxiproxy = self.own.get(TOXIPROXY_NETWORK)
        return None if toxiproxy is None else _network_of(toxiproxy)

    def proxies(self) -> list[MessageFaults]:
        """The message proxies between the sinks and their brokers."""
        found = [getattr(service, "messages", None) for service in self.breakable()]
        return [proxy for proxy in found if proxy is not None]

    def await_settled(self) -> None:
        """Returns when no message is on its way to a service and no service has work pending."""
        for proxy in self.proxies():
            proxy.await_landing()
        for name, service in self.own.items():
            self._await_settled[name](service)

    def find(
        self,
        kind: Kind[Any],
        *,
        start: bool,
        settings: Mapping[str, Any] = NO_SETTINGS,
        await_settled: AwaitSettled = nothing_pending,
    ) -> InUse:
        """The external service that the options or the kind's variable name; else what this process or its nearest
        ancestor has started; else, with `start`, a new one, which ends with this process; else the one of
        `services start`. `settings` are those of its nodes: a service with other settings is another service.

        Raises LookupError if there is none, and ReaderFailed if it died by itself: rows that are gone with it convict
        no sink.
        """
        self.used.add(kind.name)
        self._await_settled[kind.name] = await_settled
        address = self.options.address(kind)
        if self.options.inside_service:
            settings = {**kind.settings_inside, **settings}
        found = None if address.startswith(EXTERNAL) else self._nearest(kind, settings)
        if found is None and (start or address.startswith(EXTERNAL)):
            return self._start(kind, address or LOCAL, settings)
        own = found is not None
        service = found or (None if settings else kind.running())
        if service is None:
            raise LookupError(
                f"no {kind.title} runs. Call scratch.service({kind.name!r}, start=True) in the contract's `setup`, "
                f"or run: sinkproof services start {kind.name}"
            )
        # The owner alone checks: an attempt may connect while the owner has the service stopped.
        if (not own or service.owner == os.getpid()) and (died := service.died_by_itself()):
            raise ReaderFailed(f"has no {kind.title} any more: it died by itself", evidence=died)
        if own:
            self.own[kind.name] = service
        return InUse(service, own)

    def sink_address(self, used: InUse) -> str:
        """Where a sink connects: to the service, or to a proxy before it. Only own services are led through a proxy."""
        service = used.service
        if not (self.options.through_toxiproxy and used.own and isinstance(service, LocalService)):
            return service.endpoint
        from sinkproof.chaos.services.toxiproxy.toxiproxy_server import TOXIPROXY

        toxiproxy = _network_of(self.find(TOXIPROXY, start=True).service)
        return service.lead_through(lambda address: toxiproxy.lead_to(f"{service.name}-{address}", address))

    def _start(self, kind: Kind[Any], where: str, settings: Mapping[str, Any]) -> InUse:
        until_exit = ExitStack()
        wanted = WantedService(breakable=True, settings=settings, nodes=self.options.nodes)
        with heartbeat(f"{kind.title} is started", self.report):
            service = until_exit.enter_context(kind.use(where, version=self.options.version(kind), wanted=wanted))
        if not isinstance(service, LocalService):
            return InUse(service, False)
        at_exit(_close, until_exit, os.getpid())
        self.own[kind.name] = service
        return InUse(service, True)

    def _nearest(self, kind: Kind[Any], settings: Mapping[str, Any]) -> LocalService | None:
        family = ancestors()
        entries = [
            entry
            for entry in running(kind.name)
            if entry.owner in family
            and entry.owner not in self._ignored_owners
            # One without this mark was started for a purpose that needs it whole.
            and entry.details.get(BREAKABLE)
        ]
        near = sorted(entries, key=lambda entry: family[entry.owner])
        found = (kind.service.attach(entry) for entry in near)
        return next((service for service in found if service.settings == settings), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredService:
    """A running service of a kind that another package registers. `endpoint`: for sinks; `direct_endpoint`: for
    readers. `own`: it ends with the certification. `identity`: of the service and its data.
    """

    endpoint: str
    direct_endpoint: str
    identity: str
    own: bool

    @classmethod
    def of(cls, kind: Kind[Any], services: ServicesInUse, *, start: bool, settings: Mapping[str, Any]) -> Self:
        """See ServicesInUse.find."""
        used = services.find(kind, start=start, settings=settings)
        return cls(
            endpoint=services.sink_address(used),
            direct_endpoint=used.service.direct_endpoint,
            identity=used.service.identity,
            own=used.own,
        )


def _network_of(toxiproxy: Service) -> Network:
    from sinkproof.chaos.services.toxiproxy.toxic_network import Network  # 30 ms: every attempt imports this module

    return Network(toxiproxy.endpoint)


def _close(stack: ExitStack, owner: int) -> None:
    """A child that was forked since then runs this handler, too, and must not end the service."""
    if os.getpid() == owner:
        stack.close()


def ancestors() -> dict[int, int]:
    """This process and those above it: pid -> number of steps up."""
    found: dict[int, int] = {}
    pid = os.getpid()
    while pid > 1:
        found[pid] = len(found)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):  # the latter when it ends between open and read
            break
    return found
