"""The external systems of one certification: started by the process that outlives all attempts, and found by them."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any, Final, NamedTuple

from sinkproof.chaos.faults.toxics import TOXICS
from sinkproof.chaos.messages.message_points import MessageFaults
from sinkproof.chaos.services.local_service import BREAKABLE, LocalService, WantedService
from sinkproof.chaos.services.running_services import running
from sinkproof.chaos.services.service import Service, ServiceError, ServiceUnavailable
from sinkproof.chaos.services.service_kind import EXTERNAL, LOCAL, Kind
from sinkproof.chaos.services.toxiproxy.toxic_network import Network
from sinkproof.chaos.services.toxiproxy.toxiproxy_server import TOXIPROXY
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.heartbeat import waiting


class InUse(NamedTuple):
    service: Service
    own: bool  # it ends with this certification, which may break it


# Longer than our clients wait for an answer (2 s), so that what they have given up waiting for is done all the same;
# shorter than what engines take for a hung call (10 s).
PAUSE_SECONDS: Final = 2.5
NO_SETTINGS: Final[Mapping[str, Any]] = {}
NODES: Final = "SINKPROOF_NODES"  # in the environment: campaigns are processes of their own
USED: Final[set[str]] = set()  # kinds that somebody in this process has asked for, whoever runs them
APART_FROM: Final[set[int]] = set()
RESTING: Final[dict[str, Callable[[Service], None]]] = {}  # by kind: waits for what the system does on its own
OWN: Final[dict[str, LocalService]] = {}  # by kind: what somebody in this process has asked for, and may be broken


def nodes_wanted() -> int:
    """Of each service that a certification starts."""
    return int(os.environ.get(NODES, "1"))


def live_apart() -> None:
    """From here on, what those above this process have started is theirs: it may be broken there, and not here."""
    APART_FROM.update({*ancestors()} - {os.getpid()})


def breakable() -> list[LocalService]:
    """What the contract of this process uses and nobody else does. A proxy before it breaks in ways of its own."""
    return [service for name, service in OWN.items() if name != TOXIPROXY.name and service.owner in ancestors()]


def network() -> Network | None:
    """What is led through toxiproxy here, if anything is."""
    toxiproxy = OWN.get(TOXIPROXY.name)
    return None if toxiproxy is None else Network(toxiproxy.endpoint)


def proxies() -> list[MessageFaults]:
    """Those that stand between the contract of this process and what it uses."""
    found = [getattr(service, "messages", None) for service in breakable()]
    return [proxy for proxy in found if proxy is not None]


def come_to_rest() -> None:
    """Returns when nothing is on its way any more, and nothing half done, in what the contract of this process uses."""
    for proxy in proxies():
        proxy.await_landing()
    for name, service in OWN.items():
        if name in RESTING:
            RESTING[name](service)


class Outages:
    """Broken services, until they are whole again.

    Of several nodes one is away for a while, the second one first, and whoever uses them goes on. Where there is one,
    who acts stands still until it is back: what it is like when nobody answers, pauses show.
    """

    def __init__(self) -> None:
        self._over: list[Timer] = []
        self._failed: list[ServiceError] = []

    def begin(self, how: str) -> None:
        """How: "kill", "stop", "pause", or one of TOXICS. What heals in a while is awaited by `await_end`. Raises
        ServiceError.
        """
        if how in TOXICS:
            self._begin_on_network(how)
            return
        services = breakable()
        if not services:
            raise ServiceUnavailable(
                "no external system can be broken here",
                evidence="the contract uses none, or one that is not its own",
                next_step="Call scratch.service(..., start=True) in `setup`, and name no external one",
            )
        turn = len(self._over) + 1
        for service in services:
            self._break(service, how, node=turn % service.node_count + 1 if service.node_count > 1 else None)

    def _break(self, service: LocalService, how: str, *, node: int | None) -> None:
        {"kill": service.kill, "stop": service.stop, "pause": service.pause}[how](node=node)
        heal = partial(service.resume if how == "pause" else service.start, node=node)
        if how == "pause" or node is not None:
            self._later(heal)
            return
        with waiting(f"{service.title} is started again"):
            heal()

    def _begin_on_network(self, how: str) -> None:
        through = network()
        if through is None:
            raise ServiceUnavailable(
                "there is no network that can be broken here",
                evidence="the sink is not led through a proxy, or uses no service of ours",
                next_step="Add --network toxiproxy",
            )
        through.break_connections(how)
        self._later(through.heal)

    def _later(self, heal: Callable[[], None]) -> None:
        def healed() -> None:
            try:
                heal()
            except ServiceError as error:
                self._failed.append(error)

        self._over.append(timer := Timer(PAUSE_SECONDS, healed))
        timer.start()

    def await_end(self) -> None:
        """On return everything is whole again. Raises ServiceError if something does not come back."""
        for timer in self._over:
            timer.join()
        failed, self._failed = self._failed, []
        self._over.clear()
        if failed:
            raise failed[0]


def service_in_use(kind: Kind[Any], *, start: bool, settings: Mapping[str, Any] = NO_SETTINGS) -> InUse:
    """What the kind's variable names; else what this process, or its nearest ancestor, has started; else, with
    `start`, a new one, which ends with this process; else the one of `services start`. `settings`: of its nodes; one
    that was started with others is another one.

    Raises ReaderFailed if it has died by itself: rows that are gone with it convict nobody.
    """
    USED.add(kind.name)
    named = kind.where_to_look()
    found = None if named.startswith(EXTERNAL) else _nearest(kind, settings)
    if found is None and (start or named.startswith(EXTERNAL)):
        return _brought(kind, named or LOCAL, settings)
    own = found is not None
    service = found or (None if settings else kind.running())
    if service is None:
        raise LookupError(
            f"no {kind.title} runs. Call scratch.service({kind.name!r}, start=True) in the contract's `setup`, "
            f"or run: sinkproof services start {kind.name}"
        )
    if (not own or service.owner == os.getpid()) and (died := service.died_by_itself()):  # an attempt need not know
        raise ReaderFailed(f"has no {kind.title} any more: it died by itself", evidence=died)
    if own:
        OWN[kind.name] = service
    return InUse(service, own)


def _brought(kind: Kind[Any], where: str, settings: Mapping[str, Any]) -> InUse:
    until_exit, version = ExitStack(), os.environ.get(kind.variable_of_version, "")
    wanted = WantedService(breakable=True, settings=settings, nodes=nodes_wanted())
    with waiting(f"{kind.title} is started"):
        service = until_exit.enter_context(kind.use(where, version=version, wanted=wanted))
    if not isinstance(service, LocalService):
        return InUse(service, False)
    atexit.register(_close, until_exit, os.getpid())
    OWN[kind.name] = service
    return InUse(service, True)


def _close(stack: ExitStack, owner: int) -> None:
    """Not in a child that was forked since and ends by itself."""
    if os.getpid() == owner:
        stack.close()


def _nearest(kind: Kind[Any], settings: Mapping[str, Any]) -> LocalService | None:
    family = ancestors()
    theirs = (entry for entry in running(kind.name) if entry.owner in family and entry.owner not in APART_FROM)
    entries = [entry for entry in theirs if entry.details.get(BREAKABLE)]  # who starts one otherwise needs it whole
    near = sorted(entries, key=lambda entry: family[entry.owner])
    found = (kind.service.attach(entry) for entry in near)
    return next((service for service in found if service.settings == settings), None)


def ancestors() -> dict[int, int]:
    """This process and all above it, and how far above they are."""
    found: dict[int, int] = {}
    pid = os.getpid()
    while pid > 1:
        found[pid] = len(found)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except FileNotFoundError:
            break
    return found
