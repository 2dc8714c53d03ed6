"""Breaks the services of a certification, and restores them: which node, for how long, and what failed to come back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Timer
from typing import Final

from sinkproof.chaos.faults.toxics import TOXICS
from sinkproof.chaos.services.local_service import LocalService
from sinkproof.chaos.services.service import ServiceError, ServiceUnavailable
from sinkproof.subject.heartbeat import heartbeat
from sinkproof.subject.services_in_use import ServicesInUse

# Longer than our clients wait for an answer (2 s), so that a request that they gave up still takes effect; shorter than
# the time after which engines count a call as hung (10 s).
PAUSE_SECONDS: Final = 2.5


class Outages:
    """Broken services, until they are restored.

    Of several nodes one is away for a while, the second one first, while the sinks continue. A single node is restarted
    at once, and the caller blocks until it answers again; requests without an answer are what the pause fault shows.
    """

    def __init__(self, services: ServicesInUse) -> None:
        self._services = services
        self._timers: list[Timer] = []
        self._failed: list[ServiceError] = []

    def begin(self, how: str) -> None:
        """How: "kill", "stop", "pause", or one of TOXICS. `await_end` waits for what is restored after a while. Raises
        ServiceError.
        """
        if how in TOXICS:
            self._begin_on_network(how)
            return
        breakable = self._services.breakable()
        if not breakable:
            raise ServiceUnavailable(
                "no external system can be broken here",
                evidence="the contract uses none, or one that is not its own",
                next_step="Call scratch.service(..., start=True) in `setup`, and name no external one",
            )
        turn = len(self._timers) + 1
        for service in breakable:
            self._break(service, how, node=turn % service.node_count + 1 if service.node_count > 1 else None)

    def _break(self, service: LocalService, how: str, *, node: int | None) -> None:
        {"kill": service.kill, "stop": service.stop, "pause": service.pause}[how](node=node)
        heal = partial(service.resume if how == "pause" else service.start, node=node)
        if how == "pause" or node is not None:
            self._later(heal)
            return
        with heartbeat(f"{service.title} is started again", self._services.report):
            heal()

    def _begin_on_network(self, how: str) -> None:
        through = self._services.network()
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

        self._timers.append(timer := Timer(PAUSE_SECONDS, healed))
        timer.start()

    def await_end(self) -> None:
        """On return every service is restored. Raises ServiceError if one does not come back."""
        for timer in self._timers:
            timer.join()
        failed, self._failed = self._failed, []
        self._timers.clear()
        if failed:
            raise failed[0]
