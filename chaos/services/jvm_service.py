"""The base class of services that are JVMs from jars, and what their kinds have in common: how they are installed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, ClassVar, Final

from sinkproof.chaos.services.choose_service import Kind
from sinkproof.chaos.services.container_nodes import in_image
from sinkproof.chaos.services.jars import Artifact, is_resolved, resolved
from sinkproof.chaos.services.jvm import Installation, find_java
from sinkproof.chaos.services.local_service import BREAKABLE, PORTS, LocalService, Made, WantedService
from sinkproof.chaos.services.running_services import CONTAINED, ServiceHandle
from sinkproof.chaos.services.service import Progress, ServiceUnavailable
from sinkproof.chaos.services.service_class_archive import short_lived, with_classes

NO_SETTINGS: Final[Mapping[str, Any]] = {}


class JvmService(LocalService):
    """Its entry holds the installation and the spec of the cluster, so that every process can attach to it."""

    spec_type: ClassVar[Callable[..., Any]]
    node_type: ClassVar[Callable[..., Any]]

    def __init__(self, handle: ServiceHandle, *, owned: bool) -> None:
        super().__init__(handle, owned=owned)
        details = handle.entry.details
        self.installation = Installation(**details["installation"])
        nodes = [type(self).node_type(**node) for node in details["spec"]["nodes"]]
        self.spec: Any = type(self).spec_type(**{**details["spec"], "nodes": nodes})

    @property
    def nodes(self) -> Sequence[Any]:
        nodes: Sequence[Any] = self.spec.nodes
        return nodes

    @property
    def version(self) -> str:
        return str(self.spec.version)

    @property
    def image(self) -> str:
        return self.installation.image

    @property
    def settings(self) -> Mapping[str, Any]:
        settings: Mapping[str, Any] = self.spec.settings
        return settings


def details_of(installation: Installation, spec: Any, *, ports: Sequence[int], wanted: WantedService) -> dict[str, Any]:
    """The details in the entry of a service that is about to start."""
    return {
        "installation": asdict(installation),
        "spec": asdict(spec),
        PORTS: list(ports),
        BREAKABLE: wanted.breakable,
        CONTAINED: bool(installation.image),
    }


def jvm_kind(
    service: type[Made],
    *,
    version: str,
    artifacts: Callable[[str], Sequence[Artifact]],
    start: Callable[..., Made],
    count_nodes: Callable[[str], int],
    settings_inside: Mapping[str, Any] = NO_SETTINGS,
) -> Kind[Made]:
    """`artifacts`: of a version; resolved, with all that they need, at its first use. Then its classes are archived."""

    def jars_of(chosen: str) -> str:
        return f"{service.name}-{chosen}"

    def install(chosen: str, *, progress: Progress) -> Installation:
        if not re.fullmatch(r"\d+\.\d+(\.\d+)?(-\w+)?", chosen):
            raise ServiceUnavailable(
                f"{chosen!r} is no version of {service.title}",
                evidence=f"a version is like {version}",
                next_step="Name a released version",
            )
        java = find_java()
        return with_classes(
            Installation(java=java, libs=str(resolved(jars_of(chosen), artifacts(chosen), progress=progress))),
            lambda training: start(training, WantedService(), version=chosen),
            what=f"{service.title} {chosen}",
            progress=progress,
        )

    return Kind(
        service=service,
        version=version,
        install=install,
        start=start,
        count_nodes=count_nodes,
        settings_inside=settings_inside,
        short_lived=short_lived,
        is_installed=lambda chosen: is_resolved(jars_of(chosen)),
        contained=partial(in_image, name=service.name),
    )
