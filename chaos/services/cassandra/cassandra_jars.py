"""Defines the service kind Cassandra: its version, its jars, and its external form."""

from __future__ import annotations

from functools import partial
from typing import Final

from sinkproof.chaos.services.cassandra.local_cassandra import LocalCassandra, start_cassandra, supports_clients
from sinkproof.chaos.services.container_nodes import in_image
from sinkproof.chaos.services.external_service import ExternalService
from sinkproof.chaos.services.installation import Installation
from sinkproof.chaos.services.jars import Artifact, is_resolved
from sinkproof.chaos.services.jvm_service import installed, jars_name
from sinkproof.chaos.services.service import Progress
from sinkproof.chaos.services.service_class_archive import short_lived
from sinkproof.chaos.services.service_kind import Kind

VERSION: Final = "5.0.9"  # the behaviour that sinks rely on was measured with this version


class ExternalCassandra(ExternalService):
    """A cluster that sinkproof does not run. Its number of nodes is not determined."""

    name = "cassandra"
    title = "Cassandra"

    @staticmethod
    def count_nodes(address: str) -> int:
        if not supports_clients(address):
            raise ValueError("it does not speak Cassandra's native protocol")
        return 1


def install(version: str, *, progress: Progress) -> Installation:
    artifacts = [Artifact("org.apache.cassandra", "cassandra-all", version)]
    return installed(
        artifacts, start_cassandra, service=LocalCassandra, version=version, like=VERSION, progress=progress
    )


CASSANDRA: Final = Kind(
    service=LocalCassandra,
    version=VERSION,
    variable="SINKPROOF_CASSANDRA",
    install=install,
    start=start_cassandra,
    external=ExternalCassandra,
    short_lived=short_lived,
    is_installed=lambda version: is_resolved(jars_name(LocalCassandra, version)),
    contained=partial(in_image, name=LocalCassandra.name),
)
