"""Which external systems a certification uses: the choice of the command line, as one value for every process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sinkproof.chaos.services.choose_service import Kind

TOXIPROXY_NETWORK: Final = "toxiproxy"  # and the name of its kind of service
KAFKA: Final = "kafka"  # the name of its kind: every attempt imports this module, and few need a broker


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """Where a field is empty, the user's variables decide: SINKPROOF_KAFKA, SINKPROOF_SERVICES and so on."""

    kafka: str = ""  # "local", "container" or "external:HOST:PORT[,HOST:PORT][@FILE]"
    kafka_version: str = ""
    network: str = ""  # "toxiproxy": sinks reach services that this certification started through that proxy
    nodes: int = 1  # of each service that is started
    inside_service: bool = False  # services are killed between two of their own writes, too
    services: str = ""  # "local" or "container", for every kind that can be both

    @property
    def through_toxiproxy(self) -> bool:
        return self.network == TOXIPROXY_NETWORK

    def address(self, kind: Kind[Any]) -> str:
        """Where this kind is: "local", "container", "external:HOST:PORT[,HOST:PORT]..."; "" where nothing says it."""
        named = self.kafka if kind.name == KAFKA else ""
        return named or kind.where_to_look(everywhere=self.services)

    def version(self, kind: Kind[Any]) -> str:
        """Of a service that is started; "" for the kind's default."""
        named = self.kafka_version if kind.name == KAFKA else ""
        return named or kind.version_named()


DEFAULT_SERVICES: Final = ServiceOptions()
