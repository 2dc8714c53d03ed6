"""Decides which service of a kind is used: the named one, one that runs already, or a new one for this block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic

from sinkproof.chaos.services.cache_folders import locked, running_folder
from sinkproof.chaos.services.external_service import ExternalService
from sinkproof.chaos.services.local_service import Made, WantedService
from sinkproof.chaos.services.running_services import running
from sinkproof.chaos.services.service import Progress, Service, ServiceUnavailable, silent

LOCAL: Final = "local"
EXTERNAL: Final = "external"
CONTAINER: Final = "container"
EVERYWHERE: Final = "SINKPROOF_SERVICES"  # in the environment: "local" or "container", where a kind supports both
PLAIN: Final = WantedService()


@dataclass(frozen=True, kw_only=True)
class Kind(Generic[Made]):
    """One kind of service: how it is installed, started, or found."""

    service: type[Made]
    version: str  # the default
    install: Callable[..., Any]  # (version, progress=): makes, once, the first argument of `start`
    start: Callable[..., Made]  # (result of `install`, wanted, version=)
    count_nodes: Callable[[str], int]  # of the cluster at an address; raises OSError or ValueError
    is_installed: Callable[[str], bool]  # for a version
    made_of: str = "jars"
    nodes: int = 1  # where none are named
    settings_inside: Mapping[str, Any] = field(default_factory=dict)  # of nodes that are killed between two writes
    short_lived: Callable[[Any], Any] = lambda installed: installed  # for frequent starts and little load
    contained: Callable[..., Any] | None = None  # (result of `install`, progress=): the same for containers

    @property
    def name(self) -> str:
        return self.service.name

    @property
    def variable(self) -> str:
        """In the environment: "local", or "external:HOST:PORT", for Kafka also "external:HOST:PORT@FILE"."""
        return f"SINKPROOF_{self.name.upper()}"

    @property
    def variable_of_version(self) -> str:
        """The environment variable with the version to start by default."""
        return f"{self.variable}_VERSION"

    @property
    def title(self) -> str:
        return self.service.title

    @contextmanager
    def use(
        self, where: str, *, version: str = "", wanted: WantedService = PLAIN, progress: Progress = silent
    ) -> Iterator[Service]:
        """`where`: "local", "container", "external:HOST:PORT[,HOST:PORT]", or "": the value of the variable, else the
        service that `services start` has started if it fits, else a new one. A new one ends with the block.
        """
        chosen = where or self.where_to_look()
        kind, _, address = chosen.partition(":")
        if kind == EXTERNAL and address:
            yield ExternalService(address, name=self.name, title=self.title, count_nodes=self.count_nodes)
            return
        if chosen not in ("", LOCAL, *self._others):
            raise ServiceUnavailable(
                f"{chosen!r} names no {self.title}",
                evidence=f"known are {', '.join((LOCAL, *self._others))} and external:HOST:PORT",
                next_step="Name one of them",
            )
        found = None if chosen else self.running(version=version, nodes=wanted.nodes)
        if found is not None:
            yield found
            return
        installation = self.short_lived(self._installed(version or self.version, chosen, progress=progress))
        with self.start(installation, wanted, version=version or self.version) as service:
            yield service

    def version_named(self) -> str:
        """What the version's variable says."""
        return os.environ.get(self.variable_of_version, "")

    def where_to_look(self, *, everywhere: str = "") -> str:
        """What the variable says; else `everywhere`, or the variable for every kind, if this kind can be that."""
        everywhere = everywhere or os.environ.get(EVERYWHERE, "")
        return os.environ.get(self.variable, "") or (everywhere if everywhere in (LOCAL, *self._others) else "")

    @property
    def _others(self) -> tuple[str, ...]:
        return (CONTAINER,) if self.contained else ()

    def _installed(self, version: str, where: str, *, progress: Progress) -> Any:
        installation = self.install(version, progress=progress)
        if where != CONTAINER or self.contained is None:
            return installation
        return self.contained(installation, progress=progress)

    def running(self, *, version: str = "", nodes: int = 0) -> Made | None:
        """The newest service without an owner, of this version and size if they are given."""
        for entry in reversed(running(self.name)):
            service = self.service.attach(entry)
            fits = version in ("", service.version) and nodes in (0, service.node_count)
            if not entry.owner and fits:
                return service
        return None

    def start_detached(
        self, version: str, wanted: WantedService, *, progress: Progress, everywhere: str = ""
    ) -> tuple[Made, bool]:
        """One that runs until it is stopped, and whether it is new. Of two at once the second finds the first's."""
        where = self.where_to_look(everywhere=everywhere)
        installation = self._installed(version, where, progress=progress)

        def report_wait() -> None:
            progress("another one is being started; waiting")

        with locked(running_folder() / f".{self.name}.lock", on_wait=report_wait):
            found = self.running()
            like = version, wanted.nodes, where == CONTAINER
            if found is not None and (found.version, found.node_count, bool(found.image)) == like:
                return found, False
            if found is not None:
                raise ServiceUnavailable(
                    f"{self.title} {found.version} runs already at {found.endpoint}",
                    evidence=f"its nodes: {found.node_count}",
                    next_step=f"Run: sinkproof services stop {self.name}",
                )
            progress(f"starting {self.title} {version}")
            return self.start(installation, wanted, version=version), True
