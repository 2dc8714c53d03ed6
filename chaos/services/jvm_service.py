"""The base class of services that are JVMs from jars: their installation and the content of their entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from sinkproof.chaos.services.installation import Installation
from sinkproof.chaos.services.jars import Artifact, resolved
from sinkproof.chaos.services.jvm import find_java
from sinkproof.chaos.services.local_service import BREAKABLE, PORTS, LocalService, WantedService
from sinkproof.chaos.services.running_services import CONTAINED, ServiceHandle
from sinkproof.chaos.services.service import Progress, ServiceUnavailable
from sinkproof.chaos.services.service_class_archive import with_classes


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
        return str(self.installation.image)

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


def jars_name(service: type[LocalService], version: str) -> str:
    return f"{service.name}-{version}"


def installed(
    artifacts: Sequence[Artifact],
    start: Callable[..., LocalService],
    *,
    service: type[LocalService],
    version: str,
    like: str,
    progress: Progress,
) -> Installation:
    """Resolves jars and makes the archive of classes if they are missing. `like`: an example of a version."""
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?(-\w+)?", version):
        raise ServiceUnavailable(
            f"{version!r} is no version of {service.title}",
            evidence=f"a version is like {like}",
            next_step="Name a released version",
        )
    java = find_java()
    libs = resolved(jars_name(service, version), artifacts, progress=progress)
    return with_classes(
        Installation(java=java, libs=str(libs)),
        lambda training: start(training, WantedService(), version=version),
        what=f"{service.title} {version}",
        progress=progress,
    )
