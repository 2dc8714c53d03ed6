"""Where a sink finds a service: at its own address, or, with `--network toxiproxy`, at that of a proxy before it."""

from __future__ import annotations

import os
from typing import Final

from sinkproof.chaos.services.local_service import LocalService
from sinkproof.chaos.services.toxiproxy.toxic_network import Network
from sinkproof.chaos.services.toxiproxy.toxiproxy_server import TOXIPROXY
from sinkproof.subject.services_in_use import InUse, service_in_use

VARIABLE: Final = "SINKPROOF_NETWORK"
TOXIC: Final = "toxiproxy"


def is_toxic() -> bool:
    return os.environ.get(VARIABLE) == TOXIC


def way_to(used: InUse) -> str:
    """Only what is ours is led through a proxy."""
    service = used.service
    if not (is_toxic() and used.own and isinstance(service, LocalService)):
        return service.endpoint
    toxiproxy = Network(service_in_use(TOXIPROXY, start=True).service.endpoint)
    return service.lead_through(lambda address: toxiproxy.lead_to(f"{service.name}-{address}", address))
